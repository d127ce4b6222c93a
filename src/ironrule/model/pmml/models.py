"""The models of PMML, and what each of them answers: trees, regressions, scorecards, and ensembles and chains of these.

An answer is a number per row, or a row of probabilities with the label that was chosen. A model that gives no answer
for a row (no branch is taken, no attribute of a characteristic holds) raises ModelError. All is computed in double
precision, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, Float64Array, IntpArray
from ironrule.errors import ModelError
from ironrule.model.pmml.predicates import TRUE, UNKNOWN, Predicate


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
class RegressionTable:
    """An intercept and predictors; of which class, in a classification."""

    intercept: float
    numeric: tuple[NumericPredictor, ...]
    categorical: tuple[CategoricalPredictor, ...]
    target: int
    line: int

    def sum_up(self, columns: Sequence[AnyArray], count: int) -> Float64Array:
        """The sums for all rows; a missing number leaves no answer, a missing category adds nothing."""
        total = np.full(count, self.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            for one in self.numeric:
                total = total + one.coefficient * columns[one.column] ** one.exponent
            for each in self.categorical:
                hits = np.asarray(columns[each.column] == each.value, dtype=np.bool_)
                total = total + np.where(hits, each.coefficient, 0.0)
        if not np.isfinite(total).all():
            row = int(np.flatnonzero(~np.isfinite(total))[0])
            raise_no_prediction(row, f"the regression in line {self.line} gets a missing or too large number")
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class RegressionModel:
    """Linear sums and how they become an answer."""

    tables: tuple[RegressionTable, ...]
    normalization: str  # none, logit, softmax, exp
    classes: int

    def evaluate(self, columns: Sequence[AnyArray], count: int) -> Answer:
        """The answers for all rows."""
        sums = [table.sum_up(columns, count) for table in self.tables]
        if not self.classes:
            with np.errstate(over="ignore"):
                number = NUMBER_LINKS[self.normalization](sums[0])
            if not np.isfinite(number).all():
                raise_no_prediction(int(np.flatnonzero(~np.isfinite(number))[0]), "its number is too large")
            return Answer(numbers=np.asarray(number))
        shares = np.zeros((count, self.classes))
        if self.normalization == "logit":  # of two classes: the first table's by its sum, the other one has the rest
            first = apply_logistic(sums[0])
            values = [first, 1.0 - first]
        else:
            powers = np.exp(np.stack(sums) - np.max(sums, axis=0))
            values = list(powers / powers.sum(axis=0))
        for table, value in zip(self.tables, values, strict=True):
            shares[:, table.target] = value
        return Answer(probabilities=shares, chosen=self._choose(sums))

    def _choose(self, sums: list[Float64Array]) -> IntpArray:
        """The class of the largest sum, the first in a tie; of two by logit, by the sign of the first table's."""
        if self.normalization == "logit":
            first, second = self.tables[0].target, self.tables[1].target
            wins = sums[0] >= 0 if first < second else sums[0] > 0
            return np.where(wins, first, second)
        scores = np.full((len(sums[0]), self.classes), -np.inf)
        for table, total in zip(self.tables, sums, strict=True):
            scores[:, table.target] = total
        return np.asarray(scores.argmax(axis=1))


def apply_logistic(values: Float64Array) -> Float64Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)))


NUMBER_LINKS: dict[str, Callable[[Float64Array], Float64Array]] = {
    "none": lambda numbers: numbers,
    "exp": np.exp,
    "logit": apply_logistic,
}


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


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A model of several; ``answers`` has the columns that its number is written to."""

    predicate: Predicate
    model: Model
    weight: float
    answers: tuple[int, ...]
    line: int


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
        columns = list(columns)
        if self.method == "modelChain":
            answer = Answer()
            for segment in self.segments:
                answer = segment.model.evaluate(columns, count)
                for place in segment.answers:
                    assert answer.numbers is not None
                    columns[place] = answer.numbers
            return answer
        answers = [segment.model.evaluate(columns, count) for segment in self.segments]
        weights = self.weights
        if not self.classes:
            numbers = [one.numbers for one in answers if one.numbers is not None]
            total = np.zeros(count)
            for weight, number in zip(weights, numbers, strict=True):
                total = total + weight * number
            return Answer(numbers=total if self.method == "sum" else total / sum(weights))
        total = np.zeros((count, self.classes))
        for weight, one in zip(weights, answers, strict=True):
            if self.method.endswith("Vote"):
                assert one.chosen is not None
                total[np.arange(count), one.chosen] += weight
            else:
                assert one.probabilities is not None
                total += weight * one.probabilities
        return Answer(probabilities=total / sum(weights), chosen=total.argmax(axis=1))


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
