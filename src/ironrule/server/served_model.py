"""What is served: one model, one table, the explainer and the checker for them, and subspaces of their space.

A request may add constraints on what can occur; a rule then speaks only of the subspace that satisfies them. The
document of the explanation names the constraints, so that every later reader, and the checker, know which subspace it
is about. The explainer and the checker of a subspace take a while to build, so the last few are cached. A thread that
needs one which another thread is building waits for it; other threads do not wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from cachetools import LRUCache, cached

from ironrule.arrays import Int64Array
from ironrule.checker.checker import Checker
from ironrule.checker.readers.saved_files import SavedFileChecker
from ironrule.checker.result import Check
from ironrule.errors import ConstraintError, InputError, ModelError
from ironrule.explain.explainer import Explainer
from ironrule.model.decision import read_classes
from ironrule.results.explanation import Explanation
from ironrule.results.scope import rebuild_space
from ironrule.server.errors import format_brief
from ironrule.space.codes import build_recoding
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature
from ironrule.space.space import Space, as_constraint

if TYPE_CHECKING:
    from ironrule.explain.row_score import RowScorer

logger = logging.getLogger("ironrule.server")
T = TypeVar("T")
RowInput = int | Mapping[str, Any]  # the number of a past row, or the values of any row
ConstraintTexts = tuple[str, ...]
MAX_DECISIONS = 8


class SharedChecker:
    """A checker for several threads: one check at a time.

    A checker caches the model's answers for every kind of decision. Clients may send any number of kinds, so a checker
    that has seen many is replaced.
    """

    def __init__(self, build_checker: Callable[[], Checker | SavedFileChecker]) -> None:
        self._build_checker, self._lock = build_checker, threading.Lock()
        self._checker: Checker | SavedFileChecker | None = None
        self._decisions: set[str] = set()

    def check(self, document: Any) -> Check:
        """Check an explanation."""
        with self._lock:
            self._decisions.add(repr(document.get("decision")) if isinstance(document, Mapping) else "")
            if self._checker is None or len(self._decisions) > MAX_DECISIONS:
                self._decisions.clear()
                self._checker = self._build_checker()
            return self._checker.check(document)


MAX_CONSTRAINTS, MAX_CONSTRAINT_LENGTH = 16, 500


@dataclass(frozen=True)
class Subspace:
    """The explainer of a subspace, and how often every code of every feature occurs among its past rows."""

    explainer: Explainer

    @cached_property
    def frequencies(self) -> tuple[Int64Array, ...]:
        """One array per feature."""
        columns, sizes = self.explainer.codes.columns, self.explainer.space.sizes.tolist()
        return tuple(np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True))

    def count_codes(self, space: Space) -> tuple[Int64Array, ...]:
        """The frequencies over domains to which the values of one row were added."""
        pairs = zip(self.explainer.space.features, space.features, self.frequencies, strict=True)
        return tuple(_count_codes(old, new, counts) for old, new, counts in pairs)


def _count_codes(old: Feature, new: Feature, counts: Int64Array) -> Int64Array:
    recoding = build_recoding(old, new)
    if recoding is None:
        return counts
    moved = np.zeros(new.size, dtype=counts.dtype)
    moved[recoding] = counts
    return moved


def validate_constraints(given: Sequence[str], space: Space) -> ConstraintTexts:
    """The constraints of a request, each once; raises ConstraintError if one cannot be used."""
    texts = tuple(dict.fromkeys(text.strip() for text in given))
    if len(texts) > MAX_CONSTRAINTS:
        expected = f"at most {MAX_CONSTRAINTS} constraints are allowed"
        raise ConstraintError(expected=expected, got=len(texts), hint="join some with and")
    for text in texts:
        if len(text) > MAX_CONSTRAINT_LENGTH or not text.isprintable():
            expected = f"a constraint must be one line of at most {MAX_CONSTRAINT_LENGTH} characters"
            raise ConstraintError(expected=expected, got=format_brief(text))
        constraint = parse_constraint(text)
        if constraint.mentions_instance:
            expected = "a constraint on the space must name cf only"
            raise ConstraintError(expected=expected, got=format_brief(text), hint="use the value instead of x")
        bind_constraint(constraint, space.features)
    return texts


def find_extra_constraints(constraints: ConstraintTexts, space: Space) -> ConstraintTexts | None:
    """The constraints beyond a space's own; None if they do not begin with these."""
    own = tuple(map(str, space.constraints))
    return constraints[len(own) :] if constraints[: len(own)] == own else None


MAX_SUBSPACES = 6


def _cache_last(build: Callable[[ConstraintTexts], T]) -> Callable[[ConstraintTexts], T]:
    """The function with a cache of its last results."""
    remember: Callable[..., Any] = cached(LRUCache(MAX_SUBSPACES), condition=threading.Condition())
    cached_build: Callable[[ConstraintTexts], T] = remember(build)
    return cached_build


class ServedModel:
    """An explainer, the checker that goes with it, both for every subspace, a title for people, and the classes of the
    model, where it names them.
    """

    def __init__(
        self,
        explainer: Explainer,
        build_checker: Callable[[ConstraintTexts], Checker | SavedFileChecker],
        title: str,
        classes: Sequence[Any] = (),
    ) -> None:
        self.explainer, self.title, self.classes = explainer, title, tuple(classes)
        self._scorer_lock = threading.Lock()
        self._scorers: list[RowScorer | None] = []  # one entry, once scores are needed
        self._whole_space, self._checker = Subspace(explainer), SharedChecker(lambda: build_checker(()))
        self._build_subspace = _cache_last(lambda where: Subspace(explainer.where(where)))
        self._build_shared_checker = _cache_last(lambda where: SharedChecker(lambda: build_checker(where)))

    @classmethod
    def from_model(
        cls, model: Any, data: Any, title: str, shared: Mapping[str, Any] | None = None, **wanted: Any
    ) -> ServedModel:
        """From a model and data; ``shared`` goes to the explainer and the checker, ``wanted`` to the explainer."""
        both = dict(shared or {})
        own = tuple(both.pop("constraints", ()))

        def build_checker(extra: ConstraintTexts) -> Checker:
            meant = {name: wanted[name] for name in ("desired", "threshold", "margin") if name in wanted}
            return Checker(model, data, constraints=(*own, *extra), **meant, **both)

        explainer = Explainer(model, data, constraints=own, **wanted, **both)
        return cls(explainer, build_checker, title, read_classes(model) or ())

    @classmethod
    def from_saved_file(cls, path: Path, title: str, constraints: Sequence[Any] = ()) -> ServedModel:
        """From the file of a saved explainer. Checks are against the normal form in the file, and say so."""
        explainer = Explainer.load(path)
        own = tuple(constraints)
        explainer = explainer.where(own) if own else explainer
        return cls(explainer, lambda extra: SavedFileChecker(path, (*own, *extra)), title)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self.explainer.space

    @property
    def outcome_names(self) -> dict[str, str]:
        """What people call the outcomes."""
        desired, undesired = self.explainer.outcome_names
        return {"desired": desired, "undesired": undesired}

    @property
    def scorer(self) -> RowScorer | None:
        """What scores rows; None for a model without scores, or whose scores fail. The model is asked about all past
        rows the first time.
        """
        with self._scorer_lock:
            if not self._scorers:
                try:
                    self._scorers.append(self.explainer.build_row_scorer())
                except ModelError as error:  # decisions and lists do not need them
                    logger.warning("scores are not shown: asking for them failed (%s)", error.code)
                    return None
            return self._scorers[0]

    def get_subspace(self, where: ConstraintTexts) -> Subspace:
        """The subspace where extra constraints hold."""
        return self._build_subspace(where) if where else self._whole_space

    def find_subspace(self, explanation: Explanation) -> Subspace | None:
        """The subspace that an explanation speaks of; None if it speaks of another space."""
        where = find_extra_constraints(explanation.constraints, self.space)
        if where is None:
            return None
        try:
            extra = tuple(map(as_constraint, where))
            whole = replace(self.space, constraints=(*self.space.constraints, *extra))
            space = rebuild_space(explanation, whole)  # it may have values of its own row
        except InputError:  # the explanation names features that are not in this space
            return None
        return self.get_subspace(where) if explanation.space == space.fingerprint else None

    def check(self, document: Any) -> Check:
        """Check an explanation or a ladder, under the constraints that it names."""
        is_ladder = isinstance(document, Mapping) and "ladder_format" in document
        explanation = document.get("explanation") if is_ladder else document
        named = explanation.get("constraints") if isinstance(explanation, Mapping) else None
        listed = isinstance(named, list) and all(isinstance(text, str) for text in named)
        where = find_extra_constraints(tuple(named or ()), self.space) if listed else None
        if not where:
            return self._checker.check(document)
        return self._build_shared_checker(validate_constraints(where, self.space)).check(document)
