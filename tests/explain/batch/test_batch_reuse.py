"""Reused rules: a covered row gets a proven rule, the same one whoever works and whatever interrupts."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from applications import past
from batch_examples import make_history, read_contents, without_times
from ironrule import Batch, Explainer, InputError, Proven, Space, check
from ironrule.explain.batch import process_pool, run
from ironrule.explain.batch.reuse import find_components_within, find_shortest_box
from ironrule.hitting.bits import list_members
from ironrule.rule.box import Box
from ironrule.rule.instance_components import build_instance_components
from ironrule.verdict.digest import add_digest


def fit_varied_trees() -> Any:
    """A model that can be read and needs many rules."""
    table = make_history()
    luck = np.random.default_rng(0).random(len(table)) < 0.3
    labels = np.where((table["income"] >= 3) & (table["accounts"] <= 2) ^ luck, "good", "bad")
    encoder = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    trees = GradientBoostingClassifier(n_estimators=25, max_depth=3, random_state=0)
    return make_pipeline(encoder, trees).fit(table, labels)


def make_explainer() -> Explainer:
    """An explainer of it."""
    return Explainer(fit_varied_trees(), make_history(), desired="good")


def find_covering_rows(explainer: Explainer, **options: Any) -> dict[int, int]:
    """For every row the one whose rule it gets, one after the other; equal rows get the same."""
    table, rules, covered_by = make_history(), list[tuple[int, int, Any]](), dict[int, int]()
    first = table.groupby(list(table.columns), sort=False).ngroup().drop_duplicates()
    twins = table.groupby(list(table.columns), sort=False).ngroup()
    for row in np.flatnonzero(~explainer.outcomes).tolist():
        twin = int(first.index[first == twins[row]][0])
        covering = [rule for rule in rules if rule[2].covers(table[row : row + 1])[0]]
        if twin < row:
            covered_by[row] = covered_by[twin]
        elif covering:
            covered_by[row] = min(covering, key=lambda rule: rule[0])[1]
        else:
            covered_by[row], found = row, explainer.explain(row, **options)
            if isinstance(found.verdict, Proven):
                rules.append((found.cardinality, row, found.rule if found.wider is None else found.wider.rule))
    return covered_by


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("options", [{}, {"widen": False}, {"forbid": ["debt"]}, {"weights": {"job": 3.0}}])
def test_a_row_is_searched_for_if_no_earlier_rule_covers_it(workers: int, options: dict[str, Any]) -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(reuse=True, workers=workers, **options)
    read = batch.columns("row", "same_as", "covered_by")
    expected = find_covering_rows(explainer, **options)
    for row, same, by in zip(*read.values(), strict=True):
        assert (same if by is None else by) == expected[row]
        if by is None:
            assert without_times(batch.get_explanation(row)) == without_times(explainer.explain(same, **options))
    assert any(by is not None for by in read["covered_by"])


def test_every_document_of_a_covered_row_can_be_checked() -> None:
    table, explainer = make_history(), make_explainer()
    model = fit_varied_trees()
    batch = explainer.explain_many(reuse=True, workers=1)
    covered = [row for row, by in zip(*batch.columns("row", "covered_by").values(), strict=True) if by is not None]
    assert len(covered) > 5
    for row in covered:
        explanation = batch.get_explanation(row)
        assert isinstance(explanation.verdict, Proven)
        assert explanation.statistics.algorithm == "reused"
        assert explanation.instance == dict(table.iloc[row])
        assert check(explanation, model, table).status == "proven"
        assert explanation.rule.covers(table).sum() == explanation.coverage


@pytest.mark.parametrize("widen", [False, True])
def test_no_point_of_the_space_is_an_exception_to_a_reused_rule(widen: bool) -> None:
    table, explainer = make_history(), make_explainer()
    everything = pd.DataFrame(
        itertools.product(*(sorted(set(table[name])) for name in table.columns)), columns=table.columns
    )
    desired = fit_varied_trees().predict(everything) == "good"
    assert desired.any()
    for explanation in explainer.explain_many(reuse=True, workers=1, widen=widen):
        rules = [explanation.rule] if explanation.wider is None else [explanation.rule, explanation.wider.rule]
        for rule in rules:
            assert rule.covers(pd.DataFrame([dict(explanation.instance)]))[0]
            assert not desired[rule.covers(everything)].any()


def test_a_false_rule_of_a_covered_row_is_refused() -> None:
    table, explainer = make_history(), make_explainer()
    batch = explainer.explain_many(reuse=True, workers=1)
    read = batch.columns("row", "covered_by", "cardinality")
    row = next(row for row, by, size in zip(*read.values(), strict=True) if by is not None and size > 1)
    document = json.loads(batch.get_explanation(row).to_json())
    document["rules"][0]["rule"]["components"].pop()
    document |= {"wider": None, "wider_is_maximal": False, "wider_witnesses": [], "weight": document["weight"] - 1}
    found = check(add_digest(document), fit_varied_trees(), table)
    assert [failure.claim for failure in found.failures] == ["rule: coverage", "rule: verdict"]


def test_reusing_rules_saves_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, plain, count = make_explainer(), Explainer.explain, [0]

    def counting(self: Explainer, *args: Any, **more: Any) -> Any:
        count[0] += 1
        return plain(self, *args, **more)

    monkeypatch.setattr(Explainer, "explain", counting)
    batch = explainer.explain_many(reuse=True, workers=1)
    apart, searched = len(set(batch.columns("same_as")["same_as"])), count[0]
    assert searched < apart < len(batch)
    covered = sum(by is not None for by in batch.columns("covered_by")["covered_by"])
    assert f"{covered} rows not searched" in str(batch)
    cover = batch.find_rule_cover()
    assert (cover.covered, cover.uncovered) == (len(batch), 0)
    assert len(batch.find_rule_cover(wider=False)) >= len(cover)


def test_an_interrupted_batch_goes_on_as_if_nothing_had_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 2)
    explainer, plain = make_explainer(), Explainer.explain
    undisturbed = explainer.explain_many(reuse=True, workers=1)
    budget = [0]

    def interrupted(self: Explainer, *args: Any, **more: Any) -> Any:
        budget[0] -= 1
        if budget[0] < 0:
            raise KeyboardInterrupt
        return plain(self, *args, **more)

    monkeypatch.setattr(Explainer, "explain", interrupted)
    sizes = []
    for left in (1, 2, 3, 1000):
        budget[0] = left
        try:
            explainer.explain_many(reuse=True, workers=1, output=tmp_path / "batch")
        except KeyboardInterrupt:
            sizes.append(len(Batch.open(tmp_path / "batch")))
    batch = Batch.open(tmp_path / "batch")
    assert sizes == sorted(sizes)
    assert len(sizes) > 1
    assert read_contents(batch) == read_contents(undisturbed)
    assert batch.columns("covered_by") == undisturbed.columns("covered_by")


def test_a_folder_that_was_begun_without_is_refused(tmp_path: Path) -> None:
    explainer = make_explainer()
    explainer.explain_many(output=tmp_path / "batch", workers=1)
    with pytest.raises(InputError, match="other options"):
        explainer.explain_many(output=tmp_path / "batch", workers=1, reuse=True)


def test_without_documents_the_rows_are_the_same() -> None:
    explainer = make_explainer()
    full, bare = (explainer.explain_many(reuse=True, workers=1, documents=wanted) for wanted in (True, False))
    names = ("row", "covered_by", "rule", "wider", "coverage", "wider_coverage", "weight", "low", "high", "wider_low")
    assert full.columns(*names) == bare.columns(*names)
    assert set(bare.columns("document")["document"]) == {None}


def test_of_a_model_that_can_only_be_asked_proven_rules_alone_are_reused() -> None:
    from applications import decide

    table = past(60)
    explainer = Explainer(decide, table, desired="good")
    batch = explainer.explain_many(range(30), reuse=True, workers=1)
    proven = {row for row, low in zip(*batch.columns("row", "low").values(), strict=True) if low is not None}
    assert {by for by in batch.columns("covered_by")["covered_by"] if by is not None} <= proven
    for row in batch.rows:
        if batch.get_batch_row(row).covered_by is not None:
            assert check(batch.get_explanation(row), decide, table).status == "proven"


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Space, Any, Box]:
    """A small space with missing values and categories, an instance, and a box made of its components, moved out."""
    table = past(40)
    space = Space.infer(table, progress=False)
    instance = np.array([draw(st.integers(0, int(top))) for top in space.code_limits.top], dtype=np.int32)
    components = build_instance_components(space, instance)
    box = components.box(sum(1 << bit for bit in components.usable_numbers if draw(st.booleans())))
    low, high = box.low.copy(), box.high.copy()
    for j in range(len(space)):
        if instance[j] <= space.code_limits.last[j]:
            low[j] = draw(st.integers(0, int(low[j])))
            high[j] = draw(st.integers(int(high[j]), max(int(high[j]), int(space.code_limits.last[j]))))
    return space, instance, Box(low, high)


@given(boxes())
def test_own_components_keep_to_the_box_and_none_can_go(drawn: tuple[Space, Any, Box]) -> None:
    space, instance, wide = drawn
    components = build_instance_components(space, instance)
    bits = find_components_within(components, wide, components.usable, ())

    def inside(some: int) -> bool:
        box = components.box(some)
        return bool((box.low >= wide.low).all() and (box.high <= wide.high).all())

    assert inside(bits)
    assert components.box(bits).contains(instance[None, :])[0]
    assert not any(inside(bits & ~(1 << bit)) for bit in list_members(bits))


@given(st.integers(0, 2**32 - 1))
def test_the_shortest_box_that_contains_a_point_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 4, (7, 3)).astype(np.int32)
    high = low + rng.integers(0, 3, (7, 3)).astype(np.int32)
    lengths, points = rng.integers(0, 3, 7), rng.integers(0, 6, (20, 3)).astype(np.int32)
    found = find_shortest_box(points, low, high, lengths)
    for point, place in zip(points, found.tolist(), strict=True):
        held = [k for k in range(7) if ((low[k] <= point) & (point <= high[k])).all()]
        assert place == (min(held, key=lambda k: (lengths[k], k)) if held else -1)
