"""Limits in seconds of the processor, all threads counted, for a machine that others use too."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ironrule.verdict.budget import Meter


@dataclass(slots=True)
class ProcessorMeter(Meter):
    """A meter whose budget in seconds is one of CPU time."""

    began: float = field(default_factory=time.process_time)

    @property
    def elapsed(self) -> float:
        """CPU seconds since the question was asked."""
        return time.process_time() - self.began
