"""The score of a model, and its gradient, at vectors of the numeric encoding.

A vector need not be a point: between two values of an ordered feature, and for shares of categories, what the model
sees is interpolated. What it sees of a feature is a table over its codes; its value at a vector is linear between
neighbouring numbers, and the average over categories, weighted by their columns. There are three ways to a gradient:

* of a sum in which every feature adds something by itself (linear and additive models) what each feature adds is such
  a table, and its slope is the gradient, within a logistic function times that function's;
* of a network the chain rule goes back through its layers (backpropagation), and then to the slopes of what it sees;
* of any other model that gives scores, differences are taken: the score where one feature is a little larger, less the
  score where it is a little smaller, or much where a little changes nothing; for a category, what taking it changes.
  The model is asked about feasible points alone, and is charged for each.

Whatever is read from a normal form costs no evaluation. A score is above 0 where the desired outcome is expected.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from ironrule.arrays import Float64Array, IntpArray, Points
from ironrule.errors import InputError
from ironrule.model.normal_form.network import Activation, Network
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Unreadable
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.encoding import NumericEncoding, SortedNumbers, VectorDecoder
from ironrule.oracles.heuristics.feature_sums import TabulatedSum, tabulate_sums
from ironrule.oracles.heuristics.prepared import PreparedValues
from ironrule.oracles.protocol import Case, Run

DIFFERENCE_STEP = 0.05  # of a feature's range: how far apart from a point differences are taken, at the least

ScorePoints = Callable[[Points], Float64Array]


class SlopedScore(NamedTuple):
    """The score of a vector and its gradient, a number per column of the encoding."""

    score: float
    gradient: Float64Array


class ScoreGradient(Protocol):
    """The score of a model and its gradient at any vector."""

    def evaluate(self, vector: Float64Array) -> SlopedScore:
        """The score and its gradient."""

    def prepare(self, vectors: Sequence[Float64Array]) -> None:
        """Find out together what is not known yet of vectors that are to be evaluated."""


def build_score_gradient(search: CandidateSearch) -> ScoreGradient:
    """The gradient of a model's score: analytic where its normal form has one, by differences where it gives scores;
    raises InputError where it has neither.
    """
    case = search.query.case
    read = case.tabulated_model
    smooth = None
    if read is not None:
        smooth = _SMOOTH.get((read, case.space), lambda: build_smooth_score(read, search.encoding))
    return smooth or DifferenceGradient(search, build_point_score(case, search.run))


_SMOOTH: PreparedValues[ScoreGradient | None] = PreparedValues()


def build_point_score(case: Case, run: Run) -> ScorePoints:
    """The scores of feasible points: from the normal form of a sum or a network, which costs nothing, or by asking the
    model; raises InputError where it gives none.
    """
    read, model = case.tabulated_model, case.scoring_model
    # Trees are evaluated faster by their own library than by their normal form here.
    if read is not None and (model is None or read.normal_form.node_count == 0):
        return lambda points: _score_by_normal_form(read, points, run)
    if model is None:
        raise InputError(
            expected="this search needs a model that gives scores, or that was read",
            got="a model that answers outcomes alone",
            hint="search with GeCo() or GrowingSpheres(), which need answers alone",
            code="scores-required",
        )
    return lambda points: run.meter.scores(model, points)


def _score_by_normal_form(read: TabulatedModel, points: Points, run: Run) -> Float64Array:
    run.meter.check()
    return np.asarray(np.max(read.normal_form.margins(read.columns.look_up(points)), axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCurve:
    """What a feature's columns of a vector stand for: a table with a row per code, and channels as its columns.

    ``places`` has the numbers of an ordered feature's codes, rising, ``table`` its rows in that order, and ``slopes``
    those from each to the next; a nominal feature has none, and a row per column. ``missing`` is the row for missing of
    an ordered feature.
    """

    start: int
    places: list[float] | None
    table: Float64Array
    slopes: Float64Array
    missing: Float64Array | None

    def evaluate(self, vector: Float64Array) -> tuple[Float64Array, Float64Array]:
        """The channels at a vector, and their slopes: a row per column of the feature."""
        if self.places is None:
            return vector[self.start : self.start + len(self.table)] @ self.table, self.table
        here = float(vector[self.start])
        left = min(max(bisect_right(self.places, here) - 1, 0), len(self.places) - 2)
        slope = self.slopes[left]
        value = self.table[left] + (here - self.places[left]) * slope
        if self.missing is None:
            return value, slope[None, :]
        share = vector[self.start + 1]  # how much of it is missing
        mixed = (1.0 - share) * value + share * self.missing
        return mixed, np.stack([(1.0 - share) * slope, self.missing - value])


def build_curve(encoding: NumericEncoding, feature: int, table: Float64Array) -> FeatureCurve:
    """The curve of a feature from what every code of it has in each channel."""
    start, codes = int(encoding.starts[feature]), encoding.tables[feature]
    if not encoding.ordered[feature]:
        return FeatureCurve(start, None, table, np.zeros_like(table), None)
    count = len(codes) - (codes.shape[1] - 1)  # missing has a column of its own, and the last code
    order = np.argsort(codes[:count, 0], kind="stable")
    places, rows, missing = codes[order, 0], table[order], table[count] if count < len(codes) else None
    if count < 2:  # a level line, of which two places are enough
        places = np.array([0.0, 1.0])
        rows = np.repeat(rows if count else np.zeros((1, table.shape[1])), 2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # places that are equal in floating point have no slope
        slopes = np.diff(rows, axis=0) / np.diff(places)[:, None]
    return FeatureCurve(start, places.tolist(), rows, slopes, missing)


def build_smooth_score(read: TabulatedModel, encoding: NumericEncoding) -> ScoreGradient | None:
    """The gradient of a network, or of a sum in which every feature adds something by itself without steps; None for
    any other model.
    """
    form = read.normal_form
    if isinstance(form, Network):
        return _build_network_gradient(form, read, encoding)
    if not isinstance(form, TreeSum):
        return None
    sizes = [len(table) for table in encoding.tables]
    try:
        sums = tabulate_sums(form, read, sizes)
    except Unreadable:  # a value that the model does not take
        return None
    if sums is None or any(one.has_steps for margins in sums for one in margins):
        return None
    curves = tuple(
        build_curve(encoding, j, np.stack([one.tables[j] for margins in sums for one in margins], axis=1))
        for j in range(len(sizes))
    )
    return SumGradient(curves, sums, encoding.width)


@dataclass(frozen=True, slots=True, eq=False)
class SumGradient:
    """The gradient of a sum of what each feature adds; a channel of the curves for every margin."""

    curves: tuple[FeatureCurve, ...]
    alternatives: tuple[tuple[TabulatedSum, ...], ...]
    width: int

    def prepare(self, vectors: Sequence[Float64Array]) -> None:
        """Nothing: each is evaluated by itself."""

    def evaluate(self, vector: Float64Array) -> SlopedScore:
        """The largest of the alternatives' smallest margins, and its gradient."""
        totals, slopes = _evaluate_curves(self.curves, vector, self.width)
        sums = [one for margins in self.alternatives for one in margins]
        applied = [one.apply(total) for one, total in zip(sums, totals.tolist(), strict=True)]
        values = np.array([value for value, _ in applied])
        active = choose_margin(values, [len(margins) for margins in self.alternatives])
        return SlopedScore(float(values[active]), applied[active][1] * slopes[:, active])


def _evaluate_curves(
    curves: Sequence[FeatureCurve], vector: Float64Array, width: int
) -> tuple[Float64Array, Float64Array]:
    """The sums of all curves' channels, and their slopes: a row per column of the encoding."""
    total, slopes = np.zeros(curves[0].table.shape[1]), np.zeros((width, curves[0].table.shape[1]))
    for curve in curves:
        value, slope = curve.evaluate(vector)
        total += value
        slopes[curve.start : curve.start + len(slope)] = slope
    return total, slopes


def choose_margin(values: Float64Array, counts: Sequence[int]) -> int:
    """The margin that decides: the smallest of its alternative, in the alternative where that is largest."""
    ends = np.cumsum(counts)
    smallest = [int(end - count + values[end - count : end].argmin()) for end, count in zip(ends, counts, strict=True)]
    return max(smallest, key=lambda place: float(values[place]))


def _build_network_gradient(form: Network, read: TabulatedModel, encoding: NumericEncoding) -> NetworkGradient | None:
    """The gradient of a network; None if it sees something that is no finite number."""
    tables = [np.asarray(table, dtype=np.float64) for table in read.columns.values]
    if not all(np.isfinite(table).all() for table in tables):
        return None
    columns = [np.flatnonzero(read.columns.features == j) for j in range(len(encoding.tables))]
    curves = tuple(
        build_curve(encoding, j, np.stack([tables[column] for column in own], axis=1))
        for j, own in enumerate(columns)
        if len(own)
    )
    return NetworkGradient(curves, tuple(own for own in columns if len(own)), form, encoding.width)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkGradient:
    """The gradient of a network: ``columns`` has, for every curve, which columns of its input its channels are."""

    curves: tuple[FeatureCurve, ...]
    columns: tuple[IntpArray, ...]
    network: Network
    width: int

    def prepare(self, vectors: Sequence[Float64Array]) -> None:
        """Nothing: each is evaluated by itself."""

    def evaluate(self, vector: Float64Array) -> SlopedScore:
        """The largest of the alternatives' smallest margins, and its gradient."""
        seen, slopes = np.zeros(sum(map(len, self.columns))), []
        for curve, own in zip(self.curves, self.columns, strict=True):
            value, slope = curve.evaluate(vector)
            seen[own] = value
            slopes.append(slope)
        values, derivatives = seen, []
        for layer in self.network.layers:
            sums = values @ layer.weights + layer.bias
            values = layer.activation.apply(sums)
            derivatives.append(_differentiate(layer.activation, sums, values))
        alternatives = self.network.alternatives
        margins = [margin for each in alternatives for margin in each]
        scores = np.array([float(values @ margin.coefficients) + margin.offset for margin in margins])
        active = choose_margin(scores, [len(each) for each in alternatives])
        back = np.asarray(margins[active].coefficients, dtype=np.float64)
        for layer, derivative in zip(reversed(self.network.layers), reversed(derivatives), strict=True):
            back = layer.weights @ (back * derivative)
        gradient = np.zeros(self.width)
        for curve, own, slope in zip(self.curves, self.columns, slopes, strict=True):
            gradient[curve.start : curve.start + len(slope)] = slope @ back[own]
        return SlopedScore(float(scores[active]), gradient)


def _differentiate(activation: Activation, sums: Float64Array, values: Float64Array) -> Float64Array:
    """The derivative of an activation where its sums are and its values."""
    match activation.kind:
        case "identity":
            return np.ones_like(sums)
        case "relu":
            return np.asarray(sums > 0.0, dtype=np.float64)
        case "leaky":
            return np.where(sums > 0.0, 1.0, activation.slope)
        case "tanh":
            return np.asarray(1.0 - values**2)
        case "logistic":
            return np.asarray(values * (1.0 - values))


Neighbour = tuple[int, int]  # of a point: a feature, and the code that it has there


class Difference(NamedTuple):
    """Two neighbours, or one and the point itself, whose scores are compared, and how far apart a column has them."""

    column: int
    first: Neighbour
    last: Neighbour
    width: float


class Surroundings(NamedTuple):
    """The neighbours of a point that are a step away, and what is compared with what."""

    neighbours: list[Neighbour]
    differences: list[Difference]


@dataclass(slots=True, eq=False)
class DifferenceGradient:
    """Differences of the score between feasible points around the one that stands for a vector.

    Near a point the score is taken to be linear. Where nothing nearby changes it, as between the thresholds of trees,
    neighbours farther and farther away count. A question takes much the same time for one point as for fifty, so all
    neighbours a step away are asked about together, and the farther ones in a second question. What was found out about
    a point is kept.
    """

    search: CandidateSearch
    score_points: ScorePoints
    step: float = DIFFERENCE_STEP
    each_column: bool = False  # whether a column that shows nothing nearby takes a longer step, whatever others show
    known: dict[bytes, tuple[SlopedScore, Float64Array]] = field(default_factory=dict)  # with the vectors of points
    surroundings: dict[tuple[int, int, float], Surroundings] = field(default_factory=dict)  # by feature, code and step
    numbers: dict[int, SortedNumbers] = field(default_factory=dict)  # of ordered features
    decoder: VectorDecoder = field(init=False)
    has_flat_columns: bool = field(default=False, init=False)  # whether some column has shown nothing beside others

    def __post_init__(self) -> None:
        self.decoder = VectorDecoder.build(self.search.encoding, self.search.codes)

    def evaluate(self, vector: Float64Array) -> SlopedScore:
        """The score and its gradient."""
        point = self.decoder.decode(vector)
        if point.tobytes() not in self.known:
            self._measure([point])
        (score, gradient), center = self.known[point.tobytes()]
        return SlopedScore(score + float((vector - center) @ gradient), gradient)

    def prepare(self, vectors: Sequence[Float64Array]) -> None:
        """Ask about the points that stand for some vectors, all together."""
        points = {point.tobytes(): point for point in map(self.decoder.decode, vectors)}
        new = [point for key, point in points.items() if key not in self.known]
        if new:
            self._measure(new)

    def _measure(self, points: Sequence[Points]) -> None:
        """Find out the scores of points, and the gradient of each by the shortest step that shows one."""
        steps = [self.step]
        while steps[-1] < 1.0:
            steps.append(2.0 * steps[-1])
        scores = [dict[Neighbour, float]() for _ in points]
        nearby = [self._list_surroundings(point, steps[0]) for point in points]
        own = [(0, int(point[0])) for point in points]
        self._ask(points, [[one, *each.neighbours] for one, each in zip(own, nearby, strict=True)], scores)
        found = list(map(self._compare, own, nearby, scores))
        flat = [place for place, each in enumerate(found) if self._is_flat(each, nearby[place])]
        farther = [[self._list_surroundings(points[place], step) for step in steps[1:]] for place in flat]
        asked = [[one for each in around for one in each.neighbours] for around in farther]
        self._ask([points[place] for place in flat], asked, [scores[place] for place in flat])
        for place, around in zip(flat, farther, strict=True):
            for surroundings in around:
                if not self._is_flat(found[place], surroundings):
                    break
                score, farther_off = self._compare(own[place], surroundings, scores[place])
                nearer = found[place].gradient
                found[place] = SlopedScore(score, np.where(nearer == 0.0, farther_off, nearer))
        for each, surroundings in zip(found, nearby, strict=True):
            self.has_flat_columns |= not all(each.gradient[one.column] for one in surroundings.differences)
        centers = self.search.encoding.encode(np.stack(points))
        self.known.update(zip((point.tobytes() for point in points), zip(found, centers, strict=True), strict=True))

    def _is_flat(self, found: SlopedScore, around: Surroundings) -> bool:
        """Whether longer steps are to be taken."""
        if not self.each_column:
            return not found.gradient.any()
        return not all(found.gradient[one.column] for one in around.differences)

    def _ask(
        self,
        points: Sequence[Points],
        neighbours: Sequence[Sequence[Neighbour]],
        scores: Sequence[dict[Neighbour, float]],
    ) -> None:
        """Add the scores of neighbours of points that are not known yet; NaN where they are not feasible."""
        new = [
            [one for one in dict.fromkeys(each) if one not in known]
            for each, known in zip(neighbours, scores, strict=True)
        ]
        counts, listed = list(map(len, new)), [one for each in new for one in each]
        if not listed:
            return
        around = np.repeat(np.stack(points), counts, axis=0)
        around[np.arange(len(listed)), [j for j, _ in listed]] = [code for _, code in listed]
        admitted = self.search.query.case.feasible.admits(around)
        asked = np.full(len(listed), np.nan)
        if admitted.any():
            asked[admitted] = self.score_points(around[admitted])
        answers = iter(asked.tolist())
        for each, known in zip(new, scores, strict=True):
            known.update(zip(each, answers, strict=False))

    def _compare(self, own: Neighbour, around: Surroundings, scores: Mapping[Neighbour, float]) -> SlopedScore:
        """The score of a point, and for every column what a change there does to it.

        Where the point is not feasible, the mean of those around it stands for its score.
        """
        score = scores[own]
        if math.isnan(score):
            feasible = [scores[one] for one in around.neighbours if not math.isnan(scores[one])]
            score = float(np.mean(feasible)) if feasible else 0.0

        def look_up(one: Neighbour) -> float:
            known = scores.get(one, score)  # any other code of the point itself is not there
            return score if math.isnan(known) else known

        gradient = np.zeros(self.search.encoding.width)
        for column, first, last, width in around.differences:
            gradient[column] = (look_up(last) - look_up(first)) / width
        return SlopedScore(score, gradient)

    def _list_surroundings(self, point: Points, step: float) -> Surroundings:
        around = Surroundings([], [])
        for j, code in enumerate(point.tolist()):
            if (j, code, step) not in self.surroundings:
                self.surroundings[j, code, step] = self._look_around(j, code, step)
            neighbours, differences = self.surroundings[j, code, step]
            around.neighbours.extend(neighbours)
            around.differences.extend(differences)
        return around

    def _look_around(self, feature: int, code: int, step: float) -> Surroundings:
        """Of an ordered feature the next smaller and the next larger number at least a step away, and missing; of a
        nominal one every other category.
        """
        encoding, codes = self.search.encoding, self.search.codes[feature]
        table, start = encoding.tables[feature], int(encoding.starts[feature])
        if encoding.ordered[feature]:
            chosen = [(other, start + column) for other, column in self._choose_ordered(feature, code, step)]
        else:
            chosen = [(other, start + other) for other in codes.tolist() if other != code]
        differences = []
        for column in sorted({column for _, column in chosen}):
            ends = [other for other, shown in chosen if shown == column]
            # Two neighbours on both sides, or one, or a category that is taken.
            first, last = ends if len(ends) == 2 else (code, ends[0])
            width = float(table[last, column - start] - table[first, column - start])
            differences.append(Difference(column, (feature, first), (feature, last), width))
        return Surroundings([(feature, other) for other, _ in chosen], differences)

    def _choose_ordered(self, feature: int, code: int, step: float) -> list[tuple[int, int]]:
        """Codes around one of an ordered feature, each with the column of the feature that shows the change."""
        table, codes = self.search.encoding.tables[feature], self.search.codes[feature]
        if feature not in self.numbers:
            self.numbers[feature] = SortedNumbers.build(table, codes)
        numbers, place = self.numbers[feature], float(table[code, 0])
        absent = [] if table.shape[1] == 1 else codes[table[codes, 1] == 1.0].tolist()
        if code in absent:  # a number in the middle tells what leaving it does
            return [(numbers.find_nearest(place), 1)] if numbers.codes else []
        return [(one, 0) for one in numbers.find_beside(place, step)] + [(one, 1) for one in absent]
