"""The models of PMML, and what each of them answers: trees, regressions (general ones too), scorecards, and ensembles
and chains of these.

An answer is a number per row, or a row of probabilities with the label that was chosen. A model that gives no answer
for a row (no branch is taken, no attribute of a characteristic holds) raises ModelError. All is computed in double
precision, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, Float64Array, IntpArray
from ironrule.errors import ModelError
from ironrule.model.pmml.fields import find_missing
from ironrule.model.pmml.links import LINKS
from ironrule.model.pmml.predicates import TRUE, UNKNOWN, ConstantPredicate, Predicate

SUMS = ("sum", "weightedSum")  # ensembles whose answers are added up


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Numbers, or per class a column of probabilities (None where the model has none) and the chosen class's place."""

    numbers: Float64Array | None = None
    probabilities: Float64Array | None = None
    chosen: IntpArray | None = None


def raise_no_prediction(row: int, why: str) -> NoReturn:
    """Raise ModelError about a row that a model has no answer for."""
    raise ModelError(f"the PMML model gives no prediction for row {row}: {why}", code="no-prediction")


@dataclass(slots=True, eq=False)
class TreeNode:
    """A node: its predicate, its children in order, and its answer: a number, or a class with shares of all classes.

    ``score`` is NaN, or -1 for a class, where a node has no answer; ``default`` is the child for missing values.
    """

    predicate: Predicate
    line: int
    score: float
    shares: Float64Array | None = None
    children: list[TreeNode] = field(default_factory=list)
    default: int | None = None

    @property
    def has_score(self) -> bool:
        """Whether it has an answer of its own."""
        return bool(self.score == self.score and not (self.shares is not None and self.score < 0))


MissingStrategy = Literal["none", "lastPrediction", "nullPrediction", "defaultChild"]


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """A tree; ``classes`` counts the classes, 0 for a regression."""

    root: TreeNode
    classes: int
    missing: MissingStrategy
    last_without_child: bool  # noTrueChildStrategy: the last node's answer where no child's predicate holds
    has_probabilities: bool

    def find_nodes(self, columns: Sequence[AnyArray], count: int) -> list[tuple[TreeNode, IntpArray]]:
        """The nodes whose answers are given, each with its rows."""
        rows = np.arange(count)
        answers = self.root.predicate.evaluate(columns, rows)
        if (answers != TRUE).any():
            raise_no_prediction(int(rows[answers != TRUE][0]), f"the root in line {self.root.line} does not hold")
        found: list[tuple[TreeNode, IntpArray]] = []
        waiting = [(self.root, rows)]
        while waiting:
            node, rows = waiting.pop()
            if not len(rows):
                continue
            if not node.children:
                found.append((node, rows))
                continue
            for child in node.children:
                answers = child.predicate.evaluate(columns, rows)
                waiting.append((child, rows[answers == TRUE]))
                unknown = rows[answers == UNKNOWN]
                if self.missing == "none":
                    rows = rows[answers != TRUE]
                    continue
                rows = rows[(answers != TRUE) & (answers != UNKNOWN)]
                if len(unknown) and self.missing == "defaultChild" and node.default is not None:
                    waiting.append((node.children[node.default], unknown))
                elif len(unknown) and self.missing == "lastPrediction":
                    found.append((node, unknown))
                elif len(unknown):
                    raise_no_prediction(int(unknown[0]), f"a value is missing at the node in line {node.line}")
            if len(rows) and not self.last_without_child:
                raise_no_prediction(int(rows[0]), f"no child of the node in line {node.line} holds")
            found.append((node, rows))
        return [(node, rows) for node, rows in found if len(rows)]

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The answers for all rows."""
        scores = np.empty(count)
        shares = np.zeros((count, self.classes))
        for node, rows in self.find_nodes(columns, count):
            if not node.has_score:
                raise_no_prediction(int(rows[0]), f"the node in line {node.line} has no score")
            scores[rows] = node.score
            if node.shares is not None:
                shares[rows] = node.shares
        if not self.classes:
            return Answer(numbers=scores)
        return Answer(probabilities=shares if self.has_probabilities else None, chosen=scores.astype(np.intp))


@dataclass(frozen=True, slots=True)
class NumericPredictor:
    """A coefficient times a power of a column."""

    column: int
    coefficient: float
    exponent: int


@dataclass(frozen=True, slots=True)
class CategoricalPredictor:
    """A coefficient where a column has a value."""

    column: int
    value: str | float
    coefficient: float


@dataclass(frozen=True, slots=True)
class ProductPredictor:
    """An interaction: a coefficient times powers of columns, where columns have certain values (elsewhere 0)."""

    coefficient: float
    powers: tuple[tuple[int, int], ...]  # columns with their exponents
    values: tuple[tuple[int, str | float], ...] = ()  # columns with the values that they must have
    line: int = 0

    @property
    def columns(self) -> set[int]:
        """The columns that it looks at."""
        return {column for column, _ in (*self.powers, *self.values)}


@dataclass(frozen=True, slots=True)
class RegressionTable:
    """An intercept and predictors; of which class, in a classification.

    A missing number leaves no answer; a missing category adds nothing, or with ``needs_all`` leaves no answer either.
    """

    intercept: float
    numeric: tuple[NumericPredictor, ...]
    categorical: tuple[CategoricalPredictor, ...]
    target: int
    line: int
    products: tuple[ProductPredictor, ...] = ()
    needs_all: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it is 0 for every row."""
        return not (self.numeric or self.categorical or self.products or self.intercept)

    def sum_up(self, columns: Sequence[AnyArray], count: int) -> Float64Array:
        """The sums for all rows."""
        total = np.full(count, self.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            for one in self.numeric:
                total = total + one.coefficient * columns[one.column] ** one.exponent
            for each in self.categorical:
                hits = np.asarray(columns[each.column] == each.value, dtype=np.bool_)
                total = total + np.where(hits, each.coefficient, 0.0)
            for product in self.products:
                total = total + self._multiply(product, columns)
        if self.needs_all:
            for place in {one.column for one in self.categorical}.union(*(one.columns for one in self.products)):
                total[find_missing(columns[place])] = np.nan
        if not np.isfinite(total).all():
            row = int(np.flatnonzero(~np.isfinite(total))[0])
            raise_no_prediction(row, f"the regression in line {self.line} gets a missing or too large number")
        return np.asarray(total)

    @staticmethod
    def _multiply(product: ProductPredictor, columns: Sequence[AnyArray]) -> Float64Array:
        value: AnyArray = np.full(len(columns[0]), product.coefficient)
        for place, exponent in product.powers:
            value = value * columns[place] ** exponent
        for place, wanted in product.values:
            value = np.where(np.asarray(columns[place] == wanted, dtype=np.bool_), value, 0.0)
        return value


@dataclass(frozen=True, slots=True)
class RegressionModel:
    """Sums and how they become an answer."""

    tables: tuple[RegressionTable, ...]
    normalization: str  # softmax, or one of LINKS
    classes: int

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The answers for all rows."""
        sums = [table.sum_up(columns, count) for table in self.tables]
        if not self.classes:
            number = LINKS[self.normalization].evaluate(sums[0])
            if not np.isfinite(number).all():
                raise_no_prediction(int(np.flatnonzero(~np.isfinite(number))[0]), "its number is too large")
            return Answer(numbers=np.asarray(number))
        shares = np.zeros((count, self.classes))
        if self.normalization == "softmax":
            powers = np.exp(np.stack(sums) - np.max(sums, axis=0))
            values = list(powers / powers.sum(axis=0))
        else:  # of two classes: the first table's by its sum, the other one has the rest
            first = LINKS[self.normalization].evaluate(sums[0])
            values = [first, 1.0 - first]
        for table, value in zip(self.tables, values, strict=True):
            shares[:, table.target] = value
        return Answer(probabilities=shares, chosen=self._choose(sums))

    def _choose(self, sums: list[Float64Array]) -> IntpArray:
        """The class of the largest sum, the first in a tie; of two by a link, by the first one's probability, which of
        logit is the sign of its sum.
        """
        if self.normalization != "softmax":
            first, second = self.tables[0].target, self.tables[1].target
            lead = sums[0] if self.normalization == "logit" else LINKS[self.normalization].evaluate(sums[0]) - 0.5
            return np.where(lead >= 0 if first < second else lead > 0, first, second)
        scores = np.full((len(sums[0]), self.classes), -np.inf)
        for table, total in zip(self.tables, sums, strict=True):
            scores[:, table.target] = total
        return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True, slots=True)
class ScoreAttribute:
    """Points where a predicate holds, and the reason code of these."""

    predicate: Predicate
    points: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class Characteristic:
    """What one feature adds: the points of the first attribute that holds."""

    name: str
    attributes: tuple[ScoreAttribute, ...]
    baseline: float | None
    line: int

    def find_attributes(self, columns: Sequence[AnyArray], count: int) -> IntpArray:
        """The attribute of every row."""
        found, rows = np.full(count, -1), np.arange(count)
        for place, attribute in enumerate(self.attributes):
            holds = attribute.predicate.evaluate(columns, rows) == TRUE
            found[rows[holds]] = place
            rows = rows[~holds]
        if len(rows):
            raise_no_prediction(int(rows[0]), f"no attribute of {self.name!r} in line {self.line} holds")
        return found


@dataclass(frozen=True, slots=True)
class ScorecardModel:
    """Points that are added up."""

    initial: float
    characteristics: tuple[Characteristic, ...]
    points_below: bool
    has_reasons: bool

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The scores of all rows."""
        total = np.full(count, self.initial)
        for one in self.characteristics:
            points = np.array([attribute.points for attribute in one.attributes])
            total += points[one.find_attributes(columns, count)]
        return Answer(numbers=total)

    def list_reasons(self, columns: Sequence[AnyArray], count: int) -> list[list[str]]:
        """Per row the reason codes, the one that costs most first; those of equal cost in the order of the file.

        What a characteristic costs is how far its points are below its baseline (above it, for ``pointsAbove``).
        """
        found = [one.find_attributes(columns, count) for one in self.characteristics]
        ranked = []
        for row in range(count):
            costs: dict[str, float] = {}
            for one, places in zip(self.characteristics, found, strict=True):
                attribute = one.attributes[int(places[row])]
                if attribute.reason is not None and one.baseline is not None:
                    cost = one.baseline - attribute.points if self.points_below else attribute.points - one.baseline
                    costs[attribute.reason] = max(cost, costs.get(attribute.reason, cost))
            ranked.append(sorted(costs, key=lambda code: -costs[code]))
        return ranked


@dataclass(frozen=True, slots=True)
class HandedAnswer:
    """A column that a model of a chain fills: by its number, or by the probability of a class."""

    column: int
    target: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A model of several, which counts where its predicate holds; ``answers`` has the columns that it fills."""

    predicate: Predicate
    model: Model
    weight: float
    answers: tuple[HandedAnswer, ...]
    line: int

    @property
    def always_counts(self) -> bool:
        """Whether it has no condition."""
        return self.predicate == ConstantPredicate(True)

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> Answer:
        """The answers for some rows; an error names the row among all."""
        try:
            return self.model.evaluate([column[rows] for column in columns], len(rows))
        except ModelError as error:
            if len(rows) == 1:
                raise_no_prediction(int(rows[0]), f"the model of the segment in line {self.line} gives none ({error})")
            half = len(rows) // 2
            for part in (rows[:half], rows[half:]):  # one of both fails
                self.evaluate(columns, part)
            raise


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleModel:
    """Several models: added, averaged, voting, one after the other (modelChain), or the first whose predicate holds."""

    method: str
    segments: tuple[Segment, ...]
    classes: int

    @property
    def weights(self) -> list[float]:
        """What each model counts."""
        if self.method.startswith("weighted"):
            return [segment.weight for segment in self.segments]
        return [1.0] * len(self.segments)

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The answers for all rows."""
        if self.method == "modelChain":
            return self._evaluate_chain(list(columns), count)
        if self.method == "selectFirst":
            return self._evaluate_first(columns, count)
        total, active = np.zeros((count, max(self.classes, 1))), np.zeros(count)
        for weight, segment in zip(self.weights, self.segments, strict=True):
            if segment.always_counts:
                rows: Any = slice(None)
                one = segment.model.evaluate(columns, count)
            else:
                rows = np.flatnonzero(segment.predicate.evaluate(columns, np.arange(count)) == TRUE)
                if not len(rows):
                    continue
                one = segment.evaluate(columns, rows)
            active[rows] += 1.0 if self.method in SUMS else weight
            if one.numbers is not None:
                total[rows, 0] += weight * one.numbers
            elif self.method.endswith("Vote"):
                assert one.chosen is not None
                total[np.arange(count)[rows], one.chosen] += weight
            else:
                assert one.probabilities is not None
                total[rows] += weight * one.probabilities
        if not (active > 0).all():
            raise_no_prediction(int(np.flatnonzero(~(active > 0))[0]), "no segment's condition holds")
        if not self.classes:
            return Answer(numbers=total[:, 0] if self.method in SUMS else total[:, 0] / active)
        return Answer(probabilities=total / active[:, None], chosen=total.argmax(axis=1))

    def _evaluate_chain(self, columns: list[AnyArray], count: int) -> Answer:
        answer = Answer()
        for segment in self.segments:
            answer = segment.model.evaluate(columns, count)
            for handed in segment.answers:
                if handed.target is None:
                    assert answer.numbers is not None
                    columns[handed.column] = answer.numbers
                else:
                    assert answer.probabilities is not None
                    columns[handed.column] = answer.probabilities[:, handed.target]
        return answer

    def _evaluate_first(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """Per row the answer of the first segment whose predicate holds."""
        numbers, chosen = np.zeros(count), np.zeros(count, dtype=np.intp)
        probabilities: Float64Array | None = np.zeros((count, self.classes)) if self.classes else None
        rows = np.arange(count)
        for segment in self.segments:
            holds = segment.predicate.evaluate(columns, rows) == TRUE
            taken, rows = rows[holds], rows[~holds]
            if not len(taken):
                continue
            one = segment.evaluate(columns, taken)
            if one.numbers is not None:
                numbers[taken] = one.numbers
                continue
            assert one.chosen is not None
            chosen[taken] = one.chosen
            if one.probabilities is None:
                probabilities = None
            elif probabilities is not None:
                probabilities[taken] = one.probabilities
        if len(rows):
            raise_no_prediction(int(rows[0]), "no segment's condition holds")
        return Answer(probabilities=probabilities, chosen=chosen) if self.classes else Answer(numbers=numbers)


@dataclass(frozen=True, slots=True, eq=False)
class RescaledModel:
    """A model whose number is multiplied and shifted (Targets)."""

    model: Model
    factor: float
    constant: float

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The numbers of all rows."""
        numbers = self.model.evaluate(columns, count).numbers
        assert numbers is not None
        return Answer(numbers=numbers * self.factor + self.constant)


Model = TreeModel | RegressionModel | ScorecardModel | EnsembleModel | RescaledModel


def is_regression(model: Model) -> bool:
    """Whether a model answers a number."""
    if isinstance(model, RescaledModel | ScorecardModel):
        return True
    return not model.classes


def gives_probabilities(model: Model) -> bool:
    """Whether a classification answers probabilities."""
    if isinstance(model, TreeModel):
        return model.has_probabilities
    if isinstance(model, EnsembleModel) and model.method in ("selectFirst", "modelChain"):
        members = model.segments[-1:] if model.method == "modelChain" else model.segments
        return all(gives_probabilities(segment.model) for segment in members)
    return True
