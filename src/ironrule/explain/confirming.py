"""The model's own word on counterfactuals: an exact oracle reads the model, and must have read right.

Asking a pipeline about one point costs it nearly as much as asking about many, so the rows that a worker explains one
after the other are confirmed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ironrule.errors import ModelError
from ironrule.explain.prepared import Prepared
from ironrule.model import Model
from ironrule.space import Points


@dataclass(slots=True, eq=False)
class Unconfirmed:
    """Counterfactuals that the model has not been asked about yet."""

    found: list[tuple[Prepared, Points]] = field(default_factory=list)

    def add(self, ready: Prepared, points: Points | None) -> None:
        """What was found for a row, if by reading; of a single tree every leaf was confirmed beforehand."""
        if ready.oracle is not None and not isinstance(ready.oracle, Model) and points is not None:
            self.found.append((ready, points))

    def confirm(self) -> None:
        """Ask the model; raises ModelError if it denies one, also by itself: sums of several rows at once may be
        rounded otherwise, which matters where a score lies on the threshold.
        """
        found, self.found = self.found, []
        for ready in {id(ready.word): ready for ready, _ in found}.values():
            points = np.concatenate([points for asked, points in found if asked.word is ready.word])
            denied = points[~ready.word.desired(points)]
            if not all(ready.model.desired(point[None, :])[0] for point in denied):
                raise ModelError(
                    "the model's decisions differ from its reading",
                    hint="please report this model",
                    code="reading-mismatch",
                )
