"""Which past rows a rule is searched on, and which it is measured on.

A bound on the exceptions of a rule (:mod:`ironrule.verdict.bounded`) is worth something only if it comes from rows that
the search for the rule never looked at. So past rows are split once: a part to search on, a part to measure on.

**The split.** Every row falls on a side by a keyed hash of its values and of how many equal rows come before it:

1. A value of a feature has eight bytes of BLAKE2b over the JSON text of ``[name, value]``, read as a little-endian
   number. The text is ASCII without spaces; the name is that of the feature (of a one-hot group its own), the value
   that of the domain: null if it is missing, a whole number without a decimal point, a date as
   ``{"date":"2024-12-31"}``. The key is the seed in little-endian bytes, as few as it needs, but one at least. A row
   has the sum of these numbers over all features of the space, modulo 2^64.
2. To that the number of earlier rows with the same values is added, times 0x9E3779B97F4A7C15, modulo 2^64, and the
   finaliser of SplitMix64 mixes the bits. Rows that break a constraint on the space are left out before.
3. The row is measured if the result is below the share to be measured, one half, times 2^64.

So the split depends on the seed and on the rows alone: the same row falls on the same side in every session, when rows
are appended and when constraints leave others out. Two people with equal values are two draws from the population, and
each falls on a side of its own. (Were equal rows kept together, a frequent combination of values would be measured
always or never, and the bound would be one for another population than that of the history.) A table that has one
person twice must be freed of copies first.

**Rows of the user's own.** With ``measure=``, a table that was not in the history is measured on, or the rows that a
mask marks; then all others are searched on. Rows that the model was not trained on are the right ones: an overfitted
model treats those of its training specially.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ironrule.arrays import BoolArray, Int64Array, UInt64Array
from ironrule.rule.condition import find_code_range
from ironrule.rule.rule import Component
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature, Value, value_to_json
from ironrule.space.space import Space

MEASURED_SHARE = 0.5
OCCURRENCE_STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)
HASH_ROWS = 1 << 20  # hashed at once

MeasuredFrom = Literal["split", "mask", "table"]
"""Where measured rows come from: half of the past rows, past rows that the user marked, or a table of the user's."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows:
    """Rows that rules are measured on, as codes of a space that has all of their values, with their outcomes."""

    space: Space
    codes: EncodedTable
    outcomes: BoolArray

    def __len__(self) -> int:
        return len(self.outcomes)

    def flag_covered(self, components: Sequence[Component]) -> BoolArray:
        """Which rows satisfy all components."""
        covered = np.ones(len(self), dtype=np.bool_)
        for component in components:
            j = self.space.index(component.feature)
            feature, column = self.space.features[j], self.codes.columns[j]
            if component.op == "==" and not _has_value(feature, component.value):
                return np.zeros(len(self), dtype=np.bool_)  # a category that no row has
            low, high = find_code_range(feature, component.op, component.value)
            covered &= (column >= low) & (column <= high)
        return covered

    def find_equal(self, row: Sequence[Value]) -> Int64Array:
        """The places of the rows with the given values, one per feature."""
        equal = np.ones(len(self), dtype=np.bool_)
        for feature, column, value in zip(self.space.features, self.codes.columns, row, strict=True):
            if not _has_value(feature, value):
                return np.empty(0, dtype=np.int64)
            equal &= column == feature.code(value)
        return np.flatnonzero(equal)


def _has_value(feature: Feature, value: Value) -> bool:
    """Whether a value, or missing, is in a domain."""
    return feature.missing if value is None else value in feature.code_by_value


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The past rows to search on, by a mask over the history, and the rows to measure on."""

    is_searched: BoolArray
    measured: MeasuredRows
    measured_from: MeasuredFrom
    seed: int | None = None  # of the split, where there is one

    def fingerprint(self) -> str:
        """A hash of which past rows are searched on, and of the measured rows with their outcomes."""
        digest = hashlib.sha256(np.packbits(self.is_searched).tobytes())
        digest.update(hash_rows(self.measured.space, self.measured.codes, self.seed or 0).tobytes())
        digest.update(np.packbits(self.measured.outcomes).tobytes())
        return digest.hexdigest()

    @property
    def is_fresh(self) -> bool:
        """Whether the user has said that the model does not know the measured rows."""
        return self.measured_from != "split"


def split_rows(space: Space, codes: EncodedTable, seed: int, share: float = MEASURED_SHARE) -> BoolArray:
    """Which rows are measured: about this share of them, by a keyed hash."""
    keys = hash_rows(space, codes, seed)
    # Equal rows are told apart by how many equal ones stand before them, so that not all fall on one side.
    with np.errstate(over="ignore"):
        mixed = _mix_bits(keys + count_earlier_equals(keys) * OCCURRENCE_STEP)
    return np.asarray(mixed < np.uint64(int(share * 2.0**64)), dtype=np.bool_)


def hash_rows(space: Space, codes: EncodedTable, seed: int) -> UInt64Array:
    """A keyed hash of every row's values; the codes that stand for them do not matter."""
    tables = [_hash_values(feature, seed) for feature in space.features]
    hashes = np.zeros(len(codes), dtype=np.uint64)
    with np.errstate(over="ignore"):
        # Some rows at a time, so that columns on disk are not read into memory whole.
        for start in range(0, len(codes), HASH_ROWS):
            part = hashes[start : start + HASH_ROWS]
            for table, column in zip(tables, codes.columns, strict=True):
                part += table[column[start : start + HASH_ROWS]]
    return hashes


def _hash_values(feature: Feature, seed: int) -> UInt64Array:
    """The hash of every value of a feature, that of missing last."""
    key = seed.to_bytes(max(1, (seed.bit_length() + 7) // 8), "little")[:64]
    texts = [format_keyed_value(feature.name, feature.value(code)) for code in range(feature.size)]
    digests = [hashlib.blake2b(text.encode("ascii"), digest_size=8, key=key).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def format_keyed_value(name: str, value: Value) -> str:
    """A feature's name and value as the text that is hashed: the same for equal numbers of any type.

    >>> format_keyed_value("age", 30.0), format_keyed_value("job", None)
    ('["age",30]', '["job",null]')
    """
    plain: Any = value_to_json(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return json.dumps([name, plain], separators=(",", ":"))


def count_earlier_equals(keys: UInt64Array) -> UInt64Array:
    """For every row the number of earlier rows with the same key.

    >>> count_earlier_equals(np.array([7, 3, 7, 7], dtype=np.uint64)).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = ranked[1:] != ranked[:-1]
    places = np.arange(len(keys))
    # Equal keys stand side by side, in their old order: count from the first of each run.
    counts = places - np.maximum.accumulate(np.where(is_first, places, 0))
    earlier = np.empty(len(keys), dtype=np.uint64)
    earlier[order] = counts.astype(np.uint64)
    return earlier


def _mix_bits(words: UInt64Array) -> UInt64Array:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit depends on all bits."""
    words = (words ^ (words >> FIRST_SHIFT)) * FIRST_FACTOR
    words = (words ^ (words >> SECOND_SHIFT)) * SECOND_FACTOR
    return words ^ (words >> LAST_SHIFT)
