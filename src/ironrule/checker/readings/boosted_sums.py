"""What the readings of the boosting libraries share: numbers of a column, trees, and the rounding of their sums."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ironrule.checker.readings.cuts import DOUBLE
from ironrule.checker.readings.decisions import Score
from ironrule.checker.readings.library_class import name_in
from ironrule.checker.readings.normal_form import Floats, Mask, Split, Tree, Unreadable, Values

Node = TypeVar("Node")
Place = tuple[Split, Node, Node]
PLAIN_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def is_missing(value: Any) -> bool:
    """Whether a value of a column of objects stands for a missing one.

    >>> [is_missing(value) for value in (None, math.nan, 0, "")]
    [True, True, False, False]
    """
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True


def as_doubles(values: Values) -> Floats:
    """The numbers of a column as float64, missing ones as NaN; raises Unreadable for text and other objects."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype != object:
        raise Unreadable(f"a column of numbers is expected, got one of {values.dtype}")
    numbers = [math.nan if is_missing(value) else value for value in values]
    wrong = next((number for number in numbers if not isinstance(number, PLAIN_NUMBERS)), None)
    if wrong is not None:
        raise Unreadable(f"a column of numbers is expected, got {wrong!r}")
    return np.array([float(number) for number in numbers], dtype=np.float64)


def as_singles(values: Values) -> npt.NDArray[np.float32]:
    """The numbers of a column as the libraries cast them to float32: to the nearest, beyond its range to infinity.

    Every value is a float64 exactly, so that going through float64 rounds but once.
    """
    with np.errstate(over="ignore"):
        return as_doubles(values).astype(np.float32)


def ask_about_categories(
    values: Values, names: tuple[Hashable, ...], unknown: int | None, ask: Callable[[Floats], Mask]
) -> Mask:
    """What a split on categories answers, asked for their codes: positions in the list ``names`` that a data frame had.

    Objects are looked up in the list; one that is not there has the code ``unknown``, or is refused without one.
    Numbers are categories in a data frame and codes in an array: where the answers differ they are refused.
    """
    codes = {name: float(code) for code, name in enumerate(names)}
    if values.dtype == object and not names:
        raise Unreadable("the names of this column's categories are not known to the model")
    answer = None if values.dtype == object else ask(as_doubles(values))
    if names:
        looked_up = [math.nan if is_missing(value) else codes.get(value, unknown) for value in values.tolist()]
        if None in looked_up:
            raise Unreadable(f"the model does not know the category {values.tolist()[looked_up.index(None)]!r}")
        named = ask(np.array(looked_up, dtype=np.float64))
        if answer is not None and (answer != named).any():
            raise Unreadable("numbers of a column of categories may be the categories or their positions")
        answer = named
    assert answer is not None
    return answer


def check_methods(library: str, owned: Any, names: Sequence[str]) -> str:
    """The name of the class of an object that the library made, with all of its methods as the library wrote them;
    an empty text if it is not one of the names. Raises Unreadable if a method was replaced.
    """
    name = name_in(library, owned)
    if name not in names:
        return ""
    for attribute in getattr(owned, "__dict__", {}):
        if inspect.isroutine(inspect.getattr_static(type(owned), attribute, None)):
            raise Unreadable(f"the {attribute} of this {name} was replaced, so its structure does not tell its outcome")
    return name


def grow_tree(root: Node, look: Callable[[Node], Place[Node] | float]) -> Tree:
    """The tree below a node of a library; ``look`` gives a node's split and children, or a leaf's value.

    Nodes are numbered level by level, whatever the library's own numbers are.
    """
    nodes = [root]
    splits: list[Split | None] = []
    left: list[int] = []
    right: list[int] = []
    value: list[float] = []
    for node in nodes:  # grows while it is read: the children of a node come last
        seen = look(node)
        if isinstance(seen, tuple):
            splits.append(seen[0])
            left.append(len(nodes))
            right.append(len(nodes) + 1)
            value.append(0.0)
            nodes += seen[1:]
        else:
            splits.append(None)
            left.append(-1)
            right.append(-1)
            value.append(float(seen))
    if not np.isfinite(value).all():
        raise Unreadable("it has a leaf whose value is not finite")
    return Tree(tuple(splits), np.array(left, np.intp), np.array(right, np.intp), np.array(value))


def _ends(tree: Tree) -> tuple[float, float]:
    values = tree.value[tree.left < 0]
    return float(values.min()), float(values.max())


def add_in_order(start: float, trees: Sequence[Tree], unit: float, blur: float = 0.0) -> Score:
    """The score of a library that adds its trees one by one to a start, rounding each sum to the unit ``unit``.

    Rounding a sum of two numbers moves it by at most the unit times its size (sums do not underflow). The size of a
    partial sum is bounded by the least and the greatest values of the trees in it, and by the error so far.
    ``blur`` bounds how far the library may be from the values of one tree, in units of the start and its size.
    """
    low = high = start
    error = size = 0.0
    for tree in trees:
        least, most = _ends(tree)
        low, high, size = low + least, high + most, max(-least, most)
        error += blur * (abs(start) + size)
        error += unit * (max(-low, high) + error)
    error *= 1.0 + 2.0**-30  # the bound itself was computed with rounding
    reach = max(abs(start), -low, high) + 2 * error
    if not reach < 1e300 or (unit > DOUBLE and not reach < 1e37):
        raise Unreadable("its scores may leave the range of floating-point numbers")
    return Score(start, tuple(trees), (), error, 0.0, reach)


def add_in_any_order(trees: Sequence[Tree], unit: float) -> Score:
    """The score of a library that adds its trees in an order that is not known.

    Whatever the order, each of the sums is at most as large as the sizes of all trees together, and there are fewer
    sums than trees; that they are rounded themselves is less than one sum more.
    """
    size = sum(max(abs(end) for end in _ends(tree)) for tree in trees)
    error = (len(trees) + 1) * unit * size
    return Score(0.0, tuple(trees), (), error, 0.0, size + error)


def scale_and_shift(score: Score, factor: float, shift: float) -> Score:
    """The score times a factor plus a shift, in float64: here the values of the trees are rounded, there the sum."""
    size = abs(score.offset) + sum(max(abs(end) for end in _ends(tree)) for tree in score.trees)
    error = abs(factor) * (score.error + 4 * DOUBLE * (size + score.error)) + 4 * DOUBLE * abs(shift)
    trees = tuple(tree.scale(factor) for tree in score.trees)
    reach = abs(factor) * size + abs(shift) + 2 * error
    return Score(factor * score.offset + shift, trees, (), error, 0.0, reach)
