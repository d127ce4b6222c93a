"""Certificates: what lets somebody else check a proof without trusting the search that found it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Certificate:
    """How a rule was proven, over which space. To check an enumeration is to enumerate the box again.

    ``method`` names the kind of proof ("enumeration": the model was asked about every point of the box);
    ``points`` says how many points that were; ``space`` is the fingerprint of the space it holds in.
    """

    method: str
    points: int
    space: str

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain data."""
        return {"method": self.method, "points": self.points, "space": self.space}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote."""
        return cls(data["method"], data["points"], data["space"])

    def __str__(self) -> str:
        if self.method == "branch and bound":
            boxes = "1 box" if self.points == 1 else f"{self.points:,} boxes"
            return f"no point of the rule's box can be desired (branch and bound over {boxes})"
        return f"all {self.points:,} points of the rule's box are undesired"
