"""The backend for models that must all desire a point and are read side by side: each is served by its own backend."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.backend import Backend, NearestRequest, OracleRequest
from ironrule.backends.compiled_model import CompiledPart
from ironrule.backends.conjunction.oracle import ConjunctionOracle
from ironrule.model.intervals import Gaps, find_gaps
from ironrule.model.normal_form.conjunction import ModelConjunction
from ironrule.model.protocol import NormalForm, Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Oracle
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class CompiledConjunction:
    """Every part as its own backend compiled it, and the numbers between values at which one of them may turn."""

    parts: tuple[CompiledPart, ...]
    gaps: Gaps


def is_conjunction(normal_form: NormalForm) -> bool:
    """Whether a normal form is of several models that stay apart."""
    return isinstance(normal_form, ModelConjunction)


def _list_own(backends: Sequence[Backend], read: TabulatedModel) -> tuple[Backend, ...]:
    own = tuple(backend for backend in backends if backend.accepts(read.normal_form))
    if not own:
        raise Unreadable(f"no backend serves models that are read as a {read.normal_form.kind}")
    return own


def _find_used_columns(backends: Sequence[Backend], model: TabulatedModel) -> set[int]:
    """The columns that one of the parts uses."""
    assert isinstance(model.normal_form, ModelConjunction)
    used = set[int]()
    for (first, _), read in zip(model.normal_form.spans, model.parts, strict=True):
        used |= {first + column for column in _list_own(backends, read)[0].find_used_columns(read)}
    return used


def _compute_fingerprint(backends: Sequence[Backend], model: TabulatedModel) -> str:
    """A hash of how all parts decide."""
    each = [_list_own(backends, read)[0].compute_fingerprint(read) for read in model.parts]
    return hashlib.sha256(f"all of {','.join(each)}".encode()).hexdigest()


def _compile(
    backends: Sequence[Backend], model: TabulatedModel, space: Space, feasible: FeasibleRegion
) -> tuple[CompiledConjunction, ...]:
    """One alternative, which has every part."""
    parts = []
    for read in model.parts:
        own = _list_own(backends, read)
        parts.append(CompiledPart(own, own[0].compile(read, space, feasible)))
    return (CompiledConjunction(tuple(parts), find_gaps(space, [model])),)


def decide_points(alternatives: Sequence[CompiledConjunction], points: Points) -> tuple[BoolArray, BoolArray]:
    """Which points all parts may desire, and which all surely do."""
    (compiled,) = alternatives
    answers = [part.backends[0].decide_points(part.alternatives, points) for part in compiled.parts]
    possible, sure = (np.all([answer[which] for answer in answers], axis=0) for which in (0, 1))
    return possible, sure


def build_oracle(request: OracleRequest) -> Oracle:
    """Branch and bound with the oracles of all parts; raises Unreadable if one of them has none."""
    (compiled,) = request.alternatives
    oracles = []
    for part in compiled.parts:
        own = OracleRequest(part.alternatives, request.space, None, request.engine, request.gaps)
        found = (backend.build_oracle(own) for backend in part.backends)
        oracle = next((one for one in found if one is not None), None)
        if oracle is None:
            raise Unreadable("one of the models has no exact oracle in this space; the models are only asked")
        oracles.append(oracle)
    decide = partial(decide_points, request.alternatives)
    return ConjunctionOracle(tuple(oracles), decide, compiled.gaps.turning_gaps)


def _build_nearest_search(_: NearestRequest) -> None:
    """None of its own: the cheapest boxes are searched with the oracle, under any cost."""


def build_conjunction_backend(backends: Sequence[Backend]) -> Backend:
    """The backend over those of the parts."""
    return Backend(
        accepts=is_conjunction,
        find_used_columns=partial(_find_used_columns, backends),
        compute_fingerprint=partial(_compute_fingerprint, backends),
        compile=partial(_compile, backends),
        decide_points=decide_points,
        build_oracle=build_oracle,
        build_nearest_search=_build_nearest_search,
    )
