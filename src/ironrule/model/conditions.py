"""Conditions: sets of cells of one feature, as masks of 64-bit words; equal ones are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.model.cells import starts_of
from ironrule.model.reading import Unreadable

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

MOST_BYTES = 1 << 28
WHOLE = 0


@dataclass(slots=True, eq=False)
class Pile:
    """The conditions on one feature in the order in which they came; the first is the whole feature."""

    words: Words  # a row each, with room for more
    numbers: dict[bytes, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, masks: Words) -> Ints:
        """The numbers of masks, a row each; new ones are added."""
        before, width = len(self), 8 * masks.shape[1]
        packed, of = masks.tobytes(), self.numbers
        found = [of.setdefault(packed[at : at + width], len(of)) for at in range(0, len(packed), width)]
        numbers = np.array(found, dtype=np.int64)
        if len(self) > before:
            new, first = np.unique(numbers, return_index=True)
            self._add(masks[first[new >= before]], before)
        return numbers

    def _add(self, masks: Words, before: int) -> None:
        if len(self) > len(self.words):
            if 8 * len(self) * masks.shape[1] > MOST_BYTES:
                raise Unreadable("its leaves tell too many values apart for exact search; coarser grids would help")
            larger = np.empty((2 * len(self), masks.shape[1]), dtype=np.uint64)
            larger[:before] = self.words[:before]
            self.words = larger
        self.words[before : len(self)] = masks

    def shares(self) -> Floats:
        """The part of the feature's cells that each condition has."""
        counts = np.array([int.from_bytes(mask, "little").bit_count() for mask in self.numbers], dtype=np.int64)
        return np.asarray(counts / counts[WHOLE])


def pile_of(cells: int) -> Pile:
    """A pile for a feature of so many cells."""
    width = (cells + 63) // 64
    whole = np.zeros((1, 8 * width), dtype=np.uint8)
    whole[0, : (cells + 7) // 8] = np.packbits(np.ones(cells, dtype=np.uint8), bitorder="little")
    pile = Pile(np.empty((0, width), dtype=np.uint64))
    pile.number(whole.view("<u8").astype(np.uint64))
    return pile


def flat(piles: Sequence[Pile], features: Ints, numbers: Ints) -> tuple[Words, Ints]:
    """The masks of conditions end to end, and where each begins."""
    widths = np.array([pile.words.shape[1] for pile in piles], dtype=np.int64)[features]
    starts = starts_of(widths)
    words = np.empty(int(starts[-1]), dtype=np.uint64)
    for feature, pile in enumerate(piles):
        here = np.flatnonzero(features == feature)
        places = starts[here][:, None] + np.arange(pile.words.shape[1])
        words[places] = pile.words[numbers[here]]
    return words, starts


def runs(words: Words, starts: Ints) -> tuple[Ints, Ints, Ints]:
    """The runs of neighbouring cells in masks that lie end to end: where each mask's begin, their firsts and lasts."""
    before, after = np.zeros_like(words), np.zeros_like(words)
    before[1:], after[:-1] = words[:-1] >> np.uint64(63), words[1:] << np.uint64(63)
    before[starts[:-1]], after[starts[1:] - 1] = 0, 0
    first = words & ~((words << np.uint64(1)) | before)
    last = words & ~((words >> np.uint64(1)) | after)
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    (at, low), (end, high) = _ones(first), _ones(last)
    counts = np.bincount(owners[at], minlength=len(starts) - 1)
    return starts_of(counts), 64 * (at - starts[owners[at]]) + low, 64 * (end - starts[owners[end]]) + high


def _ones(words: Words) -> tuple[Ints, Ints]:
    """Where words have ones: the words' places, and the bits."""
    some = np.flatnonzero(words)
    bits = np.unpackbits(words[some].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    rows, columns = np.nonzero(bits)
    return some[rows], columns
