"""What the readers of the boosting libraries share: categories of a column, trees, and the rounding of their sums."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.readers import normal_form
from ironrule.checker.readers.decisions import ScoreSum, measure_tree
from ironrule.checker.readers.normal_form import DOUBLE_ROUNDOFF, NoReading, RegressionTree, Split, round_to_float32
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.space.table import is_missing

Node = TypeVar("Node")
InnerNode = tuple[Split, Node, Node]


@dataclass(frozen=True, slots=True)
class Float32Split:
    """A float32 below a number goes left; where ``inclusive`` so does one that equals it."""

    column: int
    number: float
    missing_left: bool
    inclusive: bool
    turns_once: bool = True  # casting to float32 never falls

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go left."""
        numbers, limit = round_to_float32(values), np.float32(self.number)
        below = numbers <= limit if self.inclusive else numbers < limit
        return np.where(np.isnan(numbers), self.missing_left, below)


def apply_to_categories(
    values: AnyArray, names: tuple[Hashable, ...], unknown: int | None, ask: Callable[[Float64Array], BoolArray]
) -> BoolArray:
    """What a split on categories answers, asked for their codes: positions in the list ``names`` that a data frame had.

    Objects are looked up in the list; one that is not there has the code ``unknown``, or is refused without one.
    Numbers are categories in a data frame and codes in an array: where the answers differ they are refused.
    """
    codes = {name: float(code) for code, name in enumerate(names)}
    if values.dtype == object and not names:
        raise NoReading("the names of this column's categories are not known to the model")
    answer = None if values.dtype == object else ask(normal_form.to_float64(values))
    if names:
        looked_up = [math.nan if is_missing(value) else codes.get(value, unknown) for value in values.tolist()]
        if None in looked_up:
            raise NoReading(f"the model does not know the category {values.tolist()[looked_up.index(None)]!r}")
        named = ask(np.array(looked_up, dtype=np.float64))
        if answer is not None and (answer != named).any():
            raise NoReading("numbers of a column of categories may be the categories or their positions")
        answer = named
    assert answer is not None
    return answer


def identify_listed_class(library: str, instance: Any, names: Sequence[str], unsupported: Sequence[str] = ()) -> str:
    """The name of the class of an object that the library made, with all of its methods as the library wrote them;
    an empty text if it is not one of the names. Raises NoReading if it is unsupported, or a method was replaced.
    """
    name = identify_class(library, instance)
    if name not in (*names, *unsupported):
        return ""
    for attribute in getattr(instance, "__dict__", {}):
        if inspect.isroutine(inspect.getattr_static(type(instance), attribute, None)):
            raise NoReading(f"the {attribute} of this {name} was replaced, so its structure does not tell its outcome")
    if name in unsupported:
        raise NoReading(f"{name} is neither a classifier nor a regression")
    return name


def build_tree(root: Node, inspect_node: Callable[[Node], InnerNode[Node] | float]) -> RegressionTree:
    """The tree below a node of a library, numbered level by level; ``inspect_node`` gives a node's split and children,
    or a leaf's value.
    """
    nodes = [root]
    found: list[tuple[Split | None, int, int, float]] = []  # per node its split, its children and its value
    for node in nodes:  # grows while it is read: the children of a node come last
        seen = inspect_node(node)
        if isinstance(seen, tuple):
            found.append((seen[0], len(nodes), len(nodes) + 1, 0.0))
            nodes += seen[1:]
        else:
            found.append((None, -1, -1, float(seen)))
    splits, left, right, value = zip(*found, strict=True)
    if not np.isfinite(value).all():
        raise NoReading("it has a leaf whose value is not finite")
    return RegressionTree(splits, np.array(left, np.intp), np.array(right, np.intp), np.array(value))


def sum_in_order(start: float, trees: Sequence[RegressionTree], roundoff: float, blur: float = 0.0) -> ScoreSum:
    """The score of a library that adds its trees one by one to a start, rounding each sum by at most ``roundoff``.

    Rounding a sum of two numbers moves it by at most the roundoff times its size (sums do not underflow). The size of a
    partial sum is bounded by the least and the greatest values of the trees in it, and by the error so far.
    ``blur`` bounds how far the library may be from the values of one tree, in units of the start and its size.
    """
    low = high = start
    error = size = 0.0
    for tree in trees:
        values = tree.value[tree.left < 0]
        least, most = float(values.min()), float(values.max())
        low, high, size = low + least, high + most, max(-least, most)
        error += blur * (abs(start) + size)
        error += roundoff * (max(-low, high) + error)
    error *= 1.0 + 2.0**-30  # the bound itself was computed with rounding
    reach = max(abs(start), -low, high) + 2 * error
    if not reach < 1e300 or (roundoff > DOUBLE_ROUNDOFF and not reach < 1e37):
        raise NoReading("its scores may leave the range of floating-point numbers")
    return ScoreSum(start, tuple(trees), error=error, size_bound=reach)


def sum_in_any_order(trees: Sequence[RegressionTree], roundoff: float) -> ScoreSum:
    """The score of a library that adds its trees in an order that is not known.

    Whatever the order, each of the sums is at most as large as the sizes of all trees together, and there are fewer
    sums than trees; that they are rounded themselves is less than one sum more.
    """
    size = sum(map(measure_tree, trees))
    error = (len(trees) + 1) * roundoff * size
    return ScoreSum(0.0, tuple(trees), error=error, size_bound=size + error)


def scale_and_shift(score: ScoreSum, factor: float, shift: float) -> ScoreSum:
    """The score times a factor plus a shift, in float64: here the values of the trees are rounded, there the sum."""
    moved = score.error + 4 * DOUBLE_ROUNDOFF * (score.size + score.error)
    error = abs(factor) * moved + 4 * DOUBLE_ROUNDOFF * abs(shift)
    trees = tuple(tree.scale(factor) for tree in score.trees)
    reach = abs(factor) * score.size + abs(shift) + 2 * error
    return ScoreSum(factor * score.offset + shift, trees, error=error, size_bound=reach)
