"""Synthetic rule classifiers, as in the paper: exactly those who satisfy a secret rule are denied, and it is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ironrule.arrays import Points
from ironrule.model.history import build_history
from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.protocol import Case
from ironrule.rule.box import Box
from ironrule.rule.instance_components import build_instance_components
from ironrule.search.driver import solve
from ironrule.search.genetic import GeneticRuleCF
from ironrule.search.greedy_cf import GreedyRuleCF
from ironrule.search.problem import Algorithm
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted
from tiny_cases import Flags, codes_of, problem_of

FEATURES, CODES, ROWS = 14, 12, 3_000
SPACE = Space(
    tuple(
        Feature(f"f{place}", tuple(range(CODES)), ordered=True)
        if place % 3
        else Feature(f"f{place}", tuple(f"v{code}" for code in range(CODES)), ordered=False)
        for place in range(FEATURES)
    )
)


@dataclass(frozen=True, slots=True, eq=False)
class Denying:
    """A model that denies exactly the points of a box."""

    box: Box

    def desired(self, points: Points) -> Flags:
        return ~self.box.contains(points)


def secret(seed: int, size: int) -> tuple[Case, int]:
    """A case whose model is a random rule of ``size`` components, and that rule."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, CODES, size=(ROWS, FEATURES), dtype=np.int32)
    components = build_instance_components(SPACE, rows[0])
    rule = sum(1 << int(bit) for bit in rng.choice(components.usable_numbers, size, replace=False))
    model = Denying(components.box(rule))
    history = build_history(SPACE, codes_of(SPACE, rows), model.desired(rows))
    return Case(SPACE, model, history, components, SPACE.feasible), rule


@pytest.mark.parametrize("algorithm", [GreedyRuleCF(), GeneticRuleCF()], ids=["greedy", "genetic"])
@pytest.mark.parametrize("size", [2, 4, 6, 8])
@pytest.mark.parametrize("seed", range(2))
def test_the_rule_that_the_model_consists_of_is_found(algorithm: Algorithm, size: int, seed: int) -> None:
    case, rule = secret(seed, size)
    findings = solve(problem_of(case, SearchThenProve()), algorithm)
    assert findings.rules[0] == rule
    assert not isinstance(findings.verdicts[0], Refuted)
