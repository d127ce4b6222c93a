"""Where the parts of a box are bounded: by default on all cores of this machine, or on a device that torch can use."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Protocol

from ironrule.errors import InputError, MissingExtraError
from ironrule.model.net import Net
from ironrule.oracles.net_parts import Ints, Outcome, bounded
from ironrule.oracles.net_room import Opened


class Engine(Protocol):
    """Bounds boxes of a network's question. ``batch`` is how many it likes at once, ``limit`` how many parts of one
    question are worth its while.
    """

    @property
    def batch(self) -> int:
        """How many boxes it likes at once."""
        ...

    @property
    def limit(self) -> int:
        """How many parts of one question are worth its while."""
        ...

    def bounded(self, net: Net, opened: Opened, low: Ints, high: Ints) -> Outcome:
        """For every box what :func:`ironrule.oracles.net_bounding_kernels.bound_boxes` says."""
        ...


@dataclass(frozen=True, slots=True)
class Cores:
    """All cores of this machine."""

    batch: int = 256
    limit: int = 50_000

    def bounded(self, net: Net, opened: Opened, low: Ints, high: Ints) -> Outcome:
        """For every box what the kernels say."""
        return bounded(net, opened, low, high)


def engine_on(device: str | None) -> Engine:
    """The engine of a device: the cores for None and ``"cpu"``, torch for what it calls a GPU, such as ``"cuda"``."""
    if device is None or device == "cpu":
        return Cores()
    if not isinstance(device, str):
        raise InputError(expected="device must be None, 'cpu' or a name such as 'cuda'", got=repr(device))
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", f"device={device!r}")
    from ironrule.oracles.net_torch import TorchEngine

    return TorchEngine.on(device)
