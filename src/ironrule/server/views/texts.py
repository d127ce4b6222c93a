"""Rules, changes and values in words, with the labels of a space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ironrule.rule.counterfactual import Counterfactual
from ironrule.rule.phrasing import FeatureLabels, format_label, group_conditions, name_value
from ironrule.rule.rule import Rule
from ironrule.space.feature import value_to_json
from ironrule.space.space import Space
from ironrule.wording import format_value


def build_changes(counterfactual: Counterfactual, space: Space) -> list[dict[str, str]]:
    """The changes of a counterfactual."""
    labels = FeatureLabels.from_space(space)
    return [
        {
            "feature": change.feature,
            "label": format_label(labels.get(change.feature)),
            "before": name_value(change.feature, change.before, space.labels, "unquoted"),
            "after": name_value(change.feature, change.after, space.labels, "unquoted"),
        }
        for change in counterfactual.changes
    ]


def format_rule(rule: Rule, space: Space) -> str:
    """A rule in one line, in labels."""
    return "; ".join(list_texts(rule, space))


def list_texts(rule: Rule, space: Space) -> list[str]:
    """The conditions of a rule, one text each."""
    return [f"{one['label']}: {one['shown']}" for one in list_conditions(rule, space)] or ["everyone"]


def list_conditions(rule: Rule, space: Space) -> list[dict[str, str]]:
    """The conditions of a rule, one per feature, in labels."""
    labels = FeatureLabels.from_space(space, "unquoted")
    return [
        {"label": format_label(labels.get(condition.feature)), "shown": labels.format_sentence(condition)}
        for condition in group_conditions(rule)
    ]


def list_values(space: Space, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The values of a row, feature by feature."""
    return [
        {
            "feature": f.name,
            "label": format_label(f),
            "unit": f.unit,
            "value": value_to_json(values[f.name]),
            "text": name_value(f.name, values[f.name], space.labels, "unquoted"),
            "typed": format_value(values[f.name], "unquoted"),
            "domain": f.describe(),
        }
        for f in space.features
    ]


def list_features(space: Space, counts: Counter[str], rules: int) -> list[dict[str, Any]]:
    """In how many rules every feature appears, the most frequent first."""
    return [
        {"feature": name, "label": format_label(space[name]), "rules": count, "share": round(count / max(1, rules), 4)}
        for name, count in counts.most_common()
    ]
