"""A rule: a set of components, read as "and"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.rule.component import Component, Mask, shown
from ironrule.space.table import read_table


@dataclass(frozen=True, slots=True)
class Rule:
    """Everyone who satisfies all components gets the outcome. No components: everyone does.

    >>> rule = Rule((Component("income", "<=", 500), Component("accounts", ">=", 4)), outcome="denied")
    >>> print(rule)
    Everyone with income <= 500 and accounts >= 4 gets: denied.
    """

    components: tuple[Component, ...]
    outcome: str = "the undesired outcome"

    @property
    def cardinality(self) -> int:
        """The number of components."""
        return len(self.components)

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the rule names, each once, in order."""
        return tuple(dict.fromkeys(component.feature for component in self.components))

    def __len__(self) -> int:
        return len(self.components)

    def covers(self, table: Any) -> Mask:
        """Which rows of a table satisfy the rule."""
        read = read_table(table)
        mask = np.ones(len(read), dtype=np.bool_)
        for component in self.components:
            mask &= component.covers(read)
        return mask

    @property
    def conditions(self) -> tuple[str, ...]:
        """The components as text, with ``F <= v`` and ``F >= v`` read as ``F = v``."""
        ends = [{(c.feature, c.value) for c in self.components if c.op == op} for op in ("<=", ">=")]
        both = {feature for feature, _ in ends[0] & ends[1]}
        texts = (f"{c.feature} = {shown(c.value)}" if c.feature in both else str(c) for c in self.components)
        return tuple(dict.fromkeys(texts))

    @property
    def counted(self) -> str:
        """The cardinality in words, with a hint where the conditions are fewer."""
        hint = " (an equality on an ordered feature counts as two)" if len(self.conditions) < len(self) else ""
        return f"{self.cardinality}{hint}"

    def to_query(self) -> str:
        """The rule as a pandas query; one that holds everywhere for the empty rule."""
        return " and ".join(component.to_query() for component in self.components) or "index.isna() or index.notna()"

    def to_sql(self) -> str:
        """The rule as a WHERE clause in standard SQL."""
        return " AND ".join(component.to_sql() for component in self.components) or "1 = 1"

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain data."""
        return {"components": [component.to_dict() for component in self.components], "outcome": self.outcome}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rule:
        """The rule that :meth:`to_dict` wrote."""
        return cls(tuple(Component.from_dict(component) for component in data["components"]), data["outcome"])

    def __str__(self) -> str:
        who = f"Everyone with {' and '.join(self.conditions)}" if self.components else "Everyone"
        return f"{who} gets: {self.outcome}."
