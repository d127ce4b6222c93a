"""The classifier of rules, against all sets of components of tiny cases and all points; and honest ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ironrule.backends.forest.oracle import ForestOracle
from ironrule.backends.tree.compile import compile_leaf_tree
from ironrule.backends.tree.oracle import TreeOracle
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Case, Run
from ironrule.rule.box import Box
from ironrule.rule.condition import ComponentIntervals, build_box, encode_own_components
from ironrule.search import driver
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Problem
from ironrule.search.rule_quality import QualityClassifier, QualityFinding
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.budget import Budget
from ironrule.verdict.verdict import NOT_SEARCHED, Proven, Quality, Refuted, Unrefuted, Verdict
from random_tree_sums import read_cases
from random_trees import compiled, margin_of, tree_of_table
from stated_rules import holds, least_weight, options_of, stated_rules, true_quality, weight_of
from tiny_cases import case_of, cases, problem_of, subsets

tiny_cases = cases(most_features=4, most_codes=3)
# Whole numbers, some far apart, some next to each other; all sums of a few are exact.
WEIGHTS = [1.0, 2.0, 3.0, 17.0, 1e9, 2e9 + 1, 1e14, 1e14 + 1]
weight_lists = st.lists(st.sampled_from(WEIGHTS), min_size=8, max_size=8)


def weighted(problem: Problem, weights: list[float] | None) -> Problem:
    return problem if weights is None else replace(problem, weights=np.array(weights[: 2 * problem.n]))


def all_own_rules(case: Case) -> list[ComponentIntervals]:
    return [encode_own_components(case.components, bits) for bits in subsets(case.components.usable)]


def assert_shown(case: Case, finding: QualityFinding, classifier: QualityClassifier, least: float) -> None:
    """That what a finding is said to rest on is so."""
    box = build_box(case.components, finding.parts)
    if finding.quality is Quality.FAILED_DATA:
        assert finding.past_row is not None
        assert case.history.outcomes[finding.past_row]
        assert box.contains(case.history.codes.row(finding.past_row)[None, :]).all()
    if finding.quality in (Quality.FAILED_DATA, Quality.FAILED_GLOBAL):
        assert isinstance(finding.verdict, Refuted)
        assert box.contains(finding.verdict.points).all()
        assert all(case.model.table[tuple(point)] for point in finding.verdict.points)
    if finding.quality >= Quality.REDUNDANT:
        assert isinstance(finding.verdict, Proven)
    if finding.quality in (Quality.REDUNDANT, Quality.IRREDUNDANT):
        assert finding.shorter is not None
        assert isinstance(finding.shorter.proof, Proven)
        assert holds(case, finding.shorter.parts)
        assert finding.shorter.proof.certificate.low == tuple(build_box(case.components, finding.shorter.parts).low)
    if finding.quality is Quality.REDUNDANT:
        place = finding.redundant
        assert finding.shorter.parts == finding.parts[:place] + finding.parts[place + 1 :]
    if finding.quality is Quality.IRREDUNDANT:
        assert classifier.weigh(finding.shorter.parts) < finding.weight
    if finding.quality >= Quality.IRREDUNDANT:
        assert len(finding.needed) == len(finding.parts)
        for place, refuted in enumerate(finding.needed):
            assert not box.contains(refuted.points).any()
            rest = finding.parts[:place] + finding.parts[place + 1 :]
            assert build_box(case.components, rest).contains(refuted.points).all()
            assert all(case.model.table[tuple(point)] for point in refuted.points)
        assert classifier.minimum_weight == pytest.approx(least)


def assert_classified_truly(problem: Problem, rules: list[ComponentIntervals]) -> None:
    case, weights = problem.case, problem.weights.tolist()
    least = least_weight(case, weights)
    classifier = QualityClassifier(problem)
    findings = classifier.classify(rules)
    for parts, finding in zip(rules, findings, strict=True):
        assert finding.parts == parts
        assert finding.weight == weight_of(parts, weights)
        assert finding.quality is true_quality(case, parts, weights, least)
        assert_shown(case, finding, classifier, least)
    assert classifier.stopped is None


@settings(deadline=None, max_examples=60)
@given(tiny_cases, st.one_of(st.none(), weight_lists))
def test_every_set_of_the_rows_own_components_is_classified_as_looking_at_everything_says(
    case: Case, weights: list[float] | None
) -> None:
    assert_classified_truly(weighted(problem_of(case, Exhaustive()), weights), all_own_rules(case))


@settings(deadline=None, max_examples=100)
@given(st.data(), tiny_cases, st.one_of(st.none(), weight_lists))
def test_rules_with_any_bounds_are_classified_as_looking_at_everything_says(
    data: st.DataObject, case: Case, weights: list[float] | None
) -> None:
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=6))
    assert_classified_truly(weighted(problem_of(case, Exhaustive()), weights), rules)
    for parts in rules:
        assert_classified_truly(weighted(problem_of(case, Exhaustive()), weights), [parts])


@settings(deadline=None, max_examples=60)
@given(st.data(), read_cases())
def test_models_that_are_read_are_classified_as_looking_at_everything_says(
    data: st.DataObject, both: tuple[Case, ForestOracle]
) -> None:
    case, oracle = both
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=4)) + all_own_rules(case)[:40]
    assert_classified_truly(problem_of(case, oracle), rules)


@settings(deadline=None, max_examples=60)
@given(st.data(), cases(most_features=3, most_codes=3))
def test_trees_are_judged_as_looking_at_everything_says(data: st.DataObject, case: Case) -> None:
    if case.space.constraints:
        case = replace(case, space=Space(case.space.features), feasible=Space(case.space.features).feasible)
    forests = compiled(case.space, (margin_of(tree_of_table(case.model.table)),))
    tree = compile_leaf_tree(forests, case.model, case.space)
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=6)) + all_own_rules(case)
    assert_classified_truly(problem_of(case, TreeOracle(tree, forests)), rules)


@settings(deadline=None, max_examples=40)
@given(cases(most_features=2, most_codes=3))
def test_no_rule_with_any_bounds_is_lighter_than_the_lightest_of_the_rows_own(case: Case) -> None:
    weights = [1.0] * (2 * len(case.space))
    least, options = least_weight(case, weights), options_of(case)
    for size in range(int(least)):
        assert not any(holds(case, parts) for parts in product(options, repeat=size))


def scattered(size: int = 4) -> Case:
    """Ordered features of three values, a fifth of the points desired; the instance is in the middle."""
    space = Space(tuple(Feature(f"f{place}", (0, 1, 2), ordered=True) for place in range(size)))
    table = np.random.default_rng(size).random((3,) * size) < 0.2
    instance = np.ones(size, dtype=np.int32)
    table[tuple(instance)] = False
    return case_of(space, table, instance, instance[None, :])


def assert_no_more_than_true(case: Case, finding: QualityFinding, least: float) -> None:
    """That nothing is claimed that is not so; what is said to hold, or to fail, does."""
    truth = true_quality(case, finding.parts, [1.0] * (2 * len(case.space)), least)
    assert finding.quality in (truth, Quality.NOT_JUDGED)
    if isinstance(finding.verdict, Proven):
        assert truth >= Quality.REDUNDANT
    if isinstance(finding.verdict, Refuted):
        assert finding.quality in (Quality.FAILED_DATA, Quality.FAILED_GLOBAL)
    if finding.needed is not None:
        assert truth >= Quality.IRREDUNDANT


@pytest.mark.parametrize("together", [True, False])
def test_a_budget_of_any_size_ends_it_honestly(together: bool) -> None:
    case = scattered()
    rules, least = all_own_rules(case), least_weight(case, [1.0] * 8)
    whole = problem_of(case, Exhaustive())
    of_each = {finding.quality: [finding.parts] for finding in QualityClassifier(whole).classify(rules)}
    seen: set[Quality] = set()
    for evaluations in (1, 2, 5, *range(10, whole.meter.evaluations, whole.meter.evaluations // 12)):
        for some in [rules] if together else of_each.values():
            problem = problem_of(case, Exhaustive(), budget=Budget(evaluations=evaluations))
            classifier = QualityClassifier(problem)
            findings = classifier.classify(some)
            assert problem.meter.evaluations <= evaluations
            assert (classifier.stopped == "budget") == any(one.quality is Quality.NOT_JUDGED for one in findings)
            for finding in findings:
                assert_no_more_than_true(case, finding, least)
            seen |= {finding.quality for finding in findings}
    assert seen == {*of_each, Quality.NOT_JUDGED}
    assert len(of_each) == 4


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An exact oracle that Ctrl-C reaches at a question."""

    after: int
    asked: list[Box]
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        self.asked.append(query.box)
        if len(self.asked) > self.after:
            raise KeyboardInterrupt
        return Exhaustive().find(query, run)


def test_an_interruption_ends_it_honestly_and_nothing_more_is_asked() -> None:
    case = scattered()
    rules, least = all_own_rules(case), least_weight(case, [1.0] * 8)
    calm = Interrupted(10**9, [])
    QualityClassifier(problem_of(case, calm)).classify(rules)
    for after in range(0, len(calm.asked), 5):
        oracle = Interrupted(after, [])
        classifier = QualityClassifier(problem_of(case, oracle))
        for finding in classifier.classify(rules):
            assert_no_more_than_true(case, finding, least)
        assert classifier.stopped == "interrupted"
        assert len(oracle.asked) == after + 1


@dataclass(frozen=True, slots=True)
class Hesitant:
    """An oracle that proves nothing, and sees no counterfactual in boxes beyond a size."""

    proves: bool
    most: int
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        verdict = Exhaustive().find(query, run)
        unsure = query.box.size > self.most or (isinstance(verdict, Proven) and not self.proves)
        return Unrefuted(tried=3, samples=0, confidence=0.0) if unsure else verdict


@settings(deadline=None, max_examples=60)
@given(cases(most_features=3, most_codes=3), st.booleans(), st.integers(0, 30))
def test_an_oracle_that_leaves_boxes_undecided_never_leads_to_more_than_is_true(
    case: Case, proves: bool, most: int
) -> None:
    least = least_weight(case, [1.0] * (2 * len(case.space)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "CHECK_SAMPLES", 1)
        findings = QualityClassifier(problem_of(case, Hesitant(proves, most))).classify(all_own_rules(case))
    for finding in findings:
        assert_no_more_than_true(case, finding, least)


def test_what_an_oracle_leaves_open_is_left_open_at_the_right_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECK_SAMPLES", 1)
    case = scattered()
    rules, least = all_own_rules(case), least_weight(case, [1.0] * 8)
    ends = set()
    for most in (0, 1, 3, 9, 27, 80):
        for finding in QualityClassifier(problem_of(case, Hesitant(True, most))).classify(rules):
            assert_no_more_than_true(case, finding, least)
            if finding.quality is Quality.NOT_JUDGED:
                ends.add((type(finding.verdict), finding.undecided is None, finding.needed is None))
    unknown, redundancy, minimality = (Unrefuted, True, True), (Proven, False, True), (Proven, True, False)
    assert ends == {unknown, redundancy, minimality}


@settings(deadline=None, max_examples=15)
@given(st.data(), cases(most_features=3, most_codes=3))
def test_models_that_can_only_be_asked_are_classified_where_boxes_can_be_enumerated(
    data: st.DataObject, case: Case
) -> None:
    rules = data.draw(st.lists(stated_rules(case), min_size=1, max_size=4))
    assert_classified_truly(problem_of(case, SearchThenProve()), rules)


def test_a_rule_that_the_minimum_search_let_pass_is_checked_and_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle overlooks the counterfactuals of small rules; the check afterwards sees them."""
    case = scattered()
    rules = all_own_rules(case)
    least = least_weight(case, [1.0] * 8)
    monkeypatch.setattr(driver, "CHECK_SAMPLES", 100)
    for most in (9, 27):
        findings = QualityClassifier(problem_of(case, Hesitant(True, most))).classify(rules)
        for parts, finding in zip(rules, findings, strict=True):
            assert finding.quality is true_quality(case, parts, [1.0] * 8, least)


def test_one_rule_that_is_classified_shows_that_a_longer_one_is_not_minimum_even_if_the_search_is_stopped() -> None:
    case = scattered()
    weights = [1.0] * 8
    least = least_weight(case, weights)
    rules = [parts for parts in all_own_rules(case) if true_quality(case, parts, weights, least) >= Quality.IRREDUNDANT]
    longer = [parts for parts in rules if len(parts) > least]
    assert longer

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Minimum, "run", stop)
        findings = QualityClassifier(problem_of(case, Exhaustive())).classify(rules)
    for parts, finding in zip(rules, findings, strict=True):
        assert finding.quality is (Quality.IRREDUNDANT if parts in longer else Quality.NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class Shortsighted:
    """An oracle that sees counterfactuals in small boxes only."""

    most: int
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        if query.box.size > self.most:
            return NOT_SEARCHED
        return Exhaustive().find(query, run)


def test_a_counterfactual_found_for_one_rule_refutes_one_classified_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECK_SAMPLES", 1)
    case = scattered()
    least = least_weight(case, [1.0] * 8)
    wrong = [parts for parts in all_own_rules(case) if not holds(case, parts)]
    small = max(wrong, key=len)
    large = small[:-1]
    sizes = [build_box(case.components, parts).size for parts in (small, large)]
    assert sizes[0] < sizes[1]
    oracle = Shortsighted(sizes[0])
    assert QualityClassifier(problem_of(case, oracle)).classify([large])[0].quality is Quality.NOT_JUDGED
    first, second = QualityClassifier(problem_of(case, oracle)).classify([large, small])
    assert first.quality is second.quality is Quality.FAILED_GLOBAL
    assert_no_more_than_true(case, first, least)
