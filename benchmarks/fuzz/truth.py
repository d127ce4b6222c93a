"""What is true of one instance: which rules hold, what the lightest weighs, which changes give the desired outcome.

Every set of components is looked at, as bits of a whole number, so there are at most some thousand of them. A rule
holds exactly if it has, for every desired point, a component that is false there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.fuzz.data import Value
from benchmarks.fuzz.subjects import Flags
from benchmarks.fuzz.world import Ints, World

Part = tuple[str, str, Value]
Weights = Mapping[str, Any] | str | None


def parts_of(rule: Any) -> list[Part]:
    """The components of a rule: features, operators, values."""
    return [(part.feature, part.op, part.value) for part in rule.components]


class Truth:
    """The components of an instance, and what is true of all sets of them."""

    def __init__(self, world: World, instance: Ints, desired: Flags | None = None) -> None:
        self.world, self.instance = world, instance
        self.desired = world.desired if desired is None else desired
        self.parts: list[Part] = []
        falses = []
        for j, axis in enumerate(world.axes):
            value = axis.values[int(instance[j])]
            for op in ("<=", ">=") if axis.ordered and value is not None else ("==",):
                admitted = axis.admitted(op, value)
                if admitted is not None and not admitted.all():
                    self.parts.append((axis.name, op, value))
                    falses.append(~admitted[world.points[:, j]])
        shape = (len(falses), len(world.points))
        false = np.array(falses, dtype=np.int64).reshape(shape)
        self.duals = (1 << np.arange(len(falses), dtype=np.int64)) @ false  # per point, the components false there

    @cached_property
    def consistent(self) -> Flags:
        """For every set of components whether it excludes all desired points."""
        sets = np.arange(1 << len(self.parts), dtype=np.int64)
        holds = np.ones(len(sets), dtype=np.bool_)
        for dual in np.unique(self.duals[self.desired]).tolist():
            holds &= (sets & dual) != 0
        return holds

    def select(self, name: str) -> int:
        """The components that a text names: a feature, or a feature with an operator behind it."""
        feature, op = name, ""
        if name not in [axis.name for axis in self.world.axes] and name[-3:] in (" <=", " >=", " =="):
            feature, op = name[:-3], name[-2:]
        return sum(1 << bit for bit, part in enumerate(self.parts) if part[0] == feature and op in ("", part[1]))

    def mask(self, parts: Sequence[Part]) -> int | None:
        """The set of some components; None if one is not of this instance."""
        made = 0
        for part in parts:
            bits = [bit for bit, known in enumerate(self.parts) if known[:2] == part[:2] and same(known[2], part[2])]
            if not bits or made >> bits[0] & 1:
                return None
            made |= 1 << bits[0]
        return made

    def weights(self, given: Weights) -> list[Fraction]:
        """What every component weighs, exactly."""
        each = [Fraction(1)] * len(self.parts)
        if given == "paper":
            ordered = {axis.name: axis.ordered for axis in self.world.axes}
            return [Fraction(1 if ordered[name] else 2) for name, _, _ in self.parts]
        features = {axis.name for axis in self.world.axes}
        named = given.items() if isinstance(given, Mapping) else ()
        for name, weight in sorted(named, key=lambda one: one[0] not in features):  # a component's own weight counts
            chosen = self.select(name)
            each = [_exact(weight) if chosen >> bit & 1 else known for bit, known in enumerate(each)]
        return each

    def weigh(self, mask: int, given: Weights) -> Fraction:
        """What a set of components weighs."""
        return sum((one for bit, one in enumerate(self.weights(given)) if mask >> bit & 1), Fraction(0))

    def permitted(self, require: Sequence[str] = (), forbid: Sequence[str] = ()) -> Flags:
        """Which sets of components may be used."""
        sets = np.arange(1 << len(self.parts), dtype=np.int64)
        allowed = np.ones(len(sets), dtype=np.bool_)
        for name in forbid:
            allowed &= (sets & self.select(name)) == 0
        forbidden = sum({1 << bit for name in forbid for bit in range(len(self.parts)) if self.select(name) >> bit & 1})
        for name in require:
            allowed &= (sets & self.select(name) & ~forbidden) != 0
        return allowed

    def lightest(
        self, given: Weights = None, require: Sequence[str] = (), forbid: Sequence[str] = ()
    ) -> tuple[Fraction, int] | None:
        """The least weight of a permitted rule that holds, and such a rule; None if none holds."""
        sets = np.flatnonzero(self.consistent & self.permitted(require, forbid)).tolist()
        if not sets:
            return None
        weights = self.weights(given)
        rough = np.array([float(weight) for weight in weights])
        bits = (np.array(sets)[:, None] >> np.arange(len(rough))) & 1
        near = bits @ rough
        best = [sets[place] for place in np.flatnonzero(near <= near.min() * (1 + 1e-9)).tolist()]
        return min((self.weigh(mask, given), mask) for mask in best)

    def irredundant(self, forbid: Sequence[str] = ()) -> set[int]:
        """The rules that hold and of which nothing can go."""
        found = self.consistent & self.permitted((), forbid)
        sets = np.arange(len(found), dtype=np.int64)
        for bit in range(len(self.parts)):
            has = (sets >> bit & 1) == 1
            found[has] &= ~self.consistent[sets[has] & ~(1 << bit)]
        return set(np.flatnonzero(found).tolist())

    def shown(self, mask: int) -> str:
        """A set of components as text."""
        some = [f"{n} {op} {v!r}" for bit, (n, op, v) in enumerate(self.parts) if mask >> bit & 1]
        return " and ".join(some) or "(everyone)"


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same; a flag is no number."""
    if one is None or other is None:
        return one is other
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _exact(weight: Any) -> Fraction:
    """A weight as it is meant: a float stands for the decimal number that is written, a text for a fraction."""
    return Fraction(repr(float(weight))) if isinstance(weight, float) else Fraction(weight)
