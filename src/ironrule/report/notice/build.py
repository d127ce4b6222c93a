"""What a notice says, as plain values for its template: the reasons, and below the line how reliable they are.

What they are worth is said of the whole short rule that the reasons come from, and all its conditions are listed there:
a rule may need a condition that is no reason, and then the reasons alone would be worth less. Each verdict has its own
sentences, and only a proven rule is said to have no exception.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

from ironrule.errors import InputError
from ironrule.report.notice.wording import NoticeWording
from ironrule.report.text import format_plain_constraint
from ironrule.results.ladder import MAX_SHORT_BOUND, Ladder, Rung
from ironrule.results.notice import NoticeOptions
from ironrule.results.reasons import Reason
from ironrule.rule.phrasing import format_outcome, group_conditions
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted


def build_notice(
    ladder: Ladder, options: NoticeOptions, wording: NoticeWording, row: int | None = None
) -> dict[str, Any]:
    """The values of one letter; ``row`` is the number of a row of a batch.

    Raises InputError if the short rule has no condition that counts against the applicant.
    """
    rung = ladder.find_reason_rung(options.most)
    reasons = ladder.reasons(options.most, options.catalogue, wording.language.code)
    if rung is None or not reasons:
        hint = "declare in the roles of features what is better or worse for people, or allow more reasons"
        raise InputError("no condition of the short rule counts against this person", hint=hint, code="no-reasons")
    return {
        "row": row,
        "date": wording.language.format_date(options.date or datetime.date.today()),
        "fields": options.get_fields(row),
        "outcome": format_outcome(ladder.explanation.rule),
        "reasons": [_build_reason(reason, wording) for reason in reasons],
        "conditions": _build_conditions(ladder, rung, reasons, wording) if options.worth else [],
        "worth": describe_worth(ladder, rung, wording) if options.worth else [],
    }


def _build_reason(reason: Reason, wording: NoticeWording) -> dict[str, str | None]:
    """A reason with the catalogue's sentence, or a plain one that also says what would not have been a reason."""
    if reason.code is not None:
        return {"code": reason.code, "text": reason.text}
    language, label = wording.language, wording.get_label(reason.feature)
    own = wording.format_value(reason.feature, reason.value)
    text = language.phrase(f"reasons.{reason.direction}", label=label, value=own)
    if reason.value is None or reason.other_value is None:
        return {"code": None, "text": text}
    other = wording.format_value(reason.feature, reason.other_value)
    return {"code": None, "text": f"{text} {language.phrase(f'reasons.{reason.direction}_instead', other=other)}"}


def _build_conditions(
    ladder: Ladder, rung: Rung, reasons: Sequence[Reason], wording: NoticeWording
) -> list[dict[str, str | None]]:
    """All conditions of the short rule, those of reasons first, with the applicant's own values."""
    conditions = []
    named = [reason.feature for reason in reasons]
    for condition in sorted(
        group_conditions(rung.rule), key=lambda one: named.index(one.feature) if one.feature in named else len(named)
    ):
        text = wording.format_condition(condition)
        own = wording.format_value(condition.feature, ladder.explanation.instance[condition.feature])
        shown = None if own == text else wording.language.phrase("worth.own_value", value=own)
        conditions.append({"label": wording.get_label(condition.feature), "text": text, "own_value": shown})
    return conditions


def describe_worth(ladder: Ladder, rung: Rung, wording: NoticeWording) -> list[str]:
    """What a short rule is worth, and what is known of the complete one, in sentences for people outside the field."""
    language = wording.language
    match rung.verdict:
        case Proven():
            sentences = [language.phrase("worth.everyone")]
        case Unrefuted():
            sentences = [language.phrase("worth.none_found")]
        case Refuted():
            sentences = [language.phrase("worth.not_everyone")]
        case Bounded():
            sentences = _describe_bound(ladder, rung.verdict, wording)
    if rung is not ladder.last:
        sentences.append(_describe_complete_rule(ladder.last, wording))
    if ladder.explanation.constraints:
        constraints = "; ".join(map(format_plain_constraint, ladder.explanation.constraints))
        sentences.append(language.phrase("worth.only_where", constraints=constraints))
    return sentences


def _describe_bound(ladder: Ladder, verdict: Bounded, wording: NoticeWording) -> list[str]:
    """The share of people with the same decision, never rounded up, and what it was measured on."""
    language = wording.language
    if not verdict.rows:
        return [language.phrase("worth.not_known")]
    share, of = language.split_share(1.0 - verdict.exceptions)
    if share == language.format_number(0):
        return [language.phrase("worth.not_settled")]
    key = "nearly_all" if verdict.exceptions <= MAX_SHORT_BOUND else "not_enough"
    counts = {"rows": language.format_number(verdict.rows), "seen": language.format_number(verdict.seen)}
    confidence = language.format_number(math.floor(verdict.confidence * 100))
    sentences = [
        language.phrase(f"worth.{key}", share=share, of=of),
        language.phrase("worth.cautious", share=share, of=of),
        language.phrase("worth.measured", confidence=confidence, **counts),
    ]
    return sentences + ([language.phrase("worth.perhaps_known")] if ladder.measured_from == "split" else [])


def _describe_complete_rule(last: Rung, wording: NoticeWording) -> str:
    language, count = wording.language, len(last.rule.features)
    key = "one_condition" if count == 1 else "several_conditions"
    conditions = language.phrase(f"worth.{key}", count=language.format_number(count))
    match last.verdict:
        case Proven():
            return language.phrase("worth.complete", conditions=conditions)
        case Unrefuted():
            return language.phrase("worth.complete_none_found", conditions=conditions)
        case _:
            return language.phrase("worth.complete_not_everyone")
