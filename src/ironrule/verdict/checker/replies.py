"""The model's own word on points, each asked about once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ironrule.model.protocol import Model
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space import Points, Space
from ironrule.verdict.checker.result import Fails


@dataclass(frozen=True, slots=True, eq=False)
class Replies:
    """What a model said, or several together, seen from an instance. It is slow to ask, and quick to answer many."""

    model: Model
    space: Space
    instance: Points
    known: dict[bytes, bool] = field(default_factory=dict)

    def of(self, model: Model) -> Replies:
        """The word of one model alone."""
        return replace(self, model=model, known={})

    def desired(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points have the desired outcome."""
        keys = [point.tobytes() for point in np.ascontiguousarray(points, dtype=np.int32)]
        new = {key: place for place, key in enumerate(keys) if key not in self.known}
        answers = self.model.desired(points[list(new.values())]) if new else ()
        self.known.update(zip(new, map(bool, answers), strict=True))
        return np.array([self.known[key] for key in keys], dtype=np.bool_)

    def refuse_exception(self, point: Points) -> None:
        """Raise Fails if a point that can occur has the desired outcome."""
        if self.desired(point[None, :])[0]:
            raise Fails(f"there is an exception: {self.described(point)}")

    def exceptions_in(self, low: Points, high: Points) -> Points | None:
        """A point in a box that the model has already given the desired outcome, and that can occur."""
        points = [np.frombuffer(key, dtype=np.int32) for key, desired in self.known.items() if desired]
        inside = [point for point in points if ((low <= point) & (point <= high)).all()]
        occurring = [point for point in inside if self.space.feasible.admits(point[None, :])[0]]
        return occurring[0] if occurring else None

    def described(self, point: Points) -> str:
        """A point in words: what differs from the instance."""
        return str(Counterfactual.between(self.space, self.instance, point))
