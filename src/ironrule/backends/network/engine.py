"""Where boxes are bounded: by default on all cores of this machine, or on a GPU that torch can use."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Protocol

from ironrule.arrays import Int64Array
from ironrule.backends.network.box_bounds import bound_on_cores
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.workspace import BoundResults, OpenCells
from ironrule.errors import InputError, MissingExtraError


class BoundEngine(Protocol):
    """Bounds the sub-boxes of a query: ``batch`` at a time is efficient, and ``limit`` is the usual most per query."""

    @property
    def batch(self) -> int:
        """How many boxes should be given at a time."""
        ...

    @property
    def limit(self) -> int:
        """How many sub-boxes one query may usually have."""
        ...

    def bound_boxes(
        self, net: CompiledNetwork, open_cells: OpenCells, low: Int64Array, high: Int64Array
    ) -> BoundResults:
        """For every box what :func:`ironrule.backends.network.box_bounds.bound_boxes` says."""
        ...


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """All cores of this machine."""

    batch: int = 256
    limit: int = 50_000

    def bound_boxes(
        self, net: CompiledNetwork, open_cells: OpenCells, low: Int64Array, high: Int64Array
    ) -> BoundResults:
        """For every box what the kernels say."""
        return bound_on_cores(net, open_cells, low, high)


def choose_engine(device: str | None) -> BoundEngine:
    """The engine of a device: the cores for None and ``"cpu"``, torch for what it calls a GPU, such as ``"cuda"``."""
    if device is None or device == "cpu":
        return CpuEngine()
    if not isinstance(device, str):
        raise InputError(expected="device must be None, 'cpu' or a name such as 'cuda'", got=repr(device))
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", f"device={device!r}")
    from ironrule.backends.network.gpu.engine import TorchEngine

    return TorchEngine.for_device(device)
