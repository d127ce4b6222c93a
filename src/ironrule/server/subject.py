"""What is served: one model, one table, and those who can speak about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.explain import Explainer
from ironrule.rule import Component
from ironrule.space import Feature, Space, Value
from ironrule.verdict.checker import Check, Checker

MOST_DECISIONS = 8


@dataclass(frozen=True)
class Subject:
    """An explainer, how to make the checker that goes with it, and a name for people."""

    explainer: Explainer
    new_checker: Callable[[], Checker]
    title: str
    _checking: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _decisions: set[str] = field(default_factory=set, repr=False)  # that the checker has met with

    @classmethod
    def of(cls, model: Any, data: Any, title: str, shared: Mapping[str, Any] | None = None, **wanted: Any) -> Subject:
        """From a model and data; ``shared`` goes to the explainer and the checker, ``wanted`` to the explainer."""
        both = dict(shared or {})
        return cls(Explainer(model, data, **wanted, **both), lambda: Checker(model, data, **both), title)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self.explainer.space

    @cached_property
    def frequencies(self) -> tuple[npt.NDArray[np.int64], ...]:
        """How often every code of every feature occurs among the past rows."""
        columns, sizes = self.explainer.codes.columns, self.space.sizes.tolist()
        return tuple(np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True))

    @cached_property
    def _checker(self) -> Checker:
        return self.new_checker()

    def check(self, document: Any) -> Check:
        """Check an explanation; one at a time, since the checker keeps what it learns of every kind of decision.

        Documents come from anybody, so a checker that has met with many kinds gives way to a new one.
        """
        with self._checking:
            self._decisions.add(repr(document.get("decision")) if isinstance(document, Mapping) else "")
            if len(self._decisions) > MOST_DECISIONS:
                self._decisions.clear()
                self.__dict__.pop("_checker", None)
            return self._checker.check(document)


def is_true(component: Component, feature: Feature, code: int) -> bool:
    """Whether a component of a rule holds for a code of its feature; order says nothing about a missing value.

    >>> age = Feature("age", (20, 30, 40), ordered=True)
    >>> [is_true(Component("age", "<=", 30), age, code) for code in range(3)]
    [True, True, False]
    """
    bound = feature.code(component.value)
    if component.op == "==":
        return code == bound
    if code == feature.missing_code:
        return False
    return code <= bound if component.op == "<=" else code >= bound


def text_of(value: Value) -> str:
    """A value as a page shows it: text without quotes.

    >>> text_of("own house"), text_of(1250.0), text_of(None)
    ('own house', '1250', 'missing')
    """
    from ironrule.rule import shown

    return value if isinstance(value, str) else shown(value)


def name_of(feature: Feature) -> str:
    """A feature's label, or its name with spaces."""
    return feature.label or feature.name.replace("_", " ")
