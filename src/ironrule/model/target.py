"""What a counterfactual should reach, if not the explainer's own desired outcome: ``Target``.

Another class, a score above a number, a band of scores, or a grade that is the name of a band. Scores are what
``threshold=`` of the explainer speaks of: the probability of the desired class, or what a function or a regression
answers. As everywhere, "above" leaves out the number itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ironrule.errors import OutcomeError, describe_value
from ironrule.model.decision import DecisionTarget, as_labels, is_finite_number
from ironrule.space.feature import value_from_json, value_to_json
from ironrule.space.labels import NO_LABELS, Labels, write_key
from ironrule.wording import ValueStyle, format_settings, format_value

TARGET_KEYS = ("desired", "above", "at_most")


@dataclass(frozen=True, slots=True)
class Target:
    """What a counterfactual is to reach: a class, or one of several; a score above a number, up to one, or both.

    >>> Target(above=0.8), Target(above=0.5, at_most=0.8)
    (Target(above=0.8), Target(above=0.5, at_most=0.8))
    """

    desired: Any = None
    above: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        for name in ("above", "at_most"):
            if getattr(self, name) is not None and not is_finite_number(getattr(self, name)):
                got = describe_value(getattr(self, name))
                raise OutcomeError(expected=f"{name} must be a finite number", got=got, code="bad-target")
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        if self.desired is None and self.above is None and self.at_most is None:
            raise OutcomeError(
                expected="a target must be a class, a score above a number, or one up to a number",
                got="none of them",
                hint="such as Target(above=0.8)",
                code="bad-target",
            )
        if self.above is not None and self.at_most is not None and not self.above < self.at_most:
            expected = "the ends of a band of scores must rise"
            raise OutcomeError(
                expected=expected, got=f"above {self.above!r}, at most {self.at_most!r}", code="bad-target"
            )
        if self.desired is not None:
            object.__setattr__(self, "desired", as_labels(self.desired))

    @classmethod
    def grade(cls, name: str, lowest: Mapping[str, float], desired: Any = None) -> Target:
        """The target to get a grade; ``lowest`` has for every grade the score that it begins above.

        >>> Target.grade("B", {"C": -math.inf, "B": 0.5, "A": 0.8})
        Target(above=0.5, at_most=0.8)
        """
        if not isinstance(lowest, Mapping) or not all(is_finite_number(n) or n == -math.inf for n in lowest.values()):
            expected = "grades must be a mapping from names to the score that each begins above"
            raise OutcomeError(expected=expected, got=describe_value(lowest), code="bad-target")
        if name not in lowest:
            expected = f"the grade must be one of {', '.join(map(str, lowest))}"
            raise OutcomeError(expected=expected, got=describe_value(name), code="bad-target")
        begin = lowest[name]
        higher = [other for other in lowest.values() if other > begin]
        above = None if begin == -math.inf else float(begin)
        return cls(desired, above, float(min(higher)) if higher else None)

    def __repr__(self) -> str:
        return format_settings(self)

    def describe(self, labels: Labels = NO_LABELS, style: ValueStyle = "quoted") -> str:
        """What is reached, behind "has" or "gets".

        >>> Target(above=0.5, at_most=0.8).describe(), Target(["B", "A"]).describe()
        ('a score above 0.5 and of at most 0.8', "the outcome 'B' or 'A'")
        """
        ends = [] if self.above is None else [f"above {format_value(self.above)}"]
        ends += [] if self.at_most is None else [f"of at most {format_value(self.at_most)}"]
        named = (labels.get_outcome(write_key(one)) or format_value(one, style) for one in self.desired or ())
        classes = " or ".join(named)
        if not ends:
            return f"the outcome {classes}"
        return f"a score {f'for {classes} ' if classes else ''}{' and '.join(ends)}"

    def resolve(self, own: DecisionTarget) -> DecisionTarget:
        """The decision that this asks for, of an explainer with a target of its own."""
        if self.above is None and self.at_most is None:
            return DecisionTarget(self.desired)
        return DecisionTarget(own.desired if self.desired is None else self.desired, self.above, upper=self.at_most)

    def to_dict(self) -> dict[str, Any]:
        """The target as plain data."""
        labels = None if self.desired is None else [value_to_json(label) for label in self.desired]
        values = zip(TARGET_KEYS, (labels, self.above, self.at_most), strict=True)
        return {key: value for key, value in values if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Target:
        """The target that :meth:`to_dict` wrote; raises OutcomeError for what is none."""
        unknown = [key for key in data if key not in TARGET_KEYS]
        if unknown:
            expected = f"a target must have the keys {', '.join(TARGET_KEYS)} alone"
            raise OutcomeError(expected=expected, got=describe_value(unknown[0]), code="bad-target")
        labels = data.get("desired")
        several = labels if isinstance(labels, list) else [] if labels is None else [labels]
        return cls([value_from_json(one) for one in several] or None, data.get("above"), data.get("at_most"))


def parse_target(target: Any) -> Target | None:
    """A target from what a caller gives: a Target, a class or several, or None for the explainer's own."""
    if target is None or isinstance(target, Target):
        return target
    return Target(target)
