"""Networks and questions as both machines use them: trained and recorded once, then read from a folder.

A pack holds a network as it was read, its space, the past rows and boxes to decide. It needs neither scikit-learn nor
the data, so a machine with a GPU and nothing else can work on it; there the network's own reading stands for the model.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ironrule.arrays import Points
from ironrule.backends.network.compile import CompiledNetwork, compile_network
from ironrule.model.history import History
from ironrule.model.normal_form.network import Network
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.protocol import Case
from ironrule.rule.box import Box
from ironrule.rule.instance_components import build_instance_components
from ironrule.space.space import Space


@dataclass(frozen=True, slots=True)
class Query:
    """A box of codes, the row that it belongs to, and the search that it comes from."""

    kind: str
    row: int
    low: Points
    high: Points

    @property
    def box(self) -> Box:
        """The box itself."""
        return Box(self.low, self.high)


@dataclass(frozen=True, slots=True)
class ReadModel:
    """What was read of a network, as the model that decides points."""

    read: TabulatedModel

    def desired(self, points: Points) -> npt.NDArray[np.bool_]:
        """Which points are desired."""
        assert isinstance(self.read.normal_form, Network)
        margins = self.read.normal_form.margins(self.read.columns.look_up(points))
        return np.asarray(np.max(margins, axis=0) > 0.0)


@dataclass(frozen=True)
class Pack:
    """One trained network, and what is asked of it."""

    name: str
    space: Space
    read: TabulatedModel
    history: History
    rows: tuple[int, ...]  # rows that the network denies, in a fixed random order
    score: float  # the share of past rows that it classifies rightly
    queries: tuple[Query, ...] = field(default=())  # a sample of all boxes that arose
    hard: tuple[Query, ...] = field(default=())  # a sample of those that were not decided while they were recorded

    @cached_property
    def nets(self) -> tuple[CompiledNetwork, ...]:
        """The network compiled for search."""
        assert isinstance(self.read.normal_form, Network)
        return compile_network(self.read.normal_form, self.read.columns, self.space)

    def case(self, row: int) -> Case:
        """The case of a past row."""
        relevant = build_instance_components(self.space, self.history.codes.row(row))
        return Case(self.space, ReadModel(self.read), self.history, relevant, self.space.feasible)

    def saved(self, folder: Path) -> None:
        """Write it to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        known = (self.name, self.space, self.read, self.history, self.rows, self.score, self.queries, self.hard)
        (folder / f"{file_name(self.name)}.pack").write_bytes(pickle.dumps(known))


def file_name(name: str) -> str:
    """A task's name as a file's.

    >>> file_name("HELOC, 50+50 relu")
    'HELOC-50-50-relu'
    """
    return "-".join("".join(letter if letter.isalnum() else " " for letter in name).split())


def load(folder: Path, name: str) -> Pack:
    """A pack that was prepared before; ends the program with a clear message if it was not."""
    file = folder / f"{file_name(name)}.pack"
    if not file.exists():
        raise SystemExit(f"{name} must have been prepared in {folder}, but it is not there; run with --prepare first")
    return Pack(*pickle.loads(file.read_bytes()))  # written by this benchmark
