"""What is served: one model, one table, the explainer and the checker for them, and subspaces of their space.

A request may add constraints on what can occur; a rule then speaks only of the subspace that satisfies them. The
document of the explanation names the constraints, so that every later reader, and the checker, know which subspace it
is about. The explainer and the checker of a subspace take a while to build: each is built once, and the last few are
cached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ironrule.checker.checker import Checker
from ironrule.checker.result import Check
from ironrule.errors import ConstraintError, InputError
from ironrule.explain.explainer import Explainer
from ironrule.results.explanation import Explanation
from ironrule.server.errors import format_brief
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.space import Space, as_constraint

T = TypeVar("T")
ConstraintTexts = tuple[str, ...]


@dataclass(slots=True)
class _CacheSlot(Generic[T]):
    """A place for one built value, and a lock for the thread that builds it."""

    built: tuple[T, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


class BuildCache(Generic[T]):
    """A bounded cache. A thread that asks for what another one is building waits for it; others do not wait.

    >>> cache = BuildCache(lambda texts: "+".join(texts), max_entries=1)
    >>> cache.get(("a", "b")), cache.get(("c",)), len(cache)
    ('a+b', 'c', 1)
    """

    def __init__(self, build: Callable[[ConstraintTexts], T], max_entries: int) -> None:
        self._build, self._max_entries, self._lock = build, max_entries, threading.Lock()
        self._slots: OrderedDict[ConstraintTexts, _CacheSlot[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, texts: ConstraintTexts) -> T:
        """What is built from the texts; an error of ``build`` is raised, and the next call tries again."""
        with self._lock:
            slot = self._slots.setdefault(texts, _CacheSlot())
            self._slots.move_to_end(texts)
            while len(self._slots) > self._max_entries:
                self._slots.popitem(last=False)
        with slot.lock:
            if not slot.built:
                slot.built = (self._build(texts),)
            return slot.built[0]


MAX_DECISIONS = 8


class SharedChecker:
    """One check at a time, since a checker keeps what it learns of every kind of decision.

    Documents come from anybody, so a checker that has met with many kinds gives way to a new one.
    """

    def __init__(self, build_checker: Callable[[], Checker]) -> None:
        self._build_checker, self._lock = build_checker, threading.Lock()
        self._checker: Checker | None = None
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
    def frequencies(self) -> tuple[npt.NDArray[np.int64], ...]:
        """One array per feature."""
        columns, sizes = self.explainer.codes.columns, self.explainer.space.sizes.tolist()
        return tuple(np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True))


def validate_constraints(given: Sequence[str], space: Space) -> ConstraintTexts:
    """The constraints that somebody gives, each once; raises ConstraintError if one cannot be used."""
    texts = tuple(dict.fromkeys(text.strip() for text in given))
    if len(texts) > MAX_CONSTRAINTS:
        raise ConstraintError(
            expected=f"at most {MAX_CONSTRAINTS} constraints are allowed", got=len(texts), hint="join some with and"
        )
    for text in texts:
        if len(text) > MAX_CONSTRAINT_LENGTH or not text.isprintable():
            expected = f"a constraint must be one line of at most {MAX_CONSTRAINT_LENGTH} characters"
            raise ConstraintError(expected=expected, got=format_brief(text))
        constraint = parse_constraint(text)
        if constraint.mentions_instance:
            raise ConstraintError(
                expected="a constraint on the space must name cf only",
                got=format_brief(text),
                hint="use the value instead of x",
            )
        bind_constraint(constraint, space.features)
    return texts


def find_extra_constraints(constraints: ConstraintTexts, space: Space) -> ConstraintTexts | None:
    """The constraints beyond a space's own; None if they do not begin with these."""
    own = tuple(map(str, space.constraints))
    return constraints[len(own) :] if constraints[: len(own)] == own else None


MAX_SUBSPACES = 6


@dataclass(frozen=True)
class ServedModel:
    """An explainer, how to build the checker that goes with it under extra constraints, and a title for people."""

    explainer: Explainer
    build_checker: Callable[[ConstraintTexts], Checker]
    title: str
    _whole_space: Subspace = field(init=False, repr=False)
    _subspaces: BuildCache[Subspace] = field(init=False, repr=False)
    _checker: SharedChecker = field(init=False, repr=False)
    _subspace_checkers: BuildCache[SharedChecker] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = {
            "_whole_space": Subspace(self.explainer),
            "_subspaces": BuildCache(lambda texts: Subspace(self.explainer.where(texts)), MAX_SUBSPACES),
            "_checker": SharedChecker(lambda: self.build_checker(())),
            "_subspace_checkers": BuildCache(
                lambda texts: SharedChecker(lambda: self.build_checker(texts)), MAX_SUBSPACES
            ),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

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

        return cls(Explainer(model, data, constraints=own, **wanted, **both), build_checker, title)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self.explainer.space

    def get_subspace(self, where: ConstraintTexts) -> Subspace:
        """The subspace where extra constraints hold: built when it is first asked for, the last few are cached."""
        return self._subspaces.get(where) if where else self._whole_space

    def find_subspace(self, explanation: Explanation) -> Subspace | None:
        """The subspace that an explanation speaks of; None if it speaks of another space."""
        where = find_extra_constraints(explanation.constraints, self.space)
        if where is None or explanation.space != self._compute_fingerprint(where):
            return None
        return self.get_subspace(where)

    def _compute_fingerprint(self, where: ConstraintTexts) -> str | None:
        try:
            extra = tuple(map(as_constraint, where))
            return replace(self.space, constraints=(*self.space.constraints, *extra)).fingerprint
        except InputError:  # it speaks of features that are not here
            return None

    def check(self, document: Any) -> Check:
        """Check an explanation, under the constraints that it names."""
        named = document.get("constraints") if isinstance(document, Mapping) else None
        listed = isinstance(named, list) and all(isinstance(text, str) for text in named)
        where = find_extra_constraints(tuple(named or ()), self.space) if listed else None
        if not where:
            return self._checker.check(document)
        return self._subspace_checkers.get(validate_constraints(where, self.space)).check(document)
