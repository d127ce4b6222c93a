"""A region around a counterfactual: a box in which every point has the desired outcome, or what was asked for instead.

``CounterfactualRegion`` is what ``Explainer.counterfactual_region`` returns: "income from 2,400 to 3,100 and at most 3
accounts". It gives a person room to choose, where a counterfactual names a single point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ironrule.errors import InputError, build_format_error
from ironrule.model.target import Target
from ironrule.results.display import plot_region
from ironrule.results.document_types import check_region_types
from ironrule.results.explanation import Statistics
from ironrule.results.scope import DomainSummary, SearchScope, restore_readings
from ironrule.rule.counterfactual import Counterfactual, Goal
from ironrule.rule.phrasing import FeatureLabels, group_conditions
from ironrule.rule.rule import Rule
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.verdict.digest import JsonDocument, add_digest, require_digest
from ironrule.verdict.verdict import Proven, Verdict, verdict_from_dict, verdict_to_dict
from ironrule.wording import escape_controls, format_repr, format_value, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FORMAT_FIELD, REGION_FORMAT = "region_format", 1


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """What a feature may be in a region, and what it can be at all; ``any_value``: missing, too.

    ``low`` and ``high`` are values of a feature with an order; of another one both are its value, or None where it may
    have any. ``first`` and ``last`` are the ends of its domain, ``before`` and ``after`` what the row and the
    counterfactual have.
    """

    feature: str
    low: Value
    high: Value
    first: Value
    last: Value
    before: Value
    after: Value
    any_value: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The range as plain data."""
        plain = {name: value_to_json(getattr(self, name)) for name in ("low", "high", "first", "last")}
        ends = {"before": value_to_json(self.before), "after": value_to_json(self.after)}
        return {"feature": self.feature, **plain, **ends, "any_value": self.any_value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FeatureRange:
        """The range that :meth:`to_dict` wrote."""
        names = ("low", "high", "first", "last", "before", "after")
        values = {name: value_from_json(data[name]) for name in names}
        return cls(feature=data["feature"], any_value=data["any_value"], **values)

    def __str__(self) -> str:
        if self.any_value:
            return f"{escape_controls(self.feature)}: any value"
        return f"{escape_controls(self.feature)}: from {format_value(self.low)} to {format_value(self.high)}"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class CounterfactualRegion(JsonDocument):
    """A box around a counterfactual whose points have the desired outcome, as far as ``verdict`` says.

    ``Proven``: every point of the space in it has; of a model that can only be asked, ``Unrefuted`` with the bound that
    points drawn at random give. ``rule`` is the whole box, with what stays as it is, so ``rule.covers`` tells who
    is in it; ``rounded`` is the same with bounds as people write numbers, never wider. ``ranges`` says feature by
    feature what may vary. All other features are as in the counterfactual (``fixed``). ``maximal``: no bound can be
    moved further, and no category freed. ``target`` is what every point reaches, if not the desired outcome. With a
    ``margin`` it stays reached when scores move by that, and ``further_models`` are so many models beside the
    explainer's own that agree. ``scope`` is what :func:`ironrule.check` needs to know of the search.
    """

    DOCUMENT_NAME: ClassVar = "region"

    counterfactual: Counterfactual
    rule: Rule
    rounded: Rule
    ranges: tuple[FeatureRange, ...]
    fixed: Mapping[str, Value]
    verdict: Verdict
    maximal: bool
    statistics: Statistics
    target: Target | None = None
    margin: float = 0.0
    further_models: int = 0
    scope: SearchScope | None = field(default=None, compare=False, repr=False)

    @property
    def proven(self) -> bool:
        """Whether every point of the region is proven to have the desired outcome."""
        return isinstance(self.verdict, Proven)

    @property
    def goal(self) -> Goal:
        """What every point reaches."""
        return Goal(self.target, self.margin, self.further_models)

    @property
    def free(self) -> tuple[str, ...]:
        """The features that may take any value."""
        return tuple(one.feature for one in self.ranges if one.any_value)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the region says of each feature that may vary, in words."""
        labels, grouped = FeatureLabels(self.rule.labels), {one.feature: one for one in group_conditions(self.rounded)}
        return tuple(
            f"{labels.label(one.feature)}: "
            + (labels.format_sentence(grouped[one.feature]) if one.feature in grouped else "any value")
            for one in self.ranges
        )

    def to_dict(self) -> dict[str, Any]:
        """The region as plain data, with a digest of it."""
        document = {
            FORMAT_FIELD: REGION_FORMAT,
            "counterfactual": self.counterfactual.to_dict(),
            "rule": self.rule.to_dict(),
            "rounded": self.rounded.to_dict(),
            "ranges": [one.to_dict() for one in self.ranges],
            "fixed": {name: value_to_json(value) for name, value in self.fixed.items()},
            "verdict": verdict_to_dict(self.verdict),
            "maximal": self.maximal,
            "statistics": asdict(self.statistics),
            **({} if self.target is None else {"target": self.target.to_dict()}),
            **({"margin": self.margin} if self.margin else {}),
            **({"further_models": self.further_models} if self.further_models else {}),
            **({} if self.scope is None else {"scope": self.scope.to_dict()}),
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CounterfactualRegion:
        """The region that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="a region must be a JSON object", got=type(data).__name__)
        if data.get(FORMAT_FIELD) != REGION_FORMAT:
            raise build_format_error("a region", REGION_FORMAT, data.get(FORMAT_FIELD), "search for it again")
        try:
            require_digest(data)
            check_region_types(data)
            ranges = tuple(map(FeatureRange.from_dict, data["ranges"]))
            # A region has no bound that excludes nothing: one at the far end excludes missing values.
            target = Target.from_dict(data["target"]) if "target" in data else None
            goal = Goal(target, float(data.get("margin", 0.0)), int(data.get("further_models", 0)))
            domains = {one.feature: DomainSummary("seen", True, one.first, one.last) for one in ranges}
            return cls(
                counterfactual=Counterfactual.from_dict(data["counterfactual"]).with_goal(goal),
                rule=restore_readings(Rule.from_dict(data["rule"]), domains),
                rounded=restore_readings(Rule.from_dict(data["rounded"]), domains),
                ranges=ranges,
                fixed={name: value_from_json(value) for name, value in data["fixed"].items()},
                verdict=verdict_from_dict(data["verdict"]),
                maximal=data["maximal"],
                statistics=Statistics(**data["statistics"]),
                target=target,
                margin=goal.margin,
                further_models=goal.further_models,
                scope=SearchScope.from_dict(data["scope"]) if "scope" in data else None,
            )
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed region: {error!r}") from None

    def plot(self, ax: Axes | None = None) -> Axes:
        """The interval of every feature in its domain, with the row and the counterfactual, on matplotlib's axes."""
        return plot_region(self, ax)

    def __str__(self) -> str:
        said = "; ".join(self.conditions) or "the counterfactual alone"
        others = "; all other features as in the counterfactual" if self.fixed else ""
        reached = escape_controls(self.goal.describe(self.rule.labels))
        if self.proven:
            wide = ", and no bound can move further" if self.maximal else ""
            return f"{said}{others}: every such point has {reached}, proven{wide}"
        return f"{said}{others}: not proven that every such point has {reached} ({self.verdict.details})"

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self, self.verdict)
