"""The oracle of several models that must all desire a point: every box of a small space, against all its points."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from ironrule import Explainer
from ironrule.backends.conjunction.oracle import ConjunctionOracle, EverythingDesired
from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.counterfactuals.targets import build_reached_context
from ironrule.explain.query import build_case
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.rule.box import Box
from ironrule.verdict.budget import Budget, Meter
from ironrule.verdict.verdict import Proven, Refuted, Unrefuted

POINTS = pd.DataFrame(list(itertools.product(range(5), range(4), range(3))), columns=["a", "b", "c"])


def make_context(seed: int, domain: Any, constraints: tuple[str, ...] = ()) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(seed)
    models = []
    for model in (MLPClassifier((3,), solver="lbfgs", max_iter=60, random_state=0), RandomForestClassifier(3)):
        score = POINTS @ rng.normal(size=3) + rng.normal(0, 0.5, len(POINTS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            models.append(model.fit(POINTS, np.where(score > score.quantile(0.6), "yes", "no")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # past rows that break the constraints
        explainer = Explainer(models[0], POINTS, desired="yes", domain=domain, constraints=list(constraints))
    return build_reached_context(explainer._context, ChangeOptions(models=models[1:]), False), models


def make_run() -> Run:
    return Run(Meter(Budget(seconds=60.0)), np.random.default_rng(0))


@pytest.mark.parametrize("domain", ["seen", "auto"])
@pytest.mark.parametrize("constraints", [(), ("cf.a + cf.b <= 6", "cf.c != 1 or cf.a > 0")])
def test_every_box_gets_the_right_verdict(domain: str, constraints: tuple[str, ...]) -> None:
    context, models = make_context(3, domain, constraints)
    assert isinstance(context.oracle, ConjunctionOracle)
    allowed = POINTS[(POINTS["a"] + POINTS["b"] <= 6) & ((POINTS["c"] != 1) | (POINTS["a"] > 0)) | (not constraints)]
    good = allowed[np.all([model.predict(allowed) == "yes" for model in models], axis=0)]
    row = int(np.flatnonzero(~context.outcomes)[0])
    case, run, verdicts = build_case(context, row, own_model_only=True), make_run(), set()
    rng = np.random.default_rng(1)
    for _ in range(60):
        ends = np.sort(rng.integers(0, case.space.sizes, size=(2, 3)), axis=0).astype(np.int32)
        verdict = context.oracle.find(BoxQuery(case, Box(ends[0], ends[1])), run)
        inside = ((good >= ends[0]) & (good <= ends[1])).all(axis=1)  # the codes are the numbers
        verdicts.add(type(verdict))
        assert isinstance(verdict, Refuted) == inside.any()
        assert isinstance(verdict, Proven) != inside.any()
        if isinstance(verdict, Refuted):
            assert tuple(verdict.points[0]) in {*good[inside].itertuples(index=False, name=None)}
    assert verdicts == {Proven, Refuted}


def test_what_only_the_models_can_say_is_asked_at_single_points() -> None:
    """An oracle that takes the model's word for one point as its word for many would close too much."""
    context, models = make_context(3, "seen")
    asked = []

    class Suspicious:
        """Is sure of nothing: it proves no box in which the model it is told of desires the first point."""

        capabilities: Capabilities = NO_CAPABILITIES

        def find(self, query: BoxQuery, _: Run) -> Any:
            point = query.box.low[None, :].astype(np.int32)
            asked.append(type(query.case.model))
            if query.case.model.desired(point)[0]:
                return query.case.build_refuted(point)
            return query.case.build_proven(query.box, 1)

    oracle = replace(context.oracle, oracles=(Suspicious(), Suspicious()))
    row = int(np.flatnonzero(~context.outcomes)[0])
    case = build_case(context, row, own_model_only=True)
    case = replace(case, history=replace(case.history, seeds=case.history.seeds[:0]))
    good = np.all([model.predict(POINTS) == "yes" for model in models], axis=0)
    assert good.any()
    whole = Box(np.zeros(3, dtype=np.int32), np.array([4, 3, 2], dtype=np.int32))
    assert isinstance(oracle.find(BoxQuery(case, whole), make_run()), Refuted)
    assert {*asked} == {EverythingDesired}


def test_few_boxes_leave_a_query_open() -> None:
    context, _ = make_context(3, "seen")
    row = int(np.flatnonzero(~context.outcomes)[0])
    case = build_case(context, row, own_model_only=True)
    case = replace(case, history=replace(case.history, seeds=case.history.seeds[:0]))
    whole = Box(np.zeros(3, dtype=np.int32), np.array([4, 3, 2], dtype=np.int32))
    verdict = replace(context.oracle, limit=0).find(BoxQuery(case, whole), make_run())
    assert isinstance(verdict, Unrefuted)


@pytest.mark.parametrize("seed", range(4))
def test_cuts_leave_out_no_number_and_end(seed: int) -> None:
    """Cut a box with gaps as long as it can be cut: every value, and every gap, stays in a part."""
    rng = np.random.default_rng(seed)
    gaps = tuple(rng.random(count) < 0.5 for count in (6, 1, 3))
    oracle = ConjunctionOracle((), lambda points: (points[:, 0] < 0, points[:, 0] < 0), gaps)
    whole = Box(np.zeros(3, dtype=np.int32), np.array([6, 1, 4], dtype=np.int32))
    waiting, left = [whole], []
    for _ in range(10_000):
        if not waiting:
            break
        box = waiting.pop()
        near = np.stack([rng.integers(box.low, box.high + 1) for _ in range(2)])
        cut = oracle._find_cut(box, near[: int(rng.integers(0, 3))])
        if cut is None:
            left.append(box)
            continue
        parts = oracle._cut(box, *cut)
        assert all((part.low < part.high).sum() or (part.low == part.high).all() for part in parts)
        assert all(int((part.high - part.low).sum()) < int((box.high - box.low).sum()) for part in parts)
        waiting += parts
    assert not waiting
    # every piece of every feature: a value, or the gap behind it, where there is one
    ranges = [[(code, code) for code in range(size)] for size in (7, 2, 5)]
    for j, own in enumerate(gaps):
        ranges[j] += [(code, code + 1) for code in np.flatnonzero(own).tolist()]
    for combination in itertools.product(*ranges):
        low, high = np.array(combination).T
        assert any((part.low <= low).all() and (part.high >= high).all() for part in left)
