"""Readable models checked by looking at every point of a tiny space."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from ironrule import Budget, Explainer, Proven
from ironrule.backends.compiled_model import CompiledModel
from ironrule.backends.forest.compile import decide_points
from ironrule.rule.instance_components import build_instance_components

Points = npt.NDArray[np.int32]


def every_point(explainer: Explainer) -> Points:
    assert explainer.space.size < 2_000_000, "too many points to look at each"
    return np.array(list(itertools.product(*(range(size) for size in explainer.space.sizes))), dtype=np.int32)


def get_compiled_model(explainer: Explainer) -> CompiledModel:
    exact = explainer._context.compiled_model
    assert exact is not None, explainer.unreadable_reason
    return exact


def measure_undecided_share(explainer: Explainer) -> float:
    """Check that forests decide every point as the model does, wherever they decide; the share that they leave open."""
    points = every_point(explainer)
    own = explainer._context.model.desired(points)
    points = explainer._context.reduced.reduce(points)
    answers = [decide_points(forest, points) for forest in get_compiled_model(explainer).alternatives]
    possible, sure = (np.any(some, axis=0) for some in zip(*answers, strict=True))
    assert not (own & ~possible).any()
    assert not (sure & ~own).any()
    return float((possible & ~sure).mean())


def assert_shortest(explainer: Explainer, rows: int = 3, seed: int = 0) -> int:
    """Check that rules of denied rows are proven, consistent and of least cardinality; how many rows there were."""
    points = every_point(explainer)
    own = explainer._context.model.desired(points)
    denied = np.random.default_rng(seed).permutation(points[~own])[:rows]
    for point in denied:
        explanation = explainer.explain(explainer.space.decode_row(point), budget=Budget(seconds=600))
        assert isinstance(explanation.verdict, Proven)
        assert explanation.minimum
        relevant = build_instance_components(explainer.space, point)
        shortest = next(
            count
            for count in range(len(relevant.usable_numbers) + 1)
            for chosen in itertools.combinations(relevant.usable_numbers, count)
            if not relevant.box(sum(1 << bit for bit in chosen)).contains(points[own]).any()
        )
        assert explanation.cardinality == explanation.lower_bound == shortest
    return len(denied)
