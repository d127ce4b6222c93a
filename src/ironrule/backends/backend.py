"""What a backend is: all that one normal form needs, as one value.

A backend compiles a model that was read into flat arrays of its own, one for every alternative, and serves these: it
decides points, answers about boxes, and looks for nearest counterfactuals. No code outside its folder looks into the
arrays. Where several backends accept a normal form, each is asked in the order of the registry
(:mod:`ironrule.backends.registry`), and one that cannot serve a request says so by None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.model.intervals import Gaps
from ironrule.model.protocol import Model, NormalForm
from ironrule.model.read_model import TabulatedModel
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space

if TYPE_CHECKING:
    from ironrule.backends.nearest import CostSearch, GapCosts, NearestSearch
    from ironrule.backends.network.engine import BoundEngine
    from ironrule.oracles.protocol import BoxQuery, Oracle, Run


@dataclass(frozen=True, slots=True, eq=False)
class OracleRequest:
    """Compiled alternatives that an exact oracle is wanted for."""

    alternatives: Sequence[Any]
    space: Space
    model: Model | None = None  # decides as all of them do together; None where there are others beside them
    engine: BoundEngine | None = None  # where networks are bounded, if not on the cores
    gaps: Gaps | None = None  # the numbers between values, where these count


@dataclass(frozen=True, slots=True, eq=False)
class NearestRequest:
    """A model whose nearest counterfactuals are wanted, in a box that holds the instance."""

    tabulated_model: TabulatedModel
    query: BoxQuery
    limit: int  # boxes looked at per query of an oracle
    engine: BoundEngine | None = None
    oracle: Oracle | None = None  # the model's exact oracle, where there is one


@dataclass(frozen=True, slots=True, eq=False)
class CheapestRequest:
    """A model whose cheapest counterfactuals are wanted, in a box that holds the instance.

    ``query`` has the cost, infinite where a code may not be chosen. ``model`` decides single points. ``gap_costs`` says
    where numbers between two codes may be chosen, and what is known of what these cost.
    """

    tabulated_model: TabulatedModel
    query: BoxQuery
    model: Model
    gap_costs: GapCosts
    run: Run


@dataclass(frozen=True, slots=True)
class Backend:
    """All that one normal form needs, as functions.

    ``accepts`` says whether a normal form is its own. ``find_used_columns`` gives the columns, of those that the model
    sees, on which its decision may depend. ``compute_fingerprint`` gives a hash of how a model decides in
    the space, whatever file or library version it came from. ``compile`` gives the arrays of every alternative, under
    the constraints of the space or others. ``decide_points`` says which points may be desired by one of the
    alternatives, and which surely are. ``build_oracle`` gives the exact oracle, and raises Unreadable if the model is
    found to decide otherwise than its alternatives do; ``build_nearest_search`` the search for nearest counterfactuals.
    ``build_cheapest_search`` gives a search for cheapest ones under any cost, over all numbers, where there is one.
    """

    accepts: Callable[[NormalForm], bool]
    find_used_columns: Callable[[TabulatedModel], set[int]]
    compute_fingerprint: Callable[[TabulatedModel], str]
    compile: Callable[[TabulatedModel, Space, FeasibleRegion], Sequence[Any]]
    decide_points: Callable[[Sequence[Any], Points], tuple[BoolArray, BoolArray]]
    build_oracle: Callable[[OracleRequest], Oracle | None]
    build_nearest_search: Callable[[NearestRequest], NearestSearch | None]
    build_cheapest_search: Callable[[CheapestRequest], CostSearch] | None = None


def decide_any(
    decide: Callable[[Any, Points], tuple[BoolArray, BoolArray]], alternatives: Sequence[Any], points: Points
) -> tuple[BoolArray, BoolArray]:
    """Which points may be desired by one of the alternatives, and which surely are, given what decides for one."""
    possible, sure = np.zeros((2, len(points)), dtype=np.bool_)
    for alternative in alternatives:
        may, must = decide(alternative, points)
        possible |= may
        sure |= must
    return possible, sure
