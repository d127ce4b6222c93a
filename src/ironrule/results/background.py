"""The background of an explanation: the past rows that plots and reports show it against.

``Background`` holds the distributions of the rule's features, the coverage as the rule grows by one component after the
other, and for every component a counterfactual that it alone excludes. It claims nothing that a certificate would have
to show, so it is neither compared nor written into documents; it is computed when it is first read, which can take
longer than to explain. An explanation that was read back has none until :meth:`Explanation.with_history` attaches the
data again; ``attach_history`` does that, and refuses data of another space or history.

All of it is read off the codes: a component admits an interval of codes, so comparing a column with it tells which rows
it admits. Only a few bytes per row are held at a time, so that histories which do not fit into memory can be shown too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ironrule.arrays import BoolArray, Points, UInt8Array
from ironrule.errors import InputError
from ironrule.model.history import fingerprint_outcomes
from ironrule.results.scope import rebuild_space, remove_numbers
from ironrule.rule.condition import find_code_range
from ironrule.rule.counterfactual import Counterfactual, LazyValue
from ironrule.rule.rule import Component, Rule
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature, Value
from ironrule.space.labels import Labels
from ironrule.space.space import Space
from ironrule.space.table import read_table
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often every value of a feature occurs among the past rows: by code, missing last."""

    feature: Feature
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """A rule that has grown by one component: the past rows it covers, and how many of those are desired.

    The first step has no component: it covers everyone. ``desired`` is None where the model was not asked.
    """

    component: Component | None
    covered: int
    desired: int | None


@dataclass(frozen=True, slots=True)
class ComponentNeed:
    """A component, and a counterfactual that every other component of the rule admits: without it that
    would be an exception. None where none is known; ``is_past_row`` says whether it is a past row.
    """

    component: Component
    counterfactual: Counterfactual | None
    is_past_row: bool = False

    def with_labels(self, labels: Labels) -> ComponentNeed:
        """The same, shown with these labels."""
        shown = None if self.counterfactual is None else self.counterfactual.with_labels(labels)
        return replace(self, counterfactual=shown)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What only somebody who has the model can say: its type, its libraries with their versions, and the row's score.

    ``threshold`` is None where the outcomes of past rows do not follow from it; ``score`` where the model has none.
    """

    type_name: str
    libraries: tuple[tuple[str, str], ...]
    score: float | None = None
    threshold: float | None = None
    score_meaning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Everything that plots and reports show besides the explanation itself."""

    labels: Labels
    feature_count: int
    distributions: tuple[Distribution, ...]  # of the rule's features
    growth: tuple[GrowthStep, ...]
    needs: tuple[ComponentNeed, ...]  # one per component, in the rule's order
    space_size: int
    unused_features: tuple[str, ...]  # those that the model is known not to use
    constraints: tuple[str, ...]
    is_robust: bool  # whether counterfactuals are those of any of several models, or within a margin
    libraries: tuple[tuple[str, str], ...] = ()  # those that the explanation was made with; () where that is not known
    lazy_model: LazyValue[ModelFacts] | None = field(default=None, compare=False, repr=False)
    lazy_digest: LazyValue[str] | None = field(default=None, compare=False, repr=False)

    @property
    def model(self) -> ModelFacts | None:
        """What the model says of itself and of the row, found when it is first read; None where it is not at hand."""
        return None if self.lazy_model is None else self.lazy_model.get()

    @property
    def data_digest(self) -> str | None:
        """A hash of the past rows, as codes of the space, found when it is first read."""
        return None if self.lazy_digest is None else self.lazy_digest.get()

    def with_labels(self, labels: Labels) -> Background:
        """The same, its counterfactuals shown with these labels."""
        return replace(self, labels=labels, needs=tuple(need.with_labels(labels) for need in self.needs))


MAX_CANDIDATE_ROWS = 5_000


@dataclass(frozen=True, slots=True, eq=False)
class HistoryRows:
    """Past rows as codes of a space; ``desired``: which have that outcome, or None where the model was not asked."""

    space: Space
    codes: EncodedTable
    desired: BoolArray | None
    unused_features: tuple[str, ...] = ()  # those that the model is known not to use


def build_background(
    past: HistoryRows,
    rule: Rule,
    instance: Mapping[str, Value],
    points: Points,
    is_robust: bool,
) -> Background:
    """The background of a rule; ``points`` are counterfactuals as codes."""
    space = past.space
    return Background(
        labels=space.labels,
        feature_count=len(space),
        distributions=tuple(_count_values(past, space.index(name)) for name in rule.features),
        growth=_build_growth(rule.components, past),
        needs=_find_needs(rule.components, past, space.encode_row(instance), points),
        space_size=space.size,
        unused_features=past.unused_features,
        constraints=tuple(map(str, space.constraints)),
        is_robust=is_robust,
        lazy_digest=LazyValue(lambda: _hash_codes(past.codes)),
    )


def _hash_codes(codes: EncodedTable) -> str:
    digest = hashlib.sha256()
    for column in codes.columns:
        digest.update(np.ascontiguousarray(column, dtype="<i4").tobytes())
    return digest.hexdigest()


def _find_admitted(component: Component, space: Space, codes: EncodedTable) -> BoolArray:
    place = space.index(component.feature)
    low, high = find_code_range(space.features[place], component.op, component.value)
    column = codes.columns[place]
    return np.asarray((column >= low) & (column <= high), dtype=np.bool_)


def _count_values(past: HistoryRows, place: int) -> Distribution:
    feature = past.space.features[place]
    return Distribution(feature, tuple(np.bincount(past.codes.columns[place], minlength=feature.size).tolist()))


def _build_growth(components: Sequence[Component], past: HistoryRows) -> tuple[GrowthStep, ...]:
    """The rule grown by what excludes most desired rows first; most rows of any kind, where the model was not asked."""
    everyone = np.ones(len(past.codes), dtype=np.bool_)
    steps, left, covered = [_build_step(None, everyone, past.desired)], list(components), past
    while left:
        options = [_build_step(one, _find_admitted(one, past.space, covered.codes), covered.desired) for one in left]
        best = min(range(len(left)), key=lambda place: (options[place].desired or 0, options[place].covered, place))
        steps.append(options[best])
        covered = _keep_rows(covered, _find_admitted(left.pop(best), past.space, covered.codes), left)
    return tuple(steps)


def _build_step(component: Component | None, inside: BoolArray, desired: BoolArray | None) -> GrowthStep:
    covered = int(np.count_nonzero(inside))
    return GrowthStep(component, covered, None if desired is None else int(np.count_nonzero(inside & desired)))


def _keep_rows(past: HistoryRows, inside: BoolArray, left: Sequence[Component]) -> HistoryRows:
    """The rows inside; of the columns, only those that what is left of the rule speaks of."""
    needed = {past.space.index(component.feature) for component in left}
    columns = [column[inside] if place in needed else column[:0] for place, column in enumerate(past.codes.columns)]
    desired = None if past.desired is None else past.desired[inside]
    return replace(past, codes=EncodedTable(tuple(columns)), desired=desired)


def _find_needs(
    components: Sequence[Component], past: HistoryRows, instance: Points, counterfactuals: Points
) -> tuple[ComponentNeed, ...]:
    """For every component the nearest counterfactual that it alone excludes: a past row, or one of these."""
    rows, columns = past.codes, EncodedTable(tuple(counterfactuals.T))
    broken_by_rows, broken_by_points = (_count_broken(components, past.space, codes) for codes in (rows, columns))
    needs = []
    for component in components:
        excluded = counterfactuals[(broken_by_points == 1) & ~_find_admitted(component, past.space, columns)]
        chosen = (broken_by_rows == 1) & ~_find_admitted(component, past.space, rows)
        needs.append(_choose_need(component, excluded, _select_desired(past, chosen), past.space, instance))
    return tuple(needs)


def _count_broken(components: Sequence[Component], space: Space, codes: EncodedTable) -> UInt8Array:
    """How many components every row breaks: at most two for every feature, of which there are few."""
    counts = np.zeros(len(codes), dtype=np.uint8)
    for component in components:
        counts += ~_find_admitted(component, space, codes)
    return counts


def _select_desired(past: HistoryRows, chosen: BoolArray) -> Points:
    """Some of the chosen past rows that are desired."""
    places = np.flatnonzero(chosen if past.desired is None else chosen & past.desired)
    return past.codes.points(places[: MAX_CANDIDATE_ROWS if past.desired is not None else 0])


def _choose_need(component: Component, excluded: Points, rows: Points, space: Space, instance: Points) -> ComponentNeed:
    points = np.concatenate([rows, excluded])  # of those that change equally few features the first: a past row
    if len(points) == 0:
        return ComponentNeed(component, None)
    nearest = int(np.argmin((points != instance).sum(axis=1)))
    return ComponentNeed(component, Counterfactual.from_point(space, instance, points[nearest]), nearest < len(rows))


@runtime_checkable
class HistorySource(Protocol):
    """What has read the past rows and asked the model about them, such as an explainer."""

    @property
    def space(self) -> Space:
        """The space that the codes are of."""

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """By interval, the numbers that its domain has besides those seen."""

    @property
    def codes(self) -> EncodedTable:
        """The past rows as codes."""

    @property
    def outcomes(self) -> BoolArray:
        """Which past rows have the desired outcome."""

    @property
    def fingerprint(self) -> str:
        """The model's fingerprint."""

    @property
    def unused_features(self) -> tuple[str, ...]:
        """The features that the model is known not to use."""

    def describe_model(self, row: Any) -> ModelFacts:
        """What the model says of itself and of a row."""


def attach_history(explanation: Explanation, data: Any, space: Space | None) -> Explanation:
    """The explanation with a background from the data; raises InputError if it speaks of another space or history."""
    if isinstance(data, HistorySource) and isinstance(data.space, Space):  # tables can have columns of these names
        return _attach_rows(explanation, _read_history_source(explanation, data), data)
    table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
    if space is None:
        named = [name for name in explanation.instance if name in table.names]
        chosen = named if len(named) == len(explanation.instance) else None
        space = Space.infer(table, constraints=explanation.constraints, columns=chosen, progress=False)
    space = rebuild_space(explanation, space)
    _require_same_space(explanation, space)
    codes = space.encode(table, progress=False)
    if space.feasible.predicates:
        codes = codes.take(space.feasible.admits_rows(codes))
    return _attach_rows(explanation, HistoryRows(space, codes, None))


def _read_history_source(explanation: Explanation, source: HistorySource) -> HistoryRows:
    """The past rows of an explainer over the explanation's space; raises InputError if it has another model."""
    space = rebuild_space(explanation, remove_numbers(source.space, source.breakpoints))
    codes = source.codes.recode(source.space.features, space.features)
    if explanation.model != _find_expected_fingerprint(explanation, source, space, codes):
        raise InputError("the explanation is about another model than this explainer's", code="model-mismatch")
    return HistoryRows(space, codes, source.outcomes, source.unused_features)


def _find_expected_fingerprint(
    explanation: Explanation, source: HistorySource, space: Space, codes: EncodedTable
) -> str:
    """The fingerprint that an explanation has which was made by an explainer, its row's own values in the space.

    A value inside an interval gives past rows other codes, and leaves the model's structure as it is. One that extends
    a domain changes that too, since the model is read over the longer domain; then its decisions are what counts, and
    where these are not those of past rows alone, because of a margin or of further models, nothing is left to compare.
    """
    if space.features == source.space.features:
        return source.fingerprint
    structure = source.fingerprint.partition("-")[2]
    claimed, dash, claimed_structure = explanation.model.partition("-")
    if structure and not explanation.extended_values:
        return f"{claimed}-{structure}"
    is_robust = explanation.decision.margin > 0 or explanation.model_count > 1
    decisions = claimed if structure and is_robust else fingerprint_outcomes(codes, source.outcomes)
    return f"{decisions}{dash}{claimed_structure}"


def _attach_rows(explanation: Explanation, past: HistoryRows, source: HistorySource | None = None) -> Explanation:
    """The explanation with these past rows attached; raises InputError if it speaks of another space or history."""
    _require_same_space(explanation, past.space)
    if len(past.codes) != explanation.history_rows:
        made_with = format_count(explanation.history_rows, "past row")
        expected = f"the data must have {made_with}, like the data that the explanation was made with"
        raise InputError(expected=expected, got=len(past.codes), code="history-mismatch")
    is_robust = explanation.decision.margin > 0 or explanation.model_count > 1

    def make() -> Background:
        named = [past.space.encode_row(one.values).tolist() for one in explanation.counterfactuals]
        points = np.array([*explanation.witnesses, *named], dtype=np.int32).reshape(-1, len(past.space))
        background = build_background(past, explanation.rule, explanation.instance, points, is_robust)
        if source is None:
            return background
        return replace(background, lazy_model=LazyValue(lambda: source.describe_model(explanation.instance)))

    attached = replace(explanation, lazy_background=LazyValue(make))
    return attached.with_labels(past.space.labels.extend(explanation.labels)) if past.space.labels else attached


def _require_same_space(explanation: Explanation, space: Space) -> None:
    if space.fingerprint != explanation.space:
        statement = "the explanation was made with another space than this data, space and constraints give"
        hint = "pass those that it was made with"
        raise InputError(statement, hint=hint, code="space-mismatch")
