"""Synthetic rule classifiers, as in the paper: exactly those who satisfy a secret rule are denied, and it is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ironrule.model import history_of
from ironrule.oracles import Case, Layered
from ironrule.rule import Box, relevant_to
from ironrule.search import Algorithm, GeneticRuleCF, GreedyRuleCF, solve
from ironrule.space import Feature, Points, Space
from ironrule.verdict import Refuted
from tiny import Flags, codes_of, problem_of

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
    relevant = relevant_to(SPACE, rows[0])
    rule = sum(1 << int(bit) for bit in rng.choice(relevant.bits, size, replace=False))
    model = Denying(relevant.box(rule))
    history = history_of(SPACE, codes_of(SPACE, rows), model.desired(rows))
    return Case(SPACE, model, history, relevant, SPACE.feasible), rule


@pytest.mark.parametrize("algorithm", [GreedyRuleCF(), GeneticRuleCF()], ids=["greedy", "genetic"])
@pytest.mark.parametrize("size", [2, 4, 6, 8])
@pytest.mark.parametrize("seed", range(2))
def test_the_rule_that_the_model_consists_of_is_found(algorithm: Algorithm, size: int, seed: int) -> None:
    case, rule = secret(seed, size)
    findings = solve(problem_of(case, Layered()), algorithm)
    assert findings.rules[0] == rule
    assert not isinstance(findings.verdicts[0], Refuted)
