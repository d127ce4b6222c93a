"""A model as it was read, without the library that it came from: what a saved explainer has instead of it.

It has what :func:`ironrule.model.read_model.read_model` found: the normal form, and how each column that the model sees
follows from one column of the table. So it is read as any other model is, and gives the same proofs.

It cannot say more than the reading does. A normal form decides all points but those so close to the threshold that the
rounding of the model's own arithmetic may turn them; the user's model itself is asked about these. This one raises
instead (:data:`UNDECIDED`). Nor does it guess what the model would see of a value that was not known when it was saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, BoolArray, Float64Array
from ironrule.errors import ModelError, describe_value
from ironrule.model.decision import Decision, DecisionTarget, LabelCriterion, OwnDecision
from ironrule.model.normal_form.network import Network, bound_arithmetic_errors
from ironrule.model.normal_form.rounding import bound_sum_error, compute_slack
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Tree, TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.space.feature import Value, is_missing
from ironrule.space.table import to_python_value

UNDECIDED = "undecided-point"
ATTACH_HINT = "load the explainer with the model itself: Explainer.load(path, model=model)"
FormulaKind = Literal["identity", "shift_then_divide", "multiply_then_shift", "divide"]


@dataclass(frozen=True, slots=True)
class NumberFormula:
    """What the model sees of a number: the number, or what a scaler makes of it, in the type that the scaler works in.

    It holds from ``low`` to ``high``, everywhere if these are None.
    """

    kind: FormulaKind = "identity"
    shift: float = 0.0
    scale: float = 1.0
    single: bool = False  # in single precision
    low: float | None = None
    high: float | None = None

    def apply(self, numbers: Float64Array) -> Float64Array:
        """The formula for many numbers."""
        kind = np.dtype(np.float32 if self.single else np.float64)
        values: AnyArray = numbers.astype(kind)
        shift, scale = (np.array(number, dtype=kind) for number in (self.shift, self.scale))
        with np.errstate(all="ignore"):
            match self.kind:
                case "identity":
                    seen = values
                case "shift_then_divide":
                    seen = (values - shift) / scale
                case "multiply_then_shift":
                    seen = values * scale + shift
                case "divide":
                    seen = values / scale
        return seen.astype(np.float64)

    def covers(self, numbers: Float64Array) -> BoolArray:
        """For which numbers the formula is known to hold."""
        low, high = (-np.inf if self.low is None else self.low), (np.inf if self.high is None else self.high)
        return np.asarray((numbers >= low) & (numbers <= high), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class SavedColumn:
    """How a column that the model sees follows from a column of the table, by its position there.

    ``seen`` is what the model sees of each of ``values``; of other numbers the formula says it, if there is one. With
    ``between``, a number between two known ones is seen as the lower of them: no split of the model tells it apart.
    """

    source: int
    name: str
    values: tuple[Value, ...]
    seen: AnyArray
    formula: NumberFormula | None = None
    between: bool = False
    is_constant: bool = False  # the model pays no attention to it
    by_value: Mapping[Value, int] = field(init=False, repr=False)
    numbers: Float64Array = field(init=False, repr=False)  # those among the values, rising
    places: Any = field(init=False, repr=False)  # where they stand among the values

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_value", {value: place for place, value in enumerate(self.values)})
        known = [(float(v), at) for at, v in enumerate(self.values) if isinstance(v, (int, float))]
        known.sort()
        object.__setattr__(self, "numbers", np.array([number for number, _ in known], dtype=np.float64))
        object.__setattr__(self, "places", np.array([place for _, place in known], dtype=np.intp))

    def compute(self, column: AnyArray) -> AnyArray:
        """What the model sees of the values of a column; raises ModelError for one that was not known."""
        if self.is_constant:
            return np.repeat(self.seen[:1], len(column))
        if column.dtype.kind in "iufb":
            return self._compute_numbers(column)
        listed = [to_python_value(value) for value in column.tolist()]
        if all(value is None or _is_number(value) for value in listed) and len(self.numbers):
            return self._compute_numbers(np.array([np.nan if value is None else value for value in listed], np.float64))
        unknown = [value for value in listed if value not in self.by_value]
        if unknown:
            self._raise_unknown(unknown[0])
        return self.seen[[self.by_value[value] for value in listed]]

    def _compute_numbers(self, column: AnyArray) -> AnyArray:
        numbers = column.astype(np.float64)
        missing = np.isnan(numbers)
        if missing.any() and None not in self.by_value:
            self._raise_unknown(None)
        at = np.searchsorted(self.numbers, numbers, "right") - 1
        inside = (at >= 0) & ~missing
        known = np.zeros(len(numbers), dtype=np.bool_)
        known[inside] = self.numbers[at[inside]] == numbers[inside]
        if self.between and len(self.numbers):
            known |= inside & (numbers <= self.numbers[-1])
        by_formula = np.zeros(len(numbers), dtype=np.bool_)
        if self.formula is not None:
            by_formula = ~missing & ~known & self.formula.covers(numbers)
        unknown = ~(missing | known | by_formula)
        if unknown.any():
            self._raise_unknown(float(numbers[unknown][0]))
        seen = np.empty(len(numbers), dtype=self.seen.dtype)
        seen[known] = self.seen[self.places[at[known]]]
        if missing.any():
            seen[missing] = self.seen[self.by_value[None]]
        if self.formula is not None and by_formula.any():
            seen[by_formula] = self.formula.apply(numbers[by_formula])
        return seen

    def _raise_unknown(self, value: Value) -> NoReturn:
        shown = "a missing value" if value is None else describe_value(value)
        raise ModelError(
            f"the saved model does not know what the model sees of {shown} in column {self.name!r}",
            hint=ATTACH_HINT,
            code="unknown-to-saved-model",
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not is_missing(value)


@dataclass(frozen=True, slots=True, eq=False)
class ListedContribution:
    """What a column adds for every number that was known when the model was saved: ``added`` for those in ``seen``,
    which rise.
    """

    seen: Float64Array
    added: Float64Array

    def __call__(self, values: AnyArray) -> Float64Array:
        numbers = values.astype(np.float64)
        at = np.minimum(np.searchsorted(self.seen, numbers), len(self.seen) - 1)
        if not (self.seen[at] == numbers).all():
            raise Unreadable(
                "the saved model does not know what it adds for other numbers than those it was saved with"
            )
        return np.asarray(self.added[at])


@dataclass(frozen=True, slots=True, eq=False)
class SavedTransform:
    """What the model sees of a table, column by column. ``unordered``: the columns of the table, by position, that what
    prepares them may not let rise or fall all the way, with the reason.
    """

    names: tuple[str, ...]
    columns: tuple[SavedColumn, ...]
    dtype: str
    unordered: Mapping[int, str] = field(default_factory=dict)
    runs_user_function: bool = False

    def __call__(self, table: Any) -> AnyArray:
        """The matrix of all columns."""
        seen = np.empty((len(table), len(self.columns)), dtype=self.dtype)
        for place, column in enumerate(self.columns):
            seen[:, place] = column.compute(table[:, column.source])
        return seen


@dataclass(frozen=True, eq=False)
class SavedModel(OwnDecision):
    """The reading of a model that answered one question: which rows are desired."""

    transform: SavedTransform
    normal_form: TreeSum | Network
    target: DecisionTarget
    undesired_name: str
    name: str  # the class of the model that was read
    category_lists: Mapping[str, Any] = field(default_factory=dict)  # of its columns, as ``categories`` has them

    @property
    def feature_names_in_(self) -> AnyArray:
        """The columns that it takes, in order."""
        return np.array(self.transform.names, dtype=object)

    def get_normal_form(self, target: DecisionTarget) -> TreeSum | Network:
        """Its normal form; raises ModelError for another target, which only the model itself could be read for."""
        if target != self.target:
            self.raise_other_target()
        return self.normal_form

    def raise_other_target(self) -> NoReturn:
        """Raise ModelError about another target or threshold."""
        raise ModelError(
            expected="a saved explainer must be asked about the decision that it was saved with",
            got="another target, threshold or margin",
            hint=ATTACH_HINT,
            code="target-not-saved",
        )

    def build_decision(self, target: DecisionTarget) -> Decision:
        """Its decision; raises ModelError for another target."""
        self.get_normal_form(target)
        return Decision(self.predict, LabelCriterion((True,), (False, True)), self.undesired_name)

    def predict(self, table: Any) -> BoolArray:
        """Which rows of a table are desired; raises ModelError where only the model itself can say so."""
        possible, sure = self.decide(self.transform(table))
        open_rows = np.flatnonzero(possible & ~sure)
        if len(open_rows):
            raise ModelError(
                f"the saved model cannot decide {len(open_rows):,} of {len(sure):,} points, whose score is within "
                "rounding of the threshold: only the model itself can",
                hint=ATTACH_HINT,
                code="undecided-point",
            )
        return sure

    def decide(self, seen: AnyArray) -> tuple[BoolArray, BoolArray]:
        """For rows of what the model sees, which may be desired, and which surely are."""
        if isinstance(self.normal_form, Network):
            return self._decide_by_network(self.normal_form, seen)
        possible, sure = np.zeros((2, len(seen)), dtype=np.bool_)
        for margins, sizes in zip(self.normal_form.alternatives, self._term_sizes, strict=True):
            may, must = np.ones((2, len(seen)), dtype=np.bool_)
            for margin, own in zip(margins, sizes, strict=True):
                most, least = _bound_margin(margin, own, seen)
                may &= most > 0.0
                must &= least > 0.0
            possible |= may
            sure |= must
        return possible, sure

    def _decide_by_network(self, network: Network, seen: AnyArray) -> tuple[BoolArray, BoolArray]:
        possible, sure = np.zeros((2, len(seen)), dtype=np.bool_)
        largest = self._column_sizes
        if len(seen):
            largest = np.maximum(largest, np.abs(seen.astype(np.float64)).max(axis=0))
        try:
            errors = bound_arithmetic_errors(network, largest)
        except Unreadable as reason:
            raise ModelError(
                f"the saved model cannot decide: {reason}", hint=ATTACH_HINT, code="undecided-point"
            ) from None
        outputs = network.outputs(seen)
        for margins, own in zip(network.alternatives, errors, strict=True):
            may, must = np.ones((2, len(seen)), dtype=np.bool_)
            for margin, error in zip(margins, own, strict=True):
                total = outputs @ margin.coefficients + margin.offset
                may &= total > -error
                must &= total > error
            possible |= may
            sure |= must
        return possible, sure

    @cached_property
    def _column_sizes(self) -> Float64Array:
        """The largest number that the model sees in every column, of the values that were known."""
        return np.array([np.abs(c.seen.astype(np.float64)).max(initial=0.0) for c in self.transform.columns])

    @cached_property
    def _term_sizes(self) -> tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]:
        """Per alternative, margin, group and term, the largest that it adds for the values that were known."""
        assert isinstance(self.normal_form, TreeSum)
        columns = self.transform.columns
        return tuple(
            tuple(
                tuple(
                    tuple(_find_size(term.contribution(columns[term.column].seen)) for term in group.terms)
                    for group in margin.groups
                )
                for margin in margins
            )
            for margins in self.normal_form.alternatives
        )


def _find_size(values: Float64Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _bound_margin(
    margin: Margin, sizes: Sequence[Sequence[float]], seen: AnyArray
) -> tuple[Float64Array, Float64Array]:
    """The largest and the smallest that a margin can be for rows of what the model sees, all rounding counted."""
    most, least = np.full(len(seen), margin.offset), np.full(len(seen), margin.offset)
    groups, total = [], abs(margin.offset)
    for group, own in zip(margin.groups, sizes, strict=True):
        parts = group.evaluate_parts(seen)
        terms = parts[len(group.trees) :]
        largest = [max(size, _find_size(part)) for size, part in zip(own, terms, strict=True)]
        bounded = _replace_terms(group, largest)
        groups.append(bounded)
        total += sum(_find_size(tree.value) for tree in bounded.trees)
        values = np.sum(parts, axis=0) + np.zeros(len(seen))
        lean = 0.0 if group.link.kind == "identity" else bound_sum_error(bounded)
        most += group.link.apply(values + lean)
        least += group.link.apply(values - lean)
    error = margin.error + margin.relative_error * total
    slack = compute_slack(Margin(margin.offset, tuple(groups), error))
    return most + slack, least - slack


def _replace_terms(group: LinkedGroup, sizes: Sequence[float]) -> LinkedGroup:
    """The group with a tree of one leaf, as large as it can be, for every term: the same bounds hold for it."""
    leaves = tuple(_build_leaf(size) for size in sizes)
    return LinkedGroup((*group.trees, *leaves), group.link, rounding_error=group.rounding_error)


def _build_leaf(value: float) -> Tree:
    end = np.array([-1], dtype=np.int32)
    return Tree((None,), end, end, np.array([value]))
