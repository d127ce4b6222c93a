"""What is served: one model, one table, and those who can speak about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ironrule.checker import Check, Checker
from ironrule.errors import InputError
from ironrule.explain import Explainer, Explanation
from ironrule.rule import Component
from ironrule.server.checks import Checks
from ironrule.server.parts import Part, constraints_of, further
from ironrule.server.recent import Recent, Texts
from ironrule.space import Feature, Space, as_constraint

MOST_PARTS = 6


@dataclass(frozen=True)
class Subject:
    """An explainer, how to make the checker that goes with it under further constraints, and a name for people."""

    explainer: Explainer
    new_checker: Callable[[Texts], Checker]
    title: str
    _whole: Part = field(init=False, repr=False)
    _parts: Recent[Part] = field(init=False, repr=False)
    _checks: Checks = field(init=False, repr=False)
    _part_checks: Recent[Checks] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = {
            "_whole": Part(self.explainer),
            "_parts": Recent(lambda texts: Part(self.explainer.where(texts)), MOST_PARTS),
            "_checks": Checks(lambda: self.new_checker(())),
            "_part_checks": Recent(lambda texts: Checks(lambda: self.new_checker(texts)), MOST_PARTS),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, model: Any, data: Any, title: str, shared: Mapping[str, Any] | None = None, **wanted: Any) -> Subject:
        """From a model and data; ``shared`` goes to the explainer and the checker, ``wanted`` to the explainer."""
        both = dict(shared or {})
        own = tuple(both.pop("constraints", ()))

        def new_checker(more: Texts) -> Checker:
            meant = {name: wanted[name] for name in ("desired", "threshold", "margin") if name in wanted}
            return Checker(model, data, constraints=(*own, *more), **meant, **both)

        return cls(Explainer(model, data, constraints=own, **wanted, **both), new_checker, title)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self.explainer.space

    def part(self, where: Texts) -> Part:
        """The part of the space where further constraints hold: made when it is first asked for, the last few kept."""
        return self._parts.of(where) if where else self._whole

    def part_of(self, explanation: Explanation) -> Part | None:
        """The part of the space that an explanation speaks of; None if it speaks of another space."""
        where = further(explanation.constraints, self.space)
        if where is None or explanation.space != self._fingerprint(where):
            return None
        return self.part(where)

    def _fingerprint(self, where: Texts) -> str | None:
        try:
            more = tuple(map(as_constraint, where))
            return replace(self.space, constraints=(*self.space.constraints, *more)).fingerprint
        except InputError:  # it speaks of features that are not here
            return None

    def check(self, document: Any) -> Check:
        """Check an explanation, under the constraints that it names."""
        named = document.get("constraints") if isinstance(document, Mapping) else None
        listed = isinstance(named, list) and all(isinstance(text, str) for text in named)
        where = further(tuple(named or ()), self.space) if listed else None
        if not where:
            return self._checks.check(document)
        return self._part_checks.of(constraints_of(where, self.space)).check(document)


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


def text_of(value: object) -> str:
    """A value as a page shows it: text without quotes.

    >>> text_of("own house"), text_of(1250.0), text_of(None)
    ('own house', '1250', 'missing')
    """
    from ironrule.rule import shown

    return value if isinstance(value, str) else shown(value)


def name_of(feature: Feature) -> str:
    """A feature's label, or its name with spaces."""
    return feature.label or feature.name.replace("_", " ")
