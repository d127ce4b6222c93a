"""An explanation as text for the terminal."""

from __future__ import annotations

import re

from ironrule.explain import Explanation
from ironrule.report.words import wider_of
from ironrule.rule.weights import as_text
from ironrule.verdict import Proven, Verdict

TIED = re.compile(r"\b(or|if)\b")


def explanation_text(explanation: Explanation) -> str:
    """The rule, its verdict, its coverage, and the counterfactuals that bound it."""
    lines = [
        str(explanation.rule),
        *where_it_holds(explanation),
        f"Verdict: {explanation.verdict}.",
        f"Components: {explanation.rule.counted}{how_short(explanation)}. "
        f"Past rows covered: {explanation.coverage} of {explanation.history_rows}.",
    ]
    lines += what_is_undecided(explanation)
    lines += wider_lines(explanation)
    lines += what_it_withstands(explanation)
    lines += why_asked(explanation)
    if explanation.statistics.stopped:
        lines.append(f"The search was stopped early ({explanation.statistics.stopped}).")
    if explanation.counterfactuals:
        lines.append("What would have changed the outcome:")
        lines += [f"  - {counterfactual}" for counterfactual in explanation.counterfactuals]
    return "\n".join(lines)


def where_it_holds(explanation: Explanation) -> list[str]:
    """Of what the rule speaks, where constraints say what can occur."""
    return [f"Only where {' and '.join(map(_alone, explanation.constraints))}."] if explanation.constraints else []


def _alone(constraint: str) -> str:
    """In parentheses where ``and`` would tie its parts otherwise."""
    return f"({constraint})" if TIED.search(constraint) else constraint


def verdict_word(verdict: Verdict) -> str:
    """One word: proven, refuted or unrefuted."""
    return type(verdict).__name__.lower()


def how_short(explanation: Explanation) -> str:
    """What is known of shorter rules, to stand behind the number of components."""
    if explanation.minimum:
        return "; no shorter rule holds"
    if explanation.lightest:
        return "; no rule that was permitted weighs less"
    if not explanation.lower_bound:
        return ""
    who = "rules need" if explanation.permitted.all else "permitted rules weigh"
    return f"; {who} at least {as_text(explanation.lower_bound)}"


def what_is_undecided(explanation: Explanation) -> list[str]:
    """Components that may or may not be needed."""
    some = ", ".join(explanation.undecided)
    return [f"Not known whether needed: {some}."] if some else []


def wider_lines(explanation: Explanation) -> list[str]:
    """The rule with its bounds as far out as they go, where they could move at all."""
    wider = wider_of(explanation)
    if wider is None:
        return []
    furthest = "no bound can move further" if explanation.widest else "bounds might move further"
    return [f"As wide as proven: {wider.rule} Past rows covered: {wider.coverage}; {furthest}."]


def what_it_withstands(explanation: Explanation) -> list[str]:
    """What the rule holds for beyond the model as it is."""
    margin, models = explanation.decision.margin, explanation.models
    moved = [f"The rule must hold even if every score moved by {float(margin)!r}."] if margin else []
    return moved + ([f"The rule must hold for all {models} models at once."] if models > 1 else [])


def why_asked(explanation: Explanation) -> list[str]:
    """Why a rule could not be proven by reading the model, where that is so."""
    if explanation.unread is None or isinstance(explanation.verdict, Proven):
        return []
    return [f"The model could only be asked, not read: {explanation.unread}."]
