"""Ladders are checked from the data: true ones hold, and no altered one is confirmed."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from ladder_examples import LadderExample, build_examples, fit_numbers, make_numbers

import ironrule
from ironrule.checker.ladder import BetterRuleSearch
from ironrule.checker.measured_rows import compute_tail, flag_measured_rows, follows_from_counts
from ironrule.checker.space.space import infer_space
from ironrule.errors import InputError
from ironrule.model.population import split_rows
from ironrule.space.space import Space
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.digest import add_digest

NAMES = (
    "split", "not nested", "values seen", "mask", "table", "constraints", "constraints and table", "where",
    "unseen values", "a missing value", "margin", "models", "models and table", "kinds", "kinds, table", "array",
    "array, table", "polars", "forbidden",
)  # fmt: skip
ALTERED = ("split", "table", "kinds")


@pytest.fixture(scope="module")
def examples() -> dict[str, LadderExample]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*break the constraints")
        return build_examples()


def list_faults(check: ironrule.Check) -> list[str]:
    return [f"{finding.claim}: {finding.sentence}" for finding in check.findings if finding.status != "holds"]


def is_confirmed(example: LadderExample, document: dict[str, Any]) -> bool:
    """Whether a document is confirmed; one that is malformed is not."""
    try:
        return example.check(document).status == "holds"
    except InputError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_a_true_ladder_holds(examples, name):
    assert set(examples) == set(NAMES)
    found = examples[name].check()
    assert list_faults(found) == []
    assert (found.status, found.document) == ("holds", "ladder")
    assert sum(finding.claim.endswith(": bound") for finding in found.findings) == len(examples[name].document["rungs"])


@pytest.mark.parametrize("name", ["split", "table"])
def test_a_ladder_comes_as_an_object_plain_data_or_json(examples, name):
    example = examples[name]
    ladder = ironrule.Ladder.from_dict(example.document)
    for document in (ladder, example.document, ladder.to_json()):
        assert example.check(document).status == "holds"
    assert example.check(ladder.explanation).status == "proven"


def test_nothing_bounded_is_called_proven(examples):
    found = examples["split"].check()
    assert found.status != "proven"
    assert found.to_dict()["status"] == "holds"
    for finding in found.findings:
        if finding.claim.startswith("rung"):
            assert "proven" not in finding.sentence.replace("not proven", "")
            assert "Everyone" not in finding.sentence
        if finding.claim.endswith(": bound"):
            assert finding.sentence.startswith("bounded, not proven: at most ")
            assert "% confidence" in finding.sentence
            assert "measured on" in finding.sentence


def test_what_is_not_checked_is_said(examples):
    said = {finding.claim: finding.sentence for finding in examples["split"].check().findings}
    assert said["ladder: rows"].endswith("that the search did not look at them is not checked")
    assert said["ladder: confidence"].endswith("that no others were measured and left out is not checked")
    assert examples["split"].check().strict
    assert any("share of people" in note for note in examples["forbidden"].check().notes)


def list_places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every single value in plain data, the explanation aside: it has tests of its own."""
    if isinstance(part, (dict, list)):
        for name, inner in part.items() if isinstance(part, dict) else enumerate(part):
            if name not in ("explanation", "digest"):
                yield from list_places(inner, (*path, name))
    else:
        yield path


def list_other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, value - 1, value + 0.5, 0, None, str(value)]
    if isinstance(value, float):
        return [value * 0.9, value / 2 + 0.5, value - 1e-6, -value, None]
    if isinstance(value, str):
        return [f"{value}?", "<=", ">=", "==", "proven", "split", "mask", "table", None]
    return [0, 1, 0.5]


def is_still_true(example: LadderExample, path: tuple[Any, ...], other: Any, altered: dict[str, Any]) -> bool:
    """Whether an alteration gives up a claim, asks for something else, or moves a bound past no row at all.

    Whether a rule is the best has a test of its own.
    """
    if path[-1] == "is_best" or (path[-1], other) in (("nested", False), ("at_least", 0.5)):
        return True
    if path[-1] != "value":
        return False
    place = path[1]
    rules = [ironrule.Ladder.from_dict(document)[place].rule for document in (example.document, altered)]
    tables = [example.data, *([example.given["measure"]] if "measure" in example.given else [])]
    return all((rules[0].covers(table) == rules[1].covers(table)).all() for table in tables)


def check_equal_ones_once(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same check, which remembers what it found: alterations of a ladder leave the explanation in it as it is."""
    known: list[tuple[Any, Any]] = []

    def check_once(document: Any) -> Any:
        for other, found in known:
            if document == other:
                return found
        known.append((document, check(document)))
        return known[-1][1]

    return check_once


@pytest.mark.parametrize("name", ALTERED)
def test_no_altered_field_is_confirmed(examples, name, monkeypatch):
    example, tried = examples[name], 0
    checker = example.checker
    monkeypatch.setattr(checker, "_check_explanation", check_equal_ones_once(checker._check_explanation))
    for *way, last in list_places(example.document):
        part = example.document
        for step in way:
            part = part[step]
        for other in list_other_values(part[last]):
            if other == part[last] and type(other) is type(part[last]):
                continue

            def change(document: dict[str, Any], way: Any = tuple(way), last: Any = last, other: Any = other) -> None:
                for step in way:
                    document = document[step]
                document[last] = other

            tried, altered = tried + 1, example.alter(change)
            if is_confirmed(example, altered):
                assert is_still_true(example, (*way, last), other, altered), (way, last, other)
    assert tried > 150


@pytest.mark.parametrize(
    ("way", "last", "other"),
    [
        (("verdict",), "shared_by", 2**63),
        (("searched",), "exceptions", 2**63),
        (("verdict",), "confidence", 1e-300),
    ],
)
def test_numbers_without_bounds_are_not_confirmed(examples, way, last, other):
    def change(document: dict[str, Any]) -> None:
        for rung in document["rungs"]:
            rung[way[0]][last] = other

    assert not is_confirmed(examples["table"], examples["table"].alter(change))


def count_again(rung: dict[str, Any], seen: int, rows: int) -> None:
    """Let a rung claim other counts, with the bound that follows from them."""
    verdict = rung["verdict"]
    bound = Bounded.from_counts(seen, rows, verdict["confidence"], verdict["shared_by"])
    rung["measured"] = {"rows": rows, "exceptions": seen}
    rung["verdict"] = verdict | {"exceptions": bound.exceptions, "rows": rows, "seen": seen}


def hide_exceptions(document: dict[str, Any]) -> None:
    count_again(document["rungs"][0], 0, document["rungs"][0]["verdict"]["rows"])


def add_rows(document: dict[str, Any]) -> None:
    count_again(document["rungs"][0], document["rungs"][0]["verdict"]["seen"], 10_000)
    document["measured_rows"] = 20_000


def hide_rows(document: dict[str, Any]) -> None:
    verdict = document["rungs"][0]["verdict"]
    count_again(document["rungs"][0], 0, verdict["rows"] - verdict["seen"])
    document["measured_rows"] -= verdict["seen"]


def measure_on_searched_rows(document: dict[str, Any]) -> None:
    for rung in document["rungs"]:
        counts = rung["searched"]
        rung["searched"] = rung["measured"]
        count_again(rung, counts["exceptions"], counts["rows"])
    searched = document["searched_rows"]
    document |= {"searched_rows": document["measured_rows"], "measured_rows": searched}


def swap_rules(document: dict[str, Any]) -> None:
    first, second = document["rungs"][:2]
    first["rule"], second["rule"] = second["rule"], first["rule"]


def lower_confidence(document: dict[str, Any]) -> None:
    for rung in document["rungs"]:
        rung["verdict"]["confidence"] = 0.5
    document["confidence"] = 0.5


def raise_confidence_of_the_ladder_alone(document: dict[str, Any]) -> None:
    document["confidence"] = 0.999


def share_with_fewer(document: dict[str, Any]) -> None:
    for rung in document["rungs"]:
        verdict = rung["verdict"]
        verdict["shared_by"] = 1
        count_again(rung, verdict["seen"], verdict["rows"])


def call_it_proven(document: dict[str, Any]) -> None:
    document["rungs"][0]["verdict"] = document["explanation"]["rules"][0]["verdict"]


def measure_elsewhere(document: dict[str, Any]) -> None:
    document |= {"measured_from": "table", "split_seed": None, "searched_rows": document["explanation"]["history_rows"]}


def repeat_a_rung(document: dict[str, Any]) -> None:
    document["rungs"].insert(0, copy.deepcopy(document["rungs"][0]))


def drop_a_condition(document: dict[str, Any]) -> None:
    document["rungs"][-1]["rule"]["components"].pop()


def alter_the_explanation(document: dict[str, Any]) -> None:
    inner = copy.deepcopy(document["explanation"])
    inner["rules"][0]["rule"]["components"].pop()
    document["explanation"] = add_digest(inner)


FORGERIES = (
    hide_exceptions, add_rows, hide_rows, measure_on_searched_rows, swap_rules, lower_confidence, share_with_fewer,
    raise_confidence_of_the_ladder_alone, call_it_proven, measure_elsewhere, repeat_a_rung, drop_a_condition,
    alter_the_explanation,
)  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_ladder_is_not_confirmed(examples, forge: Callable[[dict[str, Any]], None]):
    example = examples["split"]
    assert len(example.document["rungs"]) > 2
    assert not is_confirmed(example, example.alter(forge))


def test_every_other_split_has_other_counts(examples):
    """The bounds of a ladder whose seed was replaced do not hold, and the usual seed is known."""
    example = examples["split"]
    for seed in range(1, 12):
        found = example.check(example.alter(lambda document, seed=seed: document.update(split_seed=seed)))
        assert found.status == "refuted"
        assert any(f"the seed of the split is {seed}" in note for note in found.notes)


def test_a_changed_digest_fails(examples):
    example = examples["split"]
    found = example.check({**example.document, "digest": "0" * 64})
    assert list_faults(found) == ["ladder: digest: digest mismatch: the document was modified after it was written"]


@pytest.mark.parametrize(("name", "advice"), [("mask", "pass the mask again"), ("table", "pass it again as measure=")])
def test_rows_that_were_handed_over_must_be_handed_over_again(examples, name, advice):
    found = examples[name].check(measure=None)
    assert found.status == "undecided"
    faults = list_faults(found)
    assert all(advice in fault for fault in faults)
    claims = {fault.split(": the ladder")[0] for fault in faults}
    count = len(examples[name].document["rungs"])
    assert {f"rung {place}: bound" for place in range(1, count + 1)} <= claims
    # what follows from the document alone is refuted all the same
    smaller = examples[name].alter(lambda document: document["rungs"][0]["verdict"].update(exceptions=1e-4))
    assert examples[name].check(smaller, measure=None).status == "refuted"


@pytest.mark.parametrize("name", ["table", "kinds, table"])
def test_a_ladder_that_was_measured_on_rows_of_its_own_data_is_refuted(monkeypatch, examples, name):
    """The explainer refuses such rows; here it is kept from that. New rows stand beside them, in any order."""
    monkeypatch.setattr("ironrule.explain.measured_rows._require_other_rows", lambda *_: None)
    example = examples[name]
    seen = example.data.sample(frac=0.8, random_state=1)
    measured = pd.concat([example.given["measure"].iloc[:20], seen], ignore_index=True)
    explainer = ironrule.Explainer(example.model, example.data, desired=True, measure=measured)
    denied = int(np.flatnonzero(~explainer._context.history.outcomes)[0])
    ladder = explainer.ladder(denied, budget=ironrule.Budget(evaluations=1000))
    found = ironrule.check(ladder, example.model, example.data, desired=True, measure=measured)
    assert [one.claim for one in found.failures] == ["ladder: rows"], str(found)
    assert "are in the data, which the search looked at; by chance" in found.failures[0].sentence
    assert found.status == "refuted"


def test_other_rows_than_those_measured_are_noticed(examples):
    mask, table = (examples[name].given["measure"] for name in ("mask", "table"))
    assert examples["mask"].check(measure=~mask).status == "refuted"
    assert examples["table"].check(measure=table.iloc[1:]).status == "refuted"
    assert examples["table"].check(measure=mask).status == "undecided"
    assert examples["mask"].check(measure=table).status == "undecided"
    found = examples["split"].check(measure=mask)
    assert found.status == "undecided"
    assert any("leave it out" in fault for fault in list_faults(found))


def test_a_mask_must_fit_the_data(examples):
    with pytest.raises(InputError, match="one flag per row of the data"):
        examples["mask"].check(measure=np.ones(3, dtype=bool))


def test_other_data_and_another_model_leave_the_rungs_undecided(examples):
    example = examples["split"]
    shorter = ironrule.check(example.document, example.model, example.data.iloc[:-5], desired=True)
    assert shorter.status == "undecided"
    assert "rungs" in [finding.claim for finding in shorter.findings if finding.status == "undecided"]


@pytest.mark.parametrize("document", [
    {"ladder_format": 2}, {"ladder_format": True}, {"ladder_format": 1}, {"ladder_format": "1"},
])  # fmt: skip
def test_a_malformed_ladder_is_refused(examples, document):
    with pytest.raises(InputError):
        examples["split"].check(document)


def test_a_field_too_many_is_refused(examples):
    for change in (lambda d: d.update(more=1), lambda d: d["last"].update(verdict={}), lambda d: d.pop("nested")):
        with pytest.raises(InputError, match=r"malformed ladder: (unknown|missing) field"):
            examples["split"].check(examples["split"].alter(change))


def test_a_rule_that_is_not_the_best_is_not_called_so(examples):
    """All claims about the shortest rung are made anew for every other own component; one of them is the best."""
    example = examples["not nested"]
    checked = {}
    for component in example.document["explanation"]["rules"][0]["rule"]["components"]:
        table, desired = example.data, example.model.predict(example.data)
        column, value = table[component["feature"]], component["value"]
        covered = np.asarray(column <= value if component["op"] == "<=" else column >= value)
        space = infer_space(table)
        is_measured = flag_measured_rows(space, space.encode(table), 0)
        equal = table.eq(pd.Series(example.document["explanation"]["instance"])).all(axis=1).to_numpy()
        counted = is_measured.copy()
        counted[np.flatnonzero(equal & is_measured)[:1]] = False

        def change(document: dict[str, Any], component: Any = component, covered: Any = covered,
                   counted: Any = counted, is_measured: Any = is_measured, desired: Any = desired) -> None:  # fmt: skip
            rung = document["rungs"][0]
            rung["rule"]["components"], rung["coverage"] = [component], int(covered.sum())
            searched = covered & ~is_measured
            rung["searched"] = {"rows": int(searched.sum()), "exceptions": int((searched & desired).sum())}
            measured = covered & counted
            count_again(rung, int((measured & desired).sum()), int(measured.sum()))
            rung["is_best"] = True

        faults = list_faults(example.check(example.alter(change)))  # what is said of its parts is that of the old rule
        checked[component["feature"]] = [fault for fault in faults if not fault.startswith("rung 1: reasons")]
    assert any(fault == [] for fault in checked.values()) or len(checked) > 1
    wrong = [faults for faults in checked.values() if faults]
    assert wrong
    assert all(len(faults) == 1 and "does better" in faults[0] for faults in wrong)


def test_a_last_rung_is_the_best_only_if_no_shorter_rule_holds(examples):
    for name, fault in (("forbidden", "some were not permitted"), ("split", None)):
        found = examples[name].check(examples[name].alter(lambda document: document["last"].update(is_best=True)))
        assert [fault in one for one in list_faults(found)] == ([] if fault is None else [True])


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_a_better_rule_is_found_if_there_is_one(seed, length):
    rng = np.random.default_rng(seed)
    flags = rng.random((5, 40)) < 0.6
    desired = rng.random(40) < 0.4

    def score(exceptions: int, rows: int) -> float:
        return (exceptions + 1.0) / (rows + 2.0) if rows else 1.0

    scores = []
    for chosen in itertools.combinations(range(5), length):
        covered = flags[list(chosen)].all(axis=0)
        scores.append(score(int((covered & desired).sum()), int(covered.sum())))
    parts = (desired, ~desired)
    bits = [[sum(1 << place for place in np.flatnonzero(row[part]).tolist()) for row in flags] for part in parts]
    every = (1 << int(desired.sum())) - 1, (1 << int((~desired).sum())) - 1
    for limit in (min(scores), min(scores) + 1e-6):
        search = BetterRuleSearch(tuple(bits[0]), tuple(bits[1]), every, score, limit=limit, max_rules=10**6)
        assert (search.find(length) is None) == (limit == min(scores))


def sum_binomial(seen: int, rows: int, share: Fraction) -> Fraction:
    return sum((math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(seen + 1)), Fraction(0))


@given(st.integers(0, 60), st.data(), st.floats(0.0, 1.0))
def test_binomial_tails_are_exact(rows, data, share):
    seen = data.draw(st.integers(0, rows))
    exact = float(sum_binomial(seen, rows, Fraction(share)))
    assert compute_tail(seen, rows, share) == pytest.approx(exact, rel=1e-11, abs=1e-300)


@given(st.integers(1, 10**6), st.floats(0.0, 1.0), st.sampled_from([0.05, 0.5, 0.95, 0.9999]), st.integers(1, 16))
def test_bounds_that_follow_are_told_from_smaller_and_larger_ones(rows, part, confidence, shared_by):
    seen = min(rows - 1, int(rows * part))
    bound, doubt = Bounded.from_counts(seen, rows, confidence, shared_by).exceptions, (1.0 - confidence) / shared_by
    assert follows_from_counts(bound, seen, rows, doubt)
    assert not follows_from_counts(bound - 3e-9, seen, rows, doubt)
    assert not follows_from_counts(bound + 3e-9, seen, rows, doubt)


def test_bounds_without_rows_or_without_a_doubt_are_one():
    assert follows_from_counts(1.0, 0, 0, 0.05)
    assert follows_from_counts(1.0, 7, 7, 0.05)
    assert not follows_from_counts(0.99, 0, 0, 0.05)
    assert not follows_from_counts(1.0, 8, 7, 0.05)
    assert not follows_from_counts(0.0, 0, 7, 0.05)


VALUES = {
    "whole": st.integers(-2, 2),
    "numbers": st.sampled_from([0.5, -0.0, 0.0, 1.0, 1e300, 1e-9, math.nan]),
    "texts": st.sampled_from(["a", "ä", '"', "\u2028", "😀"]),
    "flags": st.booleans(),
    "days": st.sampled_from([pd.Timestamp("2024-02-29"), pd.Timestamp("2024-03-01 12:30"), pd.NaT]),
}


@settings(max_examples=80)
@given(st.lists(st.tuples(*VALUES.values()), min_size=1, max_size=30), st.integers(0, 2**40))
def test_both_splits_are_the_same(rows, seed):
    """Written twice from one specification, over rows with equals, missing values and all kinds of values."""
    table = pd.DataFrame(rows, columns=list(VALUES))
    space = Space.infer(table)
    own = infer_space(table)
    expected = split_rows(space, space.encode(table), seed)
    assert flag_measured_rows(own, own.encode(table), seed).tolist() == expected.tolist()


def test_a_ladder_of_a_streamed_history_holds_for_the_same_table(tmp_path):
    table, forest = make_numbers(160, 1), fit_numbers(0)
    path = tmp_path / "past.parquet"
    table.to_parquet(path)
    explainer = ironrule.Explainer(forest, path, desired=True, cache=tmp_path / "cache")
    denied = [int(row) for row in explainer.row_numbers[~explainer.outcomes]]
    ladder = next(one for one in map(explainer.ladder, denied) if len(one) > 2)
    assert list_faults(ironrule.check(ladder, forest, table, desired=True)) == []


def test_a_ladder_after_more_rows_came_holds_for_all_of_them():
    table, forest = make_numbers(160, 1), fit_numbers(0)
    explainer = ironrule.Explainer(forest, table.iloc[:100], desired=True).with_more_rows(table.iloc[100:])
    denied = [int(row) for row in explainer.row_numbers[~explainer.outcomes]]
    ladder = next(one for one in map(explainer.ladder, denied) if len(one) > 2)
    assert list_faults(ironrule.check(ladder, forest, table, desired=True)) == []
