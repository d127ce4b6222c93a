"""The best rule of a search with its bounds moved as far out as is proven, within limits of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironrule.explain.prepared import Prepared
from ironrule.verdict import Proven

if TYPE_CHECKING:
    from ironrule.search import Findings, Problem
    from ironrule.search.widening import Widened


def widened(ready: Prepared, problem: Problem, findings: Findings) -> Widened | None:
    """The best rule with its bounds as far out as they go, where it was proven by reading the model."""
    from ironrule.model.census import Census
    from ironrule.oracles import Ensemble, Networks, Remembering
    from ironrule.search.widening import Widening

    best = findings.verdicts[0]
    if ready.oracle is None or not isinstance(best, Proven) or findings.stopped is not None:
        return None
    patient, scout = ready.oracle, None
    if isinstance(patient, Ensemble | Networks):
        patient, scout = patient.moderate, Remembering(patient.brief, points=problem.oracle.points)
    widening = Widening(
        problem.case,
        Remembering(patient, points=problem.oracle.points),
        problem.meter,
        problem.rng,
        Census.of(ready.history, ready.space.sizes),
        scout,
        ready.gaps,
    )
    with problem.meter.timed("widening"):
        return widening.widened(findings.rules[0], best)
