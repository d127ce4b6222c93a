"""What an explanation speaks of: the domain of every feature, in values and in words.

A rule is proven for a space, and a reader must be told which: any number from the smallest to the largest, or only the
values that were seen. :class:`DomainSummary` says it for one feature; explanations carry one for every feature, and the
checker compares them with the data. ``rebuild_space`` gives the space of an explanation from that of the data alone,
without the model: the document has the numbers that were put between those seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from ironrule.errors import InputError
from ironrule.space.feature import Feature, Value, value_from_json, value_to_json
from ironrule.space.space import Space
from ironrule.wording import ValueStyle, format_count, format_value

if TYPE_CHECKING:
    from ironrule.results.explanation import Explanation


DomainKind = Literal["interval", "integers", "seen", "list"]
DomainMode = Literal["auto", "interval", "seen"]
DOMAIN_MODES: tuple[DomainMode, ...] = get_args(DomainMode)
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

    def describe(self, style: ValueStyle = "quoted") -> str:
        """The domain in a few words.

        >>> DomainSummary("interval", False, 0.02, 1.95).describe(), DomainSummary("integers", True, 18, 75).describe()
        ('from 0.02 to 1.95', 'whole numbers from 18 to 75, or missing')
        """
        ends = f"from {format_value(self.low, style)} to {format_value(self.high, style)}"
        text = {
            "interval": ends,
            "integers": f"whole numbers {ends}",
            "seen": f"the {format_count(self.count, 'value')} seen {ends}",
            "list": ", ".join(format_value(value, style) for value in self.values[:MAX_LISTED_VALUES])
            + (f", ... ({format_count(self.count, 'value')})" if self.count > MAX_LISTED_VALUES else ""),
        }[self.kind]
        return f"{text}, or missing" if self.missing and text else text or "missing"

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


def summarize_domains(space: Space) -> dict[str, DomainSummary]:
    """The domain of every feature, by name."""
    return {feature.name: DomainSummary.from_feature(feature) for feature in space.features}


def describe_domains(explanation: Explanation, style: ValueStyle = "quoted") -> list[str]:
    """The scope of an explanation in sentences: which numbers it speaks of, and where the row itself extended them.

    Features of the rule come first; of many only a few are named.
    """
    domains = explanation.domains
    named = dict.fromkeys(component.feature for component in explanation.rule.components)
    numbers = [name for name in (*named, *(n for n in domains if n not in named)) if name in domains]
    intervals = [name for name in numbers if domains[name].is_interval]
    seen = [name for name in numbers if domains[name].kind == "seen"]
    sentences = []
    if intervals:
        shown = [f"{name} {domains[name].describe(style)}" for name in intervals[:MAX_NAMED_FEATURES]]
        left = len(intervals) - len(shown)
        shown += (
            [f"{format_count(left, 'other number')} within {'its' if left == 1 else 'their'} range"] if left else []
        )
        sentences.append(f"For everyone with {_join(shown)}: every number in between counts.")
    if seen:
        shown = seen[:MAX_NAMED_FEATURES]
        left = len(seen) - len(shown)
        shown += [f"{format_count(left, 'other feature')}"] if left else []
        sentences.append(f"Among values seen: nothing is said of other values of {_join(shown)}.")
    for name in explanation.extended_features:
        value = format_value(explanation.instance[name], style)
        sentences.append(f"No past row has {name} {value}: its domain was extended for this row.")
    return sentences


def _join(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def rebuild_space(explanation: Explanation, space: Space) -> Space:
    """The space that an explanation is about, from the space of its data: with its row's values, and its intervals.

    Raises InputError if the explanation names features that the space does not have.
    """
    own = {name: explanation.instance[name] for name in explanation.extended_features}
    extended = space.extend_domains(own)
    added = explanation.breakpoints or {}
    unknown = [name for name in added if name not in space.names]
    if unknown:
        raise InputError(f"the explanation speaks of a feature that the data lacks: {unknown[0]!r}")
    return replace(extended, features=tuple(_add_numbers(f, added.get(f.name)) for f in extended.features))


def _add_numbers(feature: Feature, numbers: Iterable[Value] | None) -> Feature:
    if numbers is None:
        return feature
    return replace(feature, values=tuple(sorted({*feature.values, *numbers})), interval=True)
