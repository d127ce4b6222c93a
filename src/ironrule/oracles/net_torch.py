"""Bounds over boxes on a device that torch can use, thousands at a time.

The same bounds as :mod:`ironrule.oracles.net_bounding_kernels`, with matrix products in place of loops. All is float64.
A product of matrices in float64 sums the same terms in another order, with or without fused steps, and `gamma` holds
for every order; what would not do is a product that is put together from narrower numbers, so that is refused
(TorchEngine.on). The lines of the first layer are taken around the middle of a box: what then comes on top is, per
scaled number, half of its range times the size of its slope.

A box is closed only if the bound stays below zero by a reserve, so that whoever checks the proof on another machine,
with bounds that are rounded otherwise, can close it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import torch

from ironrule.errors import InputError
from ironrule.model.net import Net
from ironrule.oracles.net_parts import Ints, Outcome, bounded
from ironrule.oracles.net_question_torch import Question
from ironrule.oracles.net_room import CLOSED, Opened

KEPT = 8  # questions that stay on the device
MOST_ROOM = 1 << 34
EMULATED = "CUBLAS_EMULATE_DOUBLE_PRECISION"


@dataclass(frozen=True, slots=True, eq=False)
class TorchEngine:
    """A device of torch. Fewer than ``few`` boxes are left to the cores; ``room`` bytes of it are used at once."""

    device: str
    batch: int = 16_384
    limit: int = 5_000_000
    few: int = 64
    room: int = 1 << 32
    _recent: list[Question] = field(default_factory=list)

    @classmethod
    def on(cls, device: str) -> TorchEngine:
        """The engine of a GPU, by the name that torch gives it."""
        try:
            named = torch.device(device)
        except RuntimeError:
            raise InputError(expected="device must be None, 'cpu' or a name such as 'cuda'", got=repr(device)) from None
        if named.type != "cuda":
            raise InputError(
                expected="device must be None, 'cpu' or a CUDA GPU, which computes in float64", got=repr(device)
            )
        if not torch.cuda.is_available() or (named.index or 0) >= torch.cuda.device_count():
            raise InputError(expected="device must name a CUDA GPU that torch can use", got=repr(device))
        if os.environ.get(EMULATED, "0") != "0":
            raise InputError(f"bounds need the GPU's own float64, which {EMULATED} replaces", hint="unset it")
        return cls(device, room=min(MOST_ROOM, torch.cuda.mem_get_info(named)[0] // 4))

    def bounded(self, net: Net, opened: Opened, low: Ints, high: Ints) -> Outcome:
        """For every box what the kernels say, up to rounding."""
        if len(low) < self.few:
            return bounded(net, opened, low, high)
        question = self._question(net, opened)
        outcome = Outcome(np.full(len(low), CLOSED), np.zeros((len(low), 2), np.int64), np.zeros_like(low))
        most = max(1, self.room // question.bytes_per_box)
        with torch.inference_mode():
            for start in range(0, len(low), most):
                some = slice(start, start + most)
                question.bound(low[some], high[some], Outcome(*(array[some] for array in outcome)))
        return outcome

    def _question(self, net: Net, opened: Opened) -> Question:
        """A question on the device, where it stays for its next boxes."""
        for known in list(self._recent):
            if known.net is net and known.opened is opened:
                return known
        alike = next((one.layers for one in list(self._recent) if one.net is net), None)
        question = Question.on(self.device, net, opened, alike)
        self._recent.insert(0, question)
        del self._recent[KEPT:]
        return question
