"""Results as text for the terminal: an explanation, a judgement, a diagnosis.

The ``describe_*`` functions give single sentences (what is known of shorter rules, of wider bounds, of robustness ...),
which the HTML reports, the command line and the server use too.
"""

from __future__ import annotations

import re

from ironrule.hitting.weights import ExactNumber
from ironrule.results.diagnosis import Diagnosis
from ironrule.results.explanation import Explanation, RankedRule, Statistics
from ironrule.results.judgement import Judgement
from ironrule.results.scope import describe_domains
from ironrule.rule.phrasing import FeatureLabels, join_conditions, phrase_component
from ironrule.rule.rule import Rule
from ironrule.verdict.bounded import RungVerdict
from ironrule.verdict.verdict import Proven, Quality, Refuted
from ironrule.wording import escape_controls, format_count, format_number, format_value, join_lines

UNNAMED_DESIRED = "the desired outcome"
GENEROUS = 4  # times the budget that was spent, as a suggestion
HARD_SECONDS = 60  # the budget to suggest where none in seconds was given
CF_PREFIX = re.compile(r"""("[^"]*"|'[^']*')|\bcf\.""")  # outside quotation marks
AMBIGUOUS_WORDS = re.compile(r"\b(or|if)\b")


def format_explanation(explanation: Explanation) -> str:
    """The rule as wide as proven, its verdict, its coverage, details, and the counterfactuals that bound it."""
    shown = explanation.shown
    lines = [
        str(shown.rule),
        *describe_scope(explanation),
        f"Verdict: {shown.verdict}.",
        f"{describe_length(explanation.rule)}{describe_minimality(explanation)}. "
        f"Past rows covered: {shown.coverage} of {explanation.history_rows}.",
        *describe_lone_row(explanation),
    ]
    lines += describe_details(explanation)
    if explanation.changes:
        lines.append("What would have changed the outcome:")
        lines += [f"  - {counterfactual}" for counterfactual in explanation.changes]
    lines += describe_changes(explanation)
    return join_lines(lines)


def describe_changes(explanation: Explanation) -> list[str]:
    """What is known of the suggested changes, where the explanation has any or none can be suggested."""
    return [] if explanation.changes is None else [explanation.changes.note]


def describe_marks(explanation: Explanation) -> list[str]:
    """The parts of the rule that use a protected feature, or that go against the declared direction."""
    return [f"Note: {mark.describe(explanation.rule)}." for mark in explanation.marks]


def describe_unconfirmed(confirmed: bool) -> list[str]:
    """That the user's own model was not there, where that is so."""
    text = "Not confirmed by the model itself: the explainer was loaded without it, and speaks by its reading of it."
    return [] if confirmed else [text]


def describe_scope(explanation: Explanation) -> list[str]:
    """For whom the rule holds: the domains of numbers, and the constraints, if there are any."""
    constraints = " and ".join(map(_parenthesize, explanation.constraints))
    return [*describe_domains(explanation), *([f"Only where {constraints}."] if constraints else [])]


def format_plain_constraint(constraint: str) -> str:
    """A constraint for readers who know no programs.

    >>> format_plain_constraint("cf.age >= 18")
    'age >= 18'
    """
    return CF_PREFIX.sub(r"\1", constraint)


def _parenthesize(constraint: str) -> str:
    """In parentheses where ``and`` between constraints would be read otherwise."""
    return f"({constraint})" if AMBIGUOUS_WORDS.search(constraint) else constraint


def get_verdict_name(verdict: RungVerdict) -> str:
    """One word: proven, refuted, unrefuted or bounded."""
    return type(verdict).__name__.lower()


def count_conditions(rule: Rule) -> str:
    """How many conditions a rule has, as people count them: one per feature.

    >>> from ironrule.rule.rule import Component
    >>> count_conditions(Rule((Component("age", ">=", 20), Component("age", "<=", 30))))
    '1 condition'
    """
    return format_count(len(rule.features), "condition")


def format_length(rule: Rule) -> str:
    """The same for a table, or within a sentence: ``3``, or ``3 (4 bounds)``."""
    bounds = f" ({format_count(len(rule), 'bound')})" if len(rule) > len(rule.features) else ""
    return f"{len(rule.features):,}{bounds}"


def describe_length(rule: Rule) -> str:
    """The number of conditions, and that of their bounds, which the search counts, where these are more.

    >>> from ironrule.rule.rule import Component
    >>> describe_length(Rule((Component("age", ">=", 20), Component("age", "<=", 30), Component("job", "==", "cook"))))
    'Conditions: 2, with 3 bounds'
    """
    bounds = f", with {format_count(len(rule), 'bound')}" if len(rule) > len(rule.features) else ""
    return f"Conditions: {len(rule.features)}{bounds}"


def describe_minimality(explanation: Explanation) -> str:
    """What is known of shorter rules, to be written after the number of conditions."""
    if explanation.minimum:
        has_bounds = len(explanation.rule) > len(explanation.rule.features)
        return "; no rule with fewer bounds holds" if has_bounds else "; no shorter rule holds"
    if explanation.minimum_among_permitted:
        return "; no rule that was permitted weighs less"
    if not explanation.lower_bound:
        return ""
    if not explanation.restrictions.is_unrestricted:
        return f"; permitted rules weigh at least {format_number(explanation.lower_bound)}"
    return f"; rules need at least {_format_bounds(explanation.rule, explanation.lower_bound)}"


def _format_bounds(rule: Rule, number: ExactNumber) -> str:
    """A number of bounds, which are named where the rule has more of them than conditions."""
    text = format_number(number)
    return f"{text} bounds" if len(rule) > len(rule.features) else text


def describe_details(explanation: Explanation) -> list[str]:
    """What else is known of the rule and of the search for it."""
    return [
        *describe_marks(explanation),
        *describe_unconfirmed(explanation.confirmed),
        *describe_undecided(explanation),
        *describe_preference(explanation),
        *describe_bounds(explanation),
        *describe_robustness(explanation),
        *describe_unreadable(explanation),
        *describe_explanation_stop(explanation),
    ]


def describe_lone_row(explanation: Explanation) -> list[str]:
    """That a rule describes nobody else, where that is so."""
    if explanation.shown.coverage == 0:
        return ["This rule describes only this applicant: no past row satisfies it."]
    if explanation.covers_only_instance:
        return ["This rule describes only this applicant: no other past row satisfies it."]
    return []


def describe_preference(explanation: Explanation) -> list[str]:
    """Which rule was preferred, where it was not simply the shortest, and how long the shortest is."""
    if explanation.prefer == "length":
        return []
    preference = explanation.preference
    if preference is None:
        return ["Coverage could not be preferred: no rule was proven to compare others with."]
    length = format_number(preference.shortest)
    known = "has" if preference.shortest <= explanation.lower_bound else "that was found has"
    weighs = known if explanation.restrictions.weights is None else known.replace("has", "weighs")
    rules = "the proven rules" if preference.is_complete else f"the {preference.compared:,} proven rules compared"
    longer = "that have at most two bounds more than the shortest"
    widened = "" if explanation.wider is None else " with its bounds as wide as proven"
    best = f"of {rules} {longer}, none{widened} covers more past rows"
    return [f"Preferred for coverage: {best}. The shortest {weighs} {length}."]


def describe_explanation_stop(explanation: Explanation) -> list[str]:
    """What ended the search before it knew all, and what would help."""
    statistics = explanation.statistics
    subject = "The search" if statistics.stopped else "Looking for wider bounds or more coverage"
    if not isinstance(explanation.verdict, Proven):
        aim = "may prove the rule, or find another one"
    elif explanation.minimum_among_permitted or (explanation.prefer == "coverage" and not statistics.stopped):
        aim = "may move its bounds further, or cover more"
    else:
        aim = "may shorten the rule, or show that none is shorter"
    return describe_stop(statistics, aim, subject)


def describe_stop(statistics: Statistics, aim: str, subject: str = "The search") -> list[str]:
    """What ended a search early, and how to let it go on; ``aim`` says what that may give."""
    seconds, evaluations = statistics.budget_seconds, statistics.budget_evaluations
    if statistics.stopped_by == "seconds" and seconds is not None:
        more = f"budget={GENEROUS * seconds:g}, on the command line --seconds {GENEROUS * seconds:g}"
        return [f"{subject} stopped after its {seconds:g} s; more time ({more}) {aim}."]
    if statistics.stopped_by == "evaluations" and evaluations is not None:
        more = f"budget=Budget(evaluations={GENEROUS * evaluations}), on the command line --evaluations"
        asked = format_count(evaluations, "evaluation")
        return [f"{subject} stopped after its {asked} of the model; more of them ({more}) {aim}."]
    if statistics.stopped_by == "work":
        more = f"budget={HARD_SECONDS}, on the command line --seconds {HARD_SECONDS}"
        hard = "Some questions were too hard for the usual limit of work"
        return [f"{hard}; with a budget in seconds ({more}) they are tried for longer, which {aim}."]
    if statistics.stopped_by == "interrupted":
        return [f"{subject} was interrupted; going on {aim}."]
    return [f"The search was stopped early ({statistics.stopped})."] if statistics.stopped else []


def describe_counterfactuals_stop(statistics: Statistics) -> list[str]:
    """The same for a search for counterfactuals."""
    return describe_stop(statistics, "may find more of them, or nearer ones")


def describe_end(statistics: Statistics) -> str:
    """What ended a search, in a few words."""
    words = {
        "seconds": "early, when its seconds were spent",
        "evaluations": "early, when its evaluations were spent",
        "work": "normally, with questions left open that were too hard for the usual limit of work",
        "interrupted": "early, interrupted",
    }
    early = f"early ({statistics.stopped})" if statistics.stopped else "normally"
    return early if statistics.stopped_by is None else words.get(statistics.stopped_by, early)


def describe_undecided(explanation: Explanation) -> list[str]:
    """Components that may or may not be needed."""
    rule, undecided = explanation.rule, explanation.undecided_components
    parts = [one for one in rule.components if str(one) in undecided]
    names = ", ".join(phrase_component(one, rule.labels) for one in parts)
    return [f"Not known whether needed: {names}."] if names else []


def find_proven_wider_rule(explanation: Explanation) -> RankedRule | None:
    """The rule with its bounds as far out as is proven, where they could move at all."""
    return None if explanation.shown.rule == explanation.rule else explanation.shown


def describe_bounds(explanation: Explanation) -> list[str]:
    """How far the bounds are from the row's own values, and what is known of moving them further."""
    if not explanation.rule.components or isinstance(explanation.verdict, Refuted):
        return []
    wider = find_proven_wider_rule(explanation)
    if wider is not None:
        furthest = "no bound can move further" if explanation.wider_is_maximal else "bounds might move further"
        own = f"{explanation.rule} Past rows covered: {explanation.coverage}."
        exact = ""
        if explanation.rounded is not None and explanation.wider is not None:
            exact = f", rounded; to the last digit: {join_conditions(explanation.wider.rule)}"
        return [f"Bounds are as wide as proven{exact}; {furthest}. With the row's own values: {own}"]
    own = "Bounds are the row's own values"
    if explanation.wider is not None and isinstance(explanation.wider.verdict, Proven):
        return [
            f"{own}; no bound can move further." if explanation.wider_is_maximal else f"{own}; none could be moved."
        ]
    return [f"{own}; they were not widened{_explain_own_bounds(explanation)}."]


def _explain_own_bounds(explanation: Explanation) -> str:
    if explanation.wider is not None:
        return ", since that could not be proven" if isinstance(explanation.verdict, Proven) else ""
    if explanation.statistics.stopped:
        return ", since the search ended first"
    return "" if explanation.unreadable_reason is None else ", since that needs a model that can be read"


def describe_robustness(explanation: Explanation) -> list[str]:
    """For which changes of the scores, and for how many models, the rule must hold."""
    margin, models = explanation.decision.margin, explanation.model_count
    moved = [f"The rule must hold even if every score moved by {float(margin)!r}."] if margin else []
    return moved + ([f"The rule must hold for all {models} models at once."] if models > 1 else [])


def describe_unreadable(explanation: Explanation) -> list[str]:
    """Why a rule could not be proven by reading the model, where that is so."""
    if explanation.unreadable_reason is None or isinstance(explanation.verdict, Proven):
        return []
    return [f"The model could only be asked, not read: {explanation.unreadable_reason}."]


def format_desired_outcome(explanation: Explanation) -> str:
    """What the desired outcome is called: by its label, or by its classes where they are named."""
    classes = explanation.decision.desired
    own = explanation.labels.get_desired(classes, explanation.shown.rule.outcome)
    if own is not None:
        return escape_controls(own)
    return UNNAMED_DESIRED if classes is None else " or ".join(format_value(one, "letter") for one in classes)


def collect_labels(explanation: Explanation, friendly: bool = False) -> FeatureLabels:
    """The labels of an explanation, or of the past rows behind it, for phrasing conditions."""
    background = explanation.background
    labels = explanation.labels
    if not labels and background is not None:
        labels = background.labels
    return FeatureLabels(labels, friendly)


def format_judgement(judgement: Judgement) -> str:
    """The rule, its class, and what shows it."""
    evidence = [*describe_evidence(judgement), *describe_unconfirmed(judgement.confirmed)]
    return join_lines([str(judgement.rule), f"Quality: {judgement.quality}.", *evidence])


def describe_evidence(judgement: Judgement) -> list[str]:
    """The evidence for the class that a rule is in, in sentences."""
    sentences = []
    if judgement.exception is not None:
        row = judgement.exception_row
        start = "An exception" if row is None else f"Past row {row} is an exception"
        sentences.append(f"{start}: {judgement.exception}.")
    if judgement.shorter_rule is not None:
        redundant = judgement.redundant_component
        start = "A shorter rule holds"
        if redundant is not None:
            part = phrase_component(redundant, judgement.rule.labels)
            start = f"Without {part} it still holds"
        sentences.append(f"{start}: {judgement.shorter_rule.rule}")
    if judgement.quality >= Quality.IRREDUNDANT and judgement.needs:
        sentences.append("Nothing in it is redundant: each part alone excludes some counterfactual.")
    if judgement.minimum_weight is not None:
        sentences.append(_compare_with_minimum(judgement, judgement.minimum_weight))
    if judgement.reason is not None:
        sentences.append(f"{judgement.reason[:1].upper()}{judgement.reason[1:]}.")
    return sentences


def _compare_with_minimum(judgement: Judgement, least: ExactNumber) -> str:
    """The rule's length beside the least there is; weights are named where they make a difference."""
    if judgement.weight == judgement.cardinality:
        own = describe_length(judgement.rule)
        return f"{own}; the shortest rules for this row have {_format_bounds(judgement.rule, least)}."
    return f"It weighs {format_number(judgement.weight)}; the lightest rules for this row weigh {format_number(least)}."


def format_diagnosis(diagnosis: Diagnosis) -> str:
    """The rule, and what makes it long."""
    return join_lines([str(diagnosis.rule), *(f"  - {sentence}" for sentence in describe_diagnosis(diagnosis))])


def describe_diagnosis(diagnosis: Diagnosis) -> list[str]:
    """What makes a rule long, in sentences, and what is not known of that."""
    sentences = [finding.sentence for finding in diagnosis.findings]
    if diagnosis.reason is not None:
        sentences.append(f"{diagnosis.reason[:1].upper()}{diagnosis.reason[1:]}.")
    elif not any(finding.saved for finding in diagnosis.findings):
        known = "no shorter rule is known" if diagnosis.undecided else "no shorter rule would do"
        sentences.append(f"Without any one outlier, rare category or turn of the model that was found, {known}.")
    if diagnosis.undecided:
        left = format_count(diagnosis.undecided, "restriction")
        sentences.append(f"Of {left} it is not known whether the rule would be shorter; a larger budget may tell.")
    return sentences
