"""A model that can be read: its forests, checked against the model's own decisions before they serve.

The check covers every value of every feature (so every threshold, from both sides), past rows and random points. If one
decision differs, the model is not served by the exact oracle at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ironrule.model.blackbox import BlackBox
from ironrule.model.cells import Questions
from ironrule.model.direct import Direct, direct
from ironrule.model.network import Network
from ironrule.model.readers import intake_of, read
from ironrule.model.readers.steps import split_steps
from ironrule.model.reading import Group, Reading, Unreadable
from ironrule.model.seen import any_inexact, refuse_inexact, seen_by
from ironrule.model.tabulate import Columns, tabulate
from ironrule.space import Points, Space

if TYPE_CHECKING:  # whoever only reads a model, as the checker does, loads nothing of the search
    from ironrule.model.forest import Forest
    from ironrule.model.net import Net

CHECKED = 4096
MOST_VALUES = 50_000
MOST_NODES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A model's reading, and what the model sees for every code of the space: all that its decision depends on."""

    reading: Reading | Network
    columns: Columns

    @property
    def sums(self) -> Reading:
        """The reading of a model that is no network; raises Unreadable if it is one."""
        if isinstance(self.reading, Network):
            raise Unreadable(
                "a network has no thresholds: between two values its decision may turn anywhere, so no list of values "
                "speaks for those in between; a space with a finer grid of values comes nearest"
            )
        return self.reading

    @property
    def fingerprint(self) -> str:
        """A hash of how the model decides in the space, whatever file or library version it came from."""
        digest = hashlib.sha256()
        if isinstance(self.reading, Network):
            self._add_network(digest, self.reading)
        else:
            self._add_sums(digest, self.reading)
        return digest.hexdigest()

    def _add_network(self, digest: Any, network: Network) -> None:
        digest.update(np.array([network.unit]).tobytes() + self.columns.features.astype("<i8").tobytes())
        for values in self.columns.values:
            digest.update(np.asarray(values, dtype=np.float64).tobytes())
        for layer in network.layers:
            digest.update(repr((layer.activation, layer.weights.shape)).encode())
            digest.update(np.asarray(layer.weights, dtype=np.float64).tobytes())
            digest.update(np.asarray(layer.bias, dtype=np.float64).tobytes())
        for margins in network.alternatives:
            digest.update(b"alternative")
            for margin in margins:
                digest.update(np.array([margin.offset, margin.error, *margin.coefficients]).tobytes())

    def _add_sums(self, digest: Any, reading: Reading) -> None:
        questions, groups = Questions(self.columns), groups_of(reading)
        questions.add(tree for group in groups for tree in group.trees)
        for feature, left in questions.numbers:
            digest.update(feature.to_bytes(4, "little") + left)
        for margins in reading.alternatives:
            digest.update(b"alternative")
            for margin in margins:
                digest.update(np.array([margin.offset, margin.error, margin.relative]).tobytes())
                for group in margin.groups:
                    self._add_group(digest, group, questions)

    def _add_group(self, digest: Any, group: Group, questions: Questions) -> None:
        digest.update(repr(group.link).encode())
        for tree in group.trees:
            for part in (questions.of(tree), tree.left, tree.right, tree.value):
                digest.update(part.tobytes())
        for term in group.terms:
            values = term.of(self.columns.values[term.column])
            digest.update(int(self.columns.features[term.column]).to_bytes(4, "little"))
            digest.update(np.asarray(values, dtype=np.float64).tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class Readable:
    """Forests or nets that decide as the model does, one per alternative."""

    forests: tuple[Forest | Net, ...]
    fingerprint: str
    own: Read  # the model itself, where the forests are of several or withstand a margin
    direct: Direct | None = None  # a single model's final estimator, where that decides alone


def read_model(model: Any, asked: BlackBox, space: Space, past: Points, desired: Any, threshold: float | None) -> Read:
    """Read a model; raises Unreadable, with the reason, if it cannot be read."""
    if not hasattr(model, "predict"):
        raise Unreadable("a plain function can only be asked, not read")
    transform, final = split_steps(model)
    reading = read(final, desired, threshold)
    _check_size(reading)
    _require_exact_layout(asked, space, past)
    intake, names = intake_of(final), asked.layout.names
    return Read(
        reading, tabulate(lambda points: seen_by(transform, asked.layout.decode(points), intake, names), space, past)
    )


def _require_exact_layout(asked: BlackBox, space: Space, past: Points) -> None:
    """Raise Unreadable if whole numbers are no longer exact where they are laid out beside others in one array."""
    laid = asked.layout.decode(past[:1])
    if asked.layout.is_array and laid.dtype.kind == "f":
        for name, source in zip(asked.layout.names, asked.layout.sources, strict=True):
            if any_inexact(space.features[source].values):
                refuse_inexact(name)


def readable(
    model: Any, asked: BlackBox, space: Space, past: Points, desired: Any, threshold: float | None
) -> Readable:
    """Read a model for search; raises Unreadable also if its reading decides otherwise."""
    read = read_model(model, asked, space, past, desired, threshold)
    parts = _compiled(read, space)
    points = checked_points(space, past)
    points = points[space.feasible.admits(points)]
    outcomes = asked.desired(points)
    _check(parts, outcomes, points)
    quick = direct(model, read.columns, asked, desired, threshold, points, outcomes)
    return Readable(tuple(part for part, _ in parts), read.fingerprint, read, quick)


Decide = Callable[[Points], tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]


def _compiled(read: Read, space: Space) -> list[tuple[Forest | Net, Decide]]:
    """The alternatives of a reading for search, and what each says of points: may they be desired, are they surely."""
    if isinstance(read.reading, Network):
        from ironrule.model.net import compile_network
        from ironrule.model.net_kernels import decide as decide_net

        return [(net, partial(decide_net, net)) for net in compile_network(read.reading, read.columns, space)]
    from ironrule.model.forest import compile_reading
    from ironrule.model.forest_kernels import decide

    return [(forest, partial(decide, forest)) for forest in compile_reading(read.reading, read.columns, space)]


def groups_of(reading: Reading) -> list[Group]:
    """The groups of all margins of a reading."""
    return [group for margins in reading.alternatives for margin in margins for group in margin.groups]


def _check_size(reading: Reading | Network) -> None:
    if isinstance(reading, Network):
        return
    nodes = sum(len(tree.left) for group in groups_of(reading) for tree in group.trees)
    if nodes > MOST_NODES:
        raise Unreadable(f"its trees have {nodes:,} nodes, and models of up to {MOST_NODES:,} are read so far")


def _check(parts: list[tuple[Forest | Net, Decide]], desired: npt.NDArray[np.bool_], points: Points) -> None:
    possible, sure = np.zeros(len(points), dtype=np.bool_), np.zeros(len(points), dtype=np.bool_)
    for _, decide in parts:
        may, must = decide(points)
        possible |= may
        sure |= must
    if (desired & ~possible).any() or (sure & ~desired).any():
        raise Unreadable("its reading decides otherwise than the model itself; the model is only asked")


def checked_points(space: Space, past: Points) -> Points:
    """Past rows, random points, and every value of every feature once."""
    rng = np.random.default_rng(0)
    rows = past[np.unique(np.linspace(0, len(past) - 1, CHECKED).astype(np.intp))]
    random = rng.integers(0, space.sizes, size=(CHECKED, len(space)), dtype=np.int32)
    values = []
    for j, size in enumerate(space.sizes.tolist()):
        codes = np.arange(size) if size <= MOST_VALUES else rng.choice(size, MOST_VALUES, replace=False)
        block = rows[rng.integers(0, len(rows), size=len(codes))]
        block[:, j] = codes
        values.append(block)
    return np.concatenate([rows, random, *values])
