"""The report for the person whom the decision is about: plain sentences in their language, labels and units, no
technical terms.

One rule throughout: the one that is shown, with its bounds as wide as proven. The list, the reasons why each point
counts and the pictures are all of that rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ironrule.report.notice.language import NoticeLanguage, load_language
from ironrule.report.notice.wording import NoticeWording
from ironrule.report.plots.comparison import ComparisonTexts, build_comparisons, draw_legend
from ironrule.report.plots.drawing import choose_style
from ironrule.report.templating import render_own_template, render_template
from ironrule.report.text import collect_labels, format_plain_constraint, get_verdict_name
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.report_options import ReportOptions
from ironrule.rule.counterfactual import Change, Counterfactual
from ironrule.rule.phrasing import format_outcome, group_conditions, is_named_outcome
from ironrule.rule.rule import Rule
from ironrule.space.feature import Value
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted
from ironrule.wording import format_value

PACKAGE, TEMPLATE = "ironrule.report", "person.html"


@dataclass(frozen=True, slots=True)
class LetterHead:
    """What tells a letter among others: a name above it, and the number of its row, for fields of its own."""

    name: str | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class LetterWriter:
    """Writes letters in one language."""

    options: ReportOptions = field(default_factory=ReportOptions)

    @property
    def language(self) -> NoticeLanguage:
        """The language of the letters."""
        return load_language(self.options.language, "report")

    def render(self, letters: Sequence[dict[str, Any]], title: str | None = None) -> str:
        """Letters as one HTML page; its title is that of the letter, where there is one."""
        language = self.language
        values = {
            "title": letters[0]["title"] if title is None else title,
            "letters": letters,
            "words": language.get_section("report"),
            "language": language.code,
            "direction": language.direction,
        }
        if self.options.template is None:
            return render_template(TEMPLATE, **values)
        return render_own_template(PACKAGE, Path(self.options.template), values)

    def build(self, explanation: Explanation, head: LetterHead = LetterHead()) -> dict[str, Any]:
        """The values of a letter about an explanation."""
        letter = self._start_letter(explanation)
        return letter.build() | {
            "name": head.name,
            "date": letter.wording.language.format_date(self.options.get_date()),
            "fields": self.options.get_fields(head.row),
        }

    def build_for_ladder(self, ladder: Ladder, head: LetterHead = LetterHead()) -> dict[str, Any]:
        """The same with the short rule first, where a ladder has one; the complete rule is folded below it."""
        values, rung = self.build(ladder.explanation, head), ladder.short
        if not isinstance(rung.verdict, Bounded):
            return values
        letter = self._start_letter(ladder.explanation)
        return values | {"short": letter.build_short_rule(ladder, rung.rule, rung.verdict)}

    def _start_letter(self, explanation: Explanation) -> _Letter:
        """The explanation with all labels that are known, in the language of the letter."""
        language = self.language
        labels = self.options.own_labels.extend(collect_labels(explanation).labels)
        if labels:
            explanation = explanation.with_labels(replace(labels, language=language.code))
        return _Letter(explanation, NoticeWording.from_labels(language, explanation.labels))


@dataclass(frozen=True, slots=True)
class _Letter:
    """One explanation in words."""

    explanation: Explanation
    wording: NoticeWording

    def build(self) -> dict[str, Any]:
        """What the letter says."""
        explanation, wording = self.explanation, self.wording
        style, comparison = choose_style(explanation.verdict), self._build_comparison_texts()
        rule = explanation.rule
        is_named = is_named_outcome(rule.outcome) or rule.labels.get_undesired(rule.outcome) is not None
        outcome = format_outcome(rule)
        comparisons = build_comparisons(explanation, wording, comparison)
        return {
            "title": self.phrase("title", outcome=outcome) if is_named else self.phrase("title_unnamed"),
            "short": None,
            "claim": self._format_claim(),
            "conditions": self._list_conditions(explanation.shown.rule),
            "verdict": get_verdict_name(explanation.verdict),
            "badge": self.phrase(get_verdict_name(explanation.verdict)),
            "constraints": self._describe_constraints(),
            "evidence": self._describe_verdict(),
            "coverage": self._describe_coverage(),
            "changes_claim": self._describe_changes(),
            "changes": [self._format_changes(change) for change in explanation.changes or ()],
            **self._describe_counts(),
            "comparisons": comparisons,
            "has_stretched": any(one.is_stretched for one in comparisons),
            "legend": draw_legend(style, comparison) if comparisons else None,
            "facts": [
                (wording.get_label(feature), wording.format_value(feature, value))
                for feature, value in explanation.instance.items()
            ],
        }

    def build_short_rule(self, ladder: Ladder, rule: Rule, verdict: Bounded) -> dict[str, Any]:
        """What the letter of a ladder says first: the share of people with the same decision is never rounded up."""
        language, last = self.wording.language, ladder.last
        share, of = language.split_share(1.0 - verdict.exceptions)
        measured = self.phrase(
            "measured",
            rows=language.format_number(verdict.rows),
            seen=language.format_number(verdict.seen),
            confidence=language.format_number(math.floor(verdict.confidence * 100)),
        )
        count = len(last.rule.features)
        key = "one_condition" if count == 1 else "several_conditions"
        conditions = self.phrase(key, **({} if count == 1 else {"count": language.format_number(count)}))
        complete = "complete_proven" if isinstance(last.verdict, Proven) else "complete_unproven"
        cautious = self.phrase("cautious", share=share, of=of)
        perhaps = [self.phrase("perhaps_known")] if ladder.measured_from == "split" else []
        return {
            "claim": self.phrase("nearly_everyone", share=share, of=of),
            "conditions": self._list_conditions(rule),
            "evidence": " ".join([cautious, measured, *perhaps]),
            "complete": self.phrase(complete, conditions=conditions),
        }

    def phrase(self, key: str, **values: str) -> str:
        """A sentence of the report."""
        return self.wording.language.phrase(f"report.{key}", **values)

    def _build_comparison_texts(self) -> ComparisonTexts:
        words = self.wording.language.get_section("report")
        return ComparisonTexts(
            you=words["you"],
            fits=words["fits_caption"],
            fitting_cases=words["fitting_cases"],
            other_cases=words["other_cases"],
            not_to_scale=words["not_to_scale"],
            others=words["others"],
            between=words["between"],
        )

    def _list_conditions(self, rule: Rule) -> list[tuple[str, str, str | None]]:
        """Label, condition, and the person's own value where it is not the condition itself."""
        listed = []
        for condition in group_conditions(rule):
            text, own = self.wording.format_condition(condition), self._format_own(condition.feature)
            yours = None if own == text else self.phrase("own_value", value=own)
            listed.append((self.wording.get_label(condition.feature), text, yours))
        return listed

    def _format_own(self, feature: str) -> str:
        return self.wording.format_value(feature, self.explanation.instance[feature])

    def _format_claim(self) -> str:
        all_people = not self.explanation.shown.rule.components
        match self.explanation.verdict:
            case Proven():
                return self.phrase("all_people" if all_people else "everyone")
            case Unrefuted():
                return self.phrase("all_people_searched" if all_people else "everyone_searched")
            case Refuted():
                return self.phrase("not_all_people" if all_people else "not_everyone")

    def _describe_constraints(self) -> str | None:
        constraints = "; ".join(map(format_plain_constraint, self.explanation.constraints))
        return self.phrase("only_where", constraints=constraints) if constraints else None

    def _describe_verdict(self) -> str:
        match self.explanation.verdict:
            case Proven():
                return self._describe_checked_values()
            case Unrefuted(tried):
                if tried == 1:
                    return self.phrase("tried_one")
                return self.phrase("tried", cases=self.wording.language.format_number(tried))
            case Refuted(counterfactual):
                changes = "; ".join(self._list_changes(counterfactual)) or self.phrase("exception_same")
                return self.phrase("exception", changes=changes)

    def _describe_checked_values(self) -> str:
        """What was looked at to prove the rule."""
        kinds = {domain.kind for domain in self.explanation.domains.values()}
        if "seen" in kinds:
            return self.phrase("checked_seen")
        return self.phrase("checked_range" if kinds & {"interval", "integers"} else "checked_all")

    def _describe_coverage(self) -> str:
        """How many past cases fit."""
        explanation, write = self.explanation, self.wording.language.format_number
        covered, cases = explanation.shown.coverage, write(explanation.history_rows)
        if covered == 0:
            return self.phrase("fits_nobody", cases=cases)
        if explanation.covers_only_instance:
            return self.phrase("fits_only_you", cases=cases)
        if covered == 1:
            return self.phrase("fits_one", cases=cases)
        return self.phrase("fits", cases=cases, count=write(covered))

    def _format_desired(self) -> str:
        """What the other decision is called."""
        labels = self.explanation.decision.desired
        own = self.explanation.labels.get_desired(labels, self.explanation.shown.rule.outcome)
        if own is not None:
            return own
        if labels is None or not all(isinstance(label, str) for label in labels):
            return self.phrase("other_decision")
        *first, last = (format_value(label, "letter") for label in labels)
        language = self.wording.language
        listed = language.sentences["values.comma"].join(first)
        return language.phrase("values.alternatives", first=listed, last=last) if first else last

    def _describe_changes(self) -> str | None:
        """What the changes below would have led to, or that there is none; None where none was looked for."""
        changes, outcome = self.explanation.changes, self._format_desired()
        if changes is None:
            return None
        if not changes:
            is_known = changes.proven and changes.complete
            return self.phrase("no_change" if is_known else "no_change_found", outcome=outcome)
        return self.phrase("one_change" if len(changes) == 1 else "any_change", outcome=outcome)

    def _format_changes(self, counterfactual: Counterfactual) -> str:
        """The changes of a counterfactual in one sentence."""
        texts = self._list_changes(counterfactual)
        return self.phrase("together", changes="; ".join(texts)) if len(texts) > 1 else "".join(texts)

    def _list_changes(self, counterfactual: Counterfactual) -> list[str]:
        return [self.phrase("change", **self._name_change(change)) for change in counterfactual.changes]

    def _name_change(self, change: Change) -> dict[str, str]:
        """The feature of a change, and its values; words are quoted, so that a sentence does not run into them."""
        name = change.feature
        new, old = (self._quote(name, value) for value in (change.after, change.before))
        return {"label": self.wording.get_label(name), "new": new, "old": old}

    def _quote(self, feature: str, value: Value) -> str:
        text = self.wording.format_value(feature, value)
        return self.phrase("quoted", value=text) if self.wording.has_words(feature, value) else text

    def _describe_counts(self) -> dict[str, Any]:
        """Why each condition counts: a single change that would have been enough, if there is one that could be
        suggested; else that the rule would have exceptions without it, or that nothing is known of that. Nothing where
        the past rows are not at hand, or where other models decide too. The claim is made of all of them together.
        """
        background = self.explanation.background
        if background is None or background.is_robust or isinstance(self.explanation.verdict, Refuted):
            return {"counts_claim": None, "counts": []}
        alone, needed, unknown = list[str](), list[str](), list[str]()
        for name in self.explanation.shown.rule.features:
            label, examples = self.wording.get_label(name), self._list_examples(name)
            enough = next((one for one in examples if len(one.changes) == 1 and self._could_be_suggested(one)), None)
            if enough is not None:
                alone.append(self._describe_single_change(enough))
            elif examples:
                needed.append(label)
            else:
                unknown.append(self.phrase("counts_unknown", label=label))
        sentences = [self.phrase("counts_needed", label=label) for label in needed]
        if len(needed) > 1:
            sentences = [self.phrase("counts_all_needed", labels="; ".join(needed))]
        return {
            "counts_claim": None if unknown else self.phrase("counts"),
            "counts": [*alone, *sentences, *unknown],
        }

    def _describe_single_change(self, counterfactual: Counterfactual) -> str:
        (change,) = counterfactual.changes
        return self.phrase("counts_alone", outcome=self._format_desired(), **self._name_change(change))

    def _list_examples(self, feature: str) -> list[Counterfactual]:
        """Counterfactuals that the condition on a feature alone excludes; first a change that is suggested itself."""
        suggested, background = self.explanation.changes or (), self.explanation.background
        needs = () if background is None else background.needs
        alone = [one for one in suggested if [change.feature for change in one.changes] == [feature]]
        known = [need.counterfactual for need in needs if need.component.feature == feature]
        return alone + sorted((one for one in known if one is not None), key=lambda one: len(one.changes))

    def _could_be_suggested(self, counterfactual: Counterfactual) -> bool:
        """Whether every change respects the roles of features; not, where that is not known."""
        suggested = self.explanation.changes
        return suggested is not None and all(map(suggested.permits, counterfactual.changes))
