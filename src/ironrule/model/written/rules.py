"""Classifiers that are rules: whoever satisfies one of them gets one outcome, everybody else the other.

With a single rule this is the synthetic classifier of Geng, Schleich and Suciu (VLDB 2022): the shortest
rule that explains a denial is then the classifier's own, and a search can be judged by whether it finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.model.written.labels import Labels, chosen, two_labels
from ironrule.rule import Rule
from ironrule.space.table import read_table


@dataclass(frozen=True, slots=True)
class RuleClassifier:
    """Whoever satisfies one of the rules gets the first class, everybody else the second.

    >>> import pandas as pd
    >>> from ironrule.rule import Component
    >>> poor = Rule((Component("income", "<=", 500), Component("accounts", ">=", 4)))
    >>> model = RuleClassifier((poor,), classes=("denied", "approved"))
    >>> model.predict(pd.DataFrame({"income": [500, 500, 900], "accounts": [4, 3, 9]})).tolist()
    ['denied', 'approved', 'approved']
    """

    rules: Sequence[Rule]
    classes: Labels = (0, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "classes", two_labels(self.classes))
        odd = [rule for rule in self.rules if not isinstance(rule, Rule)]
        if odd:
            raise InputError(expected="rules must be Rule objects", got=type(odd[0]).__name__)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The two labels."""
        return np.array(self.classes)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The columns that the rules speak of."""
        parts = [component for rule in self.rules for component in rule.components]
        names = [name for c in parts for name in ([name for name, _ in c.pattern] or [c.column])]
        return np.array(list(dict.fromkeys(names)), dtype=object)

    def predict(self, table: Any) -> npt.NDArray[Any]:
        """The class of every row."""
        read = read_table(table, self.feature_names_in_.tolist() if isinstance(table, np.ndarray) else None)
        free = np.ones(len(read), dtype=np.bool_)
        for rule in self.rules:
            free &= ~rule.covers(read)
        return chosen(free, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The classifier as plain data."""
        return {"rules": [rule.to_dict() for rule in self.rules], "classes": list(self.classes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RuleClassifier:
        """The classifier that :meth:`to_dict` wrote; raises InputError if the data is malformed."""
        if not {"rules"} <= set(data) <= {"rules", "classes"}:
            raise InputError(
                expected="a RuleClassifier must have the key 'rules', and may have 'classes'",
                got=f"keys {sorted(data)}",
            )
        return cls(tuple(Rule.from_dict(rule) for rule in data["rules"]), tuple(data.get("classes", (0, 1))))
