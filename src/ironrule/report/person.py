"""The report for the person whom the decision is about: plain sentences, labels and units, and no word of the trade."""

from __future__ import annotations

import re
from html import escape

from ironrule.counting import counted
from ironrule.explain import Explanation
from ironrule.explain.background import Need
from ironrule.report.pictures.ladder import ladder_of
from ironrule.report.pictures.layouts import ladder_drawing
from ironrule.report.pictures.looks import look_of
from ironrule.report.pieces import PAGE, badge, changes, facts, listed, paragraph, picture, section
from ironrule.report.words import UNNAMED, Condition, Words, conditions_of, desired_of, outcome_of, wider_of
from ironrule.rule import Rule
from ironrule.verdict import Proven, Refuted, Unrefuted, Verdict

CF = re.compile(r"""("[^"]*"|'[^']*')|\bcf\.""")  # outside quotation marks
DISCLAIMER = "This is about the decision as it was made. It does not promise how a later decision will come out."


def person_title(explanation: Explanation) -> str:
    """What the report is called."""
    name = explanation.rule.outcome
    return "Why this decision was made" if name == UNNAMED else f"Why the decision was: {outcome_of(explanation.rule)}"


def person_body(explanation: Explanation) -> str:
    """The whole report as HTML."""
    words = Words.of(explanation, friendly=True)
    return (
        f"<h1>{escape(person_title(explanation))}</h1>\n"
        f"{_answer(explanation, words)}"
        f"{_otherwise(explanation, words)}"
        f"{_needed(explanation, words)}"
        f"{_compared(explanation, words)}"
        f"{_known(explanation, words)}"
    )


def _widest(explanation: Explanation) -> tuple[Rule, int]:
    """The rule to tell, with its coverage: the wider one says more, and is proven where there is one."""
    wider = wider_of(explanation)
    return (explanation.rule, explanation.coverage) if wider is None else (wider.rule, wider.coverage)


def _answer(explanation: Explanation, words: Words) -> str:
    rule, covered = _widest(explanation)
    look = look_of(explanation.verdict)
    told = _claim(explanation.verdict, bool(rule.components))
    reasons = listed((_reason(condition, explanation, words) for condition in conditions_of(rule)), "reasons")
    cases = counted(explanation.history_rows, "past case")
    past = f"Of {cases}, {counted(covered, 'fits', 'fit')} this description."
    return (
        f'<div class="answer"><p><strong>{escape(told)}</strong></p>'
        f"{reasons}<p>{badge(look)}</p>{_part(explanation)}"
        f"{''.join(map(paragraph, _known_of(explanation.verdict, words)))}"
        f"{paragraph(past)}</div>\n"
    )


def _part(explanation: Explanation) -> str:
    """Of whom this speaks, where that is not everybody; ``cf`` is a word of the trade."""
    told = [CF.sub(r"\1", constraint) for constraint in explanation.constraints]
    return paragraph(f"All of this speaks only of cases for which this is true: {'; '.join(told)}.") if told else ""


def _claim(verdict: Verdict, conditions: bool) -> str:
    who = "everyone for whom all of this is true" if conditions else "everyone, whatever is known about them,"
    end = ":" if conditions else "."
    match verdict:
        case Proven():
            return f"{who[:1].upper()}{who[1:]} gets this decision{end}"
        case Unrefuted():
            return f"As far as was searched, {who} gets this decision{end}"
        case Refuted():
            return f"This alone does not settle the decision: not {who} gets it{end}"


def _reason(condition: Condition, explanation: Explanation, words: Words) -> str:
    asked, mine = words.spoken(condition), words.value(condition.feature, explanation.instance[condition.feature])
    own = "" if asked == mine else f' <span class="small">(yours: {escape(mine)})</span>'
    return f"<strong>{escape(words.label(condition.feature))}</strong>: {escape(asked)}{own}"


def _known_of(verdict: Verdict, words: Words) -> list[str]:
    match verdict:
        case Proven():
            return ["This was checked for every combination of values that can occur, not only for past cases."]
        case Unrefuted(tried):
            searched = _tried(tried)
            return [f"{searched} That is not proof: there may be cases that fit and are decided otherwise."]
        case Refuted(counterfactual):
            found = changes(counterfactual, words) or "the very same facts"
            return [f"So this does not explain the decision fully. Decided otherwise, although it fits: {found}."]


def _tried(number: int) -> str:
    cases = counted(number, "possible case that fits", "possible cases that fit")
    return f"We tried {cases} this description, and {'it' if number == 1 else 'all'} got this decision."


def _compared(explanation: Explanation, words: Words) -> str:
    if not explanation.rule.components or explanation.background is None:
        return ""
    drawings = map(ladder_drawing, ladder_of(explanation, words).split(PAGE))
    return section("How your case compares with past cases", *map(picture, drawings))


def _needed(explanation: Explanation, words: Words) -> str:
    """Somebody otherwise the same: left out where that would be true of other models only."""
    background = explanation.background
    if background is None or background.withstands or isinstance(explanation.verdict, Refuted):
        return ""
    told = [escape(_instead(need, explanation, words)) for need in background.needs if need.counterfactual]
    return section("Why each of these counts", listed(dict.fromkeys(told)))


def _instead(need: Need, explanation: Explanation, words: Words) -> str:
    assert need.counterfactual is not None
    ordered = sorted(need.counterfactual.changes, key=lambda change: change.feature != need.component.feature)
    told = " and ".join(f"{words.label(one.feature)}: {words.value(one.feature, one.after)}" for one in ordered)
    return f"Somebody with {told}, and otherwise the same as you, gets: {desired_of(explanation, True)}."


def _otherwise(explanation: Explanation, words: Words) -> str:
    told = [escape(changes(one, words)) for one in explanation.counterfactuals]
    if not told:
        return ""
    intro = f"Each of these alone would have led to: {desired_of(explanation, True)}."
    title, promise = "What would have changed the decision", paragraph(DISCLAIMER, "small")
    return section(title, paragraph(intro), listed(told), promise)


def _known(explanation: Explanation, words: Words) -> str:
    rows = [(words.label(name), words.value(name, value)) for name, value in explanation.instance.items()]
    wrong = "If anything here is wrong, say so: the decision rests on it."
    return section("What was known about you", paragraph(wrong), facts(rows))
