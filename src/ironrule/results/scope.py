"""What an explanation is about: the domain of every feature, in values and in words.

A rule is proven for a space, and a reader must be told which: any number from the smallest to the largest, or only the
values that were seen. :class:`DomainSummary` says it for one feature; explanations carry one for every feature, and the
checker compares them with the data. ``rebuild_space`` gives the space of an explanation from that of the data alone,
without the model: the document has the numbers that were put between those seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ironrule.errors import InputError
from ironrule.model.decision import DecisionTarget
from ironrule.rule.ends import Reading, count_scale, read_bound_of_range
from ironrule.rule.phrasing import FeatureCondition, format_range, name_feature, name_value
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Feature, Value, value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.space.space import Space
from ironrule.wording import ValueStyle, format_count

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation


DomainKind = Literal["interval", "integers", "seen", "list"]
MAX_LISTED_VALUES = 12
MAX_NAMED_FEATURES = 3


@dataclass(frozen=True, slots=True)
class DomainSummary:
    """What one feature can take.

    ``interval``: any number from ``low`` to ``high``; ``integers``: any whole one. ``seen``: of the numbers or dates
    from ``low`` to ``high`` only those seen or declared, ``count`` of them. ``list``: the ``values``.
    """

    kind: DomainKind
    missing: bool
    low: Value = None
    high: Value = None
    count: int = 0
    values: tuple[Value, ...] = ()

    @classmethod
    def from_feature(cls, feature: Feature) -> DomainSummary:
        """The domain of a feature."""
        if not feature.naturally_ordered or not feature.ordered or not feature.values:
            return cls("list", feature.missing, count=len(feature.values), values=feature.values)
        kind: DomainKind = "seen"
        if feature.interval:
            kind = "integers" if feature.has_only_integers else "interval"
        count = len(feature.values) if kind == "seen" else 0  # an interval has more than the domain lists
        return cls(kind, feature.missing, feature.values[0], feature.values[-1], count)

    def describe(self, style: ValueStyle = "quoted", name: str = "", labels: Labels = NO_LABELS) -> str:
        """The domain in a few words; ``labels`` may have texts for the values of the feature of that name.

        >>> DomainSummary("interval", False, 0.02, 1.95).describe(), DomainSummary("integers", True, 18, 75).describe()
        ('from 0.02 to 1.95', 'whole numbers from 18 to 75, or missing')
        """
        ends = self.describe_range(style, name, labels)
        text = {
            "interval": ends,
            "integers": f"whole numbers {ends}",
            "seen": f"the {format_count(self.count, 'value')} seen {ends}",
            "list": ", ".join(name_value(name, value, labels, style) for value in self.values[:MAX_LISTED_VALUES])
            + (f", ... ({format_count(self.count, 'value')})" if self.count > MAX_LISTED_VALUES else ""),
        }[self.kind]
        return f"{text}, or missing" if self.missing and text else text or "missing"

    def describe_range(self, style: ValueStyle = "quoted", name: str = "", labels: Labels = NO_LABELS) -> str:
        """From the smallest to the largest."""
        ends = Component(name, ">=", self.low), Component(name, "<=", self.high)
        return f"from {format_range(FeatureCondition(name, ends), labels, style)}"

    def read_bound(self, component: Component) -> Reading:
        """How people read a component of the feature."""
        if self.kind != "list":
            first, last, size = self.low, self.high, count_scale(self.low, self.high)
        elif self.values:
            first, last, size = self.values[0], self.values[-1], len(self.values)
        else:
            return "bound"
        return read_bound_of_range(component.op, component.value, first, last, missing=self.missing, size=size)

    @property
    def is_interval(self) -> bool:
        """Whether numbers between those seen are spoken of too."""
        return self.kind in ("interval", "integers")

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain data."""
        data: dict[str, Any] = {"kind": self.kind, "missing": self.missing}
        if self.kind == "list":
            return data | {"values": [value_to_json(value) for value in self.values]}
        data |= {"low": value_to_json(self.low), "high": value_to_json(self.high)}
        return data | ({"count": self.count} if self.kind == "seen" else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DomainSummary:
        """The domain that :meth:`to_dict` wrote."""
        values = tuple(map(value_from_json, data.get("values", ())))
        low, high = (value_from_json(data.get(end)) for end in ("low", "high"))
        return cls(data["kind"], data["missing"], low, high, count=data.get("count", len(values)), values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """What counterfactuals were searched for and where: all that a check needs to repeat the claims about them.

    ``space`` and ``model`` are fingerprints, ``decision`` is what had to be reached, without a margin. ``breakpoints``
    (None: the values seen alone count), ``extended_values`` and ``constraints`` are as in an explanation.
    ``features_to_vary`` (None: all) and ``change_constraints``, those of declared roles and of permitted ranges among
    them, say what may change; ``k`` is how many counterfactuals were asked for.
    """

    space: str
    model: str
    decision: DecisionTarget
    k: int
    constraints: tuple[str, ...] = ()
    breakpoints: Mapping[str, tuple[Value, ...]] | None = None
    extended_values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    features_to_vary: tuple[str, ...] | None = None
    change_constraints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The scope as plain data."""
        more = {"upper": self.decision.upper} if self.decision.upper is not None else {}
        data: dict[str, Any] = {
            "space": self.space,
            "model": self.model,
            "decision": self.decision.to_dict() | more,
            "k": self.k,
            "constraints": list(self.constraints),
            "change_constraints": list(self.change_constraints),
        }
        if self.features_to_vary is not None:
            data["features_to_vary"] = list(self.features_to_vary)
        if self.breakpoints is not None:
            data["breakpoints"] = {name: list(numbers) for name, numbers in self.breakpoints.items()}
        added = {name: [value_to_json(value) for value in values] for name, values in self.extended_values.items()}
        return data | ({"extended_values": added} if added else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SearchScope:
        """The scope that :meth:`to_dict` wrote."""
        decision, points, names = data["decision"], data.get("breakpoints"), data.get("features_to_vary")
        added = data.get("extended_values", {}).items()
        return cls(
            space=data["space"],
            model=data["model"],
            decision=replace(DecisionTarget.from_dict(decision), upper=decision.get("upper")),
            k=data["k"],
            constraints=tuple(data["constraints"]),
            breakpoints=None if points is None else {name: tuple(numbers) for name, numbers in points.items()},
            extended_values={name: tuple(map(value_from_json, values)) for name, values in added},
            features_to_vary=None if names is None else tuple(names),
            change_constraints=tuple(data["change_constraints"]),
        )


def summarize_domains(space: Space) -> dict[str, DomainSummary]:
    """The domain of every feature, by name."""
    return {feature.name: DomainSummary.from_feature(feature) for feature in space.features}


def restore_readings(rule: Rule, domains: Mapping[str, DomainSummary]) -> Rule:
    """A rule from a document, which does not say how bounds at the ends of ranges are read, with the readings."""
    parts = tuple(
        replace(part, reading=domains[part.feature].read_bound(part)) if part.feature in domains else part
        for part in rule.components
    )
    return replace(rule, components=parts)


def describe_domains(explanation: Explanation, style: ValueStyle = "quoted") -> list[str]:
    """The scope of an explanation in sentences: which numbers it speaks of, and where the row itself extended them.

    Features of the rule come first, and numbers that are codes with texts last; of many only a few are named.
    """
    domains, labels = explanation.domains, explanation.labels
    named = dict.fromkeys(component.feature for component in explanation.rule.components)
    ordered = [name for name in (*named, *(n for n in domains if n not in named)) if name in domains]
    intervals = [name for name in ordered if domains[name].is_interval]
    intervals.sort(key=lambda name: labels.list_value_texts(name, None, None) is not None)
    seen = [name for name in ordered if domains[name].kind == "seen"]
    sentences = []
    if intervals:
        ranges = [
            f"{name_feature(name, labels)} {domains[name].describe_range(style, name, labels)}" for name in intervals
        ]
        shown = _join_some(ranges, "other number in its range", "other numbers in their ranges")
        sentences.append(f"The rule speaks of everyone with {shown}, whether such values were seen before or not.")
    if seen:
        shown = _join_some([name_feature(name, labels) for name in seen], "other feature", "other features")
        sentences.append(f"Among values seen: the rule says nothing of other values of {shown}.")
    sentences += [
        _describe_new_value(name, explanation.instance[name], domains.get(name), style, labels)
        for name, values in explanation.extended_values.items()
        if explanation.instance[name] in values
    ]
    return sentences


def _describe_new_value(
    name: str, value: Value, domain: DomainSummary | None, style: ValueStyle, labels: Labels
) -> str:
    """That no past row has a value of the row, and what was done about it."""
    shown = name_feature(name, labels)
    has = f"{shown} missing" if value is None else f"{shown} = {name_value(name, value, labels, style)}"
    if value is None or domain is None or not domain.is_interval:
        return f"No past row has {has}: it counts as one more value, and the model itself says what it makes of it."
    return f"No past row has {has}: the range of {shown} was extended to it."


def describe_checked_values(explanation: Explanation) -> str:
    """For a person: what was looked at to prove a rule."""
    kinds = {domain.kind for domain in explanation.domains.values()}
    if kinds & {"interval", "integers"} and "seen" not in kinds:
        return "every combination of values in the range of past cases, not only for past cases"
    if "seen" in kinds:
        return "every combination of the values that past cases have"
    return "every combination of values that can occur, not only for past cases"


def _join_some(texts: Sequence[str], other: str, others: str) -> str:
    """The first few texts, and how many others there are."""
    left = len(texts) - MAX_NAMED_FEATURES
    shown = [*texts[:MAX_NAMED_FEATURES], *([format_count(left, other, others)] if left > 0 else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def rebuild_space(explanation: Explanation, space: Space) -> Space:
    """The space that an explanation is about, from the space of its data: with its row's values, and its intervals.

    Raises InputError if the explanation names features that the space does not have.
    """
    added = explanation.breakpoints or {}
    unknown = [name for name in (*added, *explanation.extended_values) if name not in space.names]
    if unknown:
        raise InputError(f"the explanation speaks of a feature that the data lacks: {unknown[0]!r}")
    extended = space.add_values(explanation.extended_values)
    return replace(extended, features=tuple(_add_numbers(f, added.get(f.name)) for f in extended.features))


def remove_numbers(space: Space, added: Mapping[str, Iterable[Value]]) -> Space:
    """The space without numbers that were put between the values seen, by the names of their features."""
    left = {name: {*numbers} for name, numbers in added.items()}
    features = (
        replace(f, values=tuple(v for v in f.values if v not in left[f.name]), interval=None) if f.name in left else f
        for f in space.features
    )
    return replace(space, features=tuple(features))


def _add_numbers(feature: Feature, numbers: Iterable[Value] | None) -> Feature:
    if numbers is None:
        return feature
    return replace(feature, values=tuple(sorted({*feature.values, *numbers})), interval=True)
