"""A pipeline asked past its preparation: the final estimator itself, on the columns that the preparation's tables give.

Most of what a scikit-learn pipeline takes for a few rows goes into preparing them, although all that its preparation
can give is tabulated already (:mod:`ironrule.model.tabulate`). So a few points are put to the final estimator directly.
That serves only if it decides as the whole pipeline does wherever the two were compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.blackbox import BlackBox
from ironrule.model.decision import Decision, decision_of
from ironrule.model.readers.steps import split_steps
from ironrule.model.tabulate import Columns
from ironrule.space import Points

Flags = npt.NDArray[np.bool_]

MOST_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """The final estimator of a pipeline, and what it sees of every code: the tables of all columns end to end."""

    features: npt.NDArray[np.intp]  # per column, where it comes from, and where its table begins
    starts: npt.NDArray[np.intp]
    values: npt.NDArray[Any]
    decision: Decision

    def desired(self, points: Points) -> Flags:
        """Which points have the desired outcome."""
        if len(points) == 0:
            return np.zeros(0, dtype=np.bool_)
        seen = self.values[self.starts + points[:, self.features]]
        return self.decision(np.ascontiguousarray(seen), len(points))  # by rows, as pipelines hand it on


def direct(
    model: Any,
    columns: Columns,
    asked: BlackBox,
    desired: Any,
    threshold: float | None,
    points: Points,
    outcomes: Flags,
) -> Direct | None:
    """A pipeline's final estimator, if it is handed plain numbers and decides on the points as the pipeline did."""
    steps, final = split_steps(model)
    sizes = [len(table) for table in columns.values]
    if steps is None or not 0 < sum(sizes) <= MOST_VALUES:
        return None
    seen, values = steps(asked.layout.decode(points[:1])), np.concatenate(columns.values)
    if type(seen) is not np.ndarray or seen.dtype.kind != "f" or seen.dtype != values.dtype:
        return None
    starts = np.cumsum([0, *sizes[:-1]])
    made = Direct(columns.features, starts, values, decision_of(final, desired, threshold))
    return made if np.array_equal(made.desired(points), outcomes) else None
