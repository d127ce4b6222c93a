"""Which components there are for an instance, which were permitted, what they weigh, and which a point makes false.

Feature j has the components 2j (``F <= v``, or ``F == v`` for a nominal or missing value) and 2j + 1 (``F >= v``), with
v the instance's value. Sets of components are integers, bit i standing for component i. A component that excludes
nothing is never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ironrule.space import Points, Space
from ironrule.verdict.checker.document import Permission
from ironrule.verdict.checker.result import Fails
from ironrule.verdict.checker.terms import Condition

Op = Literal["<=", ">=", "=="]


@dataclass(frozen=True, slots=True)
class Usable:
    """A component relevant to the instance: its operator, and what it admits."""

    op: Op
    condition: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Permitted:
    """The components by number, those that may be used, the sets of which one must be, and the weights."""

    components: dict[int, Usable]
    allowed: int
    required: tuple[int, ...]
    weights: tuple[float, ...]

    def number(self, condition: Condition, op: str) -> int:
        """A component's number; raises Fails if it is not one that was permitted for the instance."""
        for bit, one in self.components.items():
            if one.condition == condition and one.op == op:
                if not self.allowed >> bit & 1:
                    raise Fails("the rule must use permitted components alone, but one of it was forbidden")
                return bit
        raise Fails("a component must speak of the instance's own value, and exclude something, but one does not")

    def dual(self, point: Points) -> int:
        """The permitted components that are false on a point."""
        false = 0
        for bit, one in self.components.items():
            if not one.condition.low <= point[one.condition.feature] <= one.condition.high:
                false |= 1 << bit
        return false & self.allowed

    def weigh(self, rule: int) -> float:
        """What a rule weighs."""
        return sum(weight for bit, weight in enumerate(self.weights) if rule >> bit & 1)


def permitted(space: Space, instance: Points, permission: Permission) -> Permitted:
    """What was permitted for an instance; raises Fails if what is said of that makes no sense."""
    components = _relevant(space, instance)
    usable = sum(1 << bit for bit in components)
    allowed = usable
    for name in permission.forbid:
        allowed &= ~_named(space, components, name)
    required = tuple(_named(space, components, name) & allowed for name in permission.require)
    if not all(required):
        raise Fails("what a rule must use must be usable for this instance, but something is not")
    return Permitted(components, allowed, required, _weights(space, components, permission))


def _relevant(space: Space, instance: Points) -> dict[int, Usable]:
    found: dict[int, Usable] = {}
    for j, feature in enumerate(space.features):
        code = int(instance[j])
        if feature.ordered and code != feature.missing_code:
            found[2 * j] = Usable("<=", Condition(j, 0, code))
            found[2 * j + 1] = Usable(">=", Condition(j, code, feature.last))
        else:
            found[2 * j] = Usable("==", Condition(j, code, code))
    sizes = space.sizes.tolist()
    return {
        bit: one
        for bit, one in found.items()
        if one.condition.high - one.condition.low + 1 < sizes[one.condition.feature]
    }


def _named(space: Space, components: dict[int, Usable], name: str) -> int:
    """The components that a text names: a feature, or a feature with an operator behind it."""
    feature, op = name, ""
    if name not in space.names and name.endswith((" <=", " >=", " ==")):
        feature, op = name[:-3], name[-2:]
    if feature not in space.names:
        raise Fails(f"what was permitted must name features of the space, but {name!r} is none")
    place = space.index(feature)
    return sum(1 << bit for bit, one in components.items() if bit // 2 == place and op in ("", one.op))


def _weights(space: Space, components: dict[int, Usable], permission: Permission) -> tuple[float, ...]:
    each = [1.0] * (2 * len(space))
    if permission.weights == "paper":
        return tuple(2.0 if not space.features[bit // 2].ordered and bit % 2 == 0 else 1.0 for bit in range(len(each)))
    for name, weight in permission.weights.items() if isinstance(permission.weights, dict) else ():
        if weight <= 0:
            raise Fails(f"a weight must be positive, but {name!r} has {weight:g}")
        chosen = _named(space, components, name)
        each = [weight if chosen >> bit & 1 else known for bit, known in enumerate(each)]
    return tuple(each)
