"""The rows that a ladder counts on, found again: those searched on, those measured on, and what follows from counts.

**The split** is specified in ``ironrule/model/population.py`` and written here a second time. A value has the eight
bytes, as a little-endian number, of BLAKE2b over the JSON text of ``[feature, value]``, with the seed as key; a row has
their sum modulo 2^64. With the number of earlier rows of the same values times 0x9E3779B97F4A7C15 added, SplitMix64
mixes the bits; below 2^63 the row is measured.

**The bound** of Clopper and Pearson (1934) is the share at which at most so many exceptions among so many rows have a
probability equal to the doubt. The explainer inverts a beta distribution; here the binomial probabilities are added up
at both sides of the bound that is claimed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ironrule.checker.arrays import BoolArray, Int32Array
from ironrule.checker.components import encode_point
from ironrule.checker.document import JsonObject
from ironrule.checker.ladder_document import LadderDocument
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.scope import CheckScope, UserInputs, add_values
from ironrule.checker.space.space import CheckerFeature, CheckerSpace, look_up_codes, sort_values, value_to_json
from ironrule.checker.space.table import UserTable, read_table
from ironrule.checker.user_models import (
    BATCH_ROWS,
    OutcomeTarget,
    build_decision,
    find_input_form,
    list_models_with_thresholds,
    select_rows,
)
from ironrule.errors import InputError

WORD = 1 << 64
OCCURRENCE_STEP = 0x9E3779B97F4A7C15
MIX_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))  # shifts and factors of SplitMix64
BOUND_TOLERANCE = 1e-9
MAX_KNOWN_ROWS = 4
NEGLIGIBLE = 1e-20  # a binomial term beside the sum of those before it


@dataclass(frozen=True, slots=True, eq=False)
class CountedRows:
    """Rows as codes of a space, and which of them have the desired outcome."""

    space: CheckerSpace
    codes: Int32Array
    desired: BoolArray

    def __len__(self) -> int:
        return len(self.codes)

    def leave_out_one(self, instance: JsonObject) -> CountedRows:
        """The rows without the first one that equals the instance."""
        point = encode_point(self.space, instance)
        equal = np.flatnonzero((self.codes == point).all(axis=1))[:1]
        return CountedRows(self.space, np.delete(self.codes, equal, axis=0), np.delete(self.desired, equal))


@dataclass(frozen=True, slots=True, eq=False)
class LadderRows:
    """The past rows, which of them were searched on, and the rows that were measured on; None if they were not named.
    ``overlap``: why the rows of a table are none to measure on, if they are rows of the data again.
    """

    past: CountedRows
    is_searched: BoolArray | None
    measured: CountedRows | None
    overlap: str | None = None


KnownRows = dict[tuple[CheckScope, str, int | None], LadderRows]
"""The rows of the last ladders, since those of one model mostly count on the same."""


def find_ladder_rows(
    document: LadderDocument, scope: CheckScope, inputs: UserInputs, measure: Any, known: KnownRows
) -> LadderRows:
    """The rows that a ladder counts on, one like its instance left out of the measured ones; raises ClaimUndecided if
    values of the caller's table have no place in the domains, InputError for a mask that does not fit.
    """
    if is_mask(measure) and len(measure) != len(inputs.table):
        expected = f"measure must have one flag per row of the data ({len(inputs.table):,} rows)"
        raise InputError(expected=expected, got=f"{len(measure):,} flags", code="bad-measure")
    key = scope, document.measured_from, document.split_seed
    if key not in known:
        if len(known) >= MAX_KNOWN_ROWS:
            known.pop(next(iter(known)))
        known[key] = _find_rows(document, scope, inputs, measure)
    rows = known[key]
    measured = None if rows.measured is None else rows.measured.leave_out_one(document.explanation.instance)
    return replace(rows, measured=measured)


def _find_rows(document: LadderDocument, scope: CheckScope, inputs: UserInputs, measure: Any) -> LadderRows:
    """Split the past rows as a ladder says, or take the caller's mask or table."""
    past = CountedRows(scope.space, scope.past_rows, scope.user_models.desired(scope.past_rows))
    every = np.ones(len(past), dtype=np.bool_)
    if document.measured_from == "split" and measure is None:
        assert document.split_seed is not None
        return _take_measured(past, flag_measured_rows(scope.space, scope.past_rows, document.split_seed))
    if document.measured_from == "mask" and is_mask(measure):
        can_occur = scope.space.admits(scope.space.encode(inputs.table))
        return _take_measured(past, measure[can_occur])
    if document.measured_from == "table" and measure is not None and not is_mask(measure):
        measured = _read_measured(scope, inputs, measure)
        return LadderRows(past, every, measured, _describe_overlap(past, measured))
    return LadderRows(past, every if document.measured_from == "table" else None, None)


def require_measured(rows: LadderRows, document: LadderDocument) -> tuple[CountedRows, BoolArray]:
    """The measured rows, and which past rows were searched on; raises ClaimUndecided if they are not known."""
    if rows.measured is not None and rows.is_searched is not None:
        return rows.measured, rows.is_searched
    needed = {
        "split": "half of the past rows, but measure= (--measure) names others: leave it out",
        "mask": "past rows that were marked: pass the mask again as measure=, in Python",
        "table": "rows of another table: pass it again as measure= (--measure)",
    }
    raise ClaimUndecided(f"the ladder was measured on {needed[document.measured_from]}")


def is_mask(measure: Any) -> bool:
    """Whether past rows are marked: one flag for each."""
    return isinstance(measure, np.ndarray) and measure.ndim == 1 and measure.dtype == np.bool_


def _take_measured(past: CountedRows, is_measured: BoolArray) -> LadderRows:
    taken = CountedRows(past.space, past.codes[is_measured], past.desired[is_measured])
    return LadderRows(past, ~is_measured, taken)


def _read_measured(scope: CheckScope, inputs: UserInputs, measure: Any) -> CountedRows:
    """Rows of the caller's table that can occur; values that no past row has join the domains."""
    table = read_table(measure, inputs.table.names if isinstance(measure, np.ndarray) else None)
    space = add_values(scope.space, _find_new_values(scope.space, table))
    codes = space.encode(table)
    can_occur = space.admits(codes)
    desired = _ask_about_rows(inputs.models, table, space, scope.target)
    return CountedRows(space, codes[can_occur], desired[can_occur])


def _describe_overlap(past: CountedRows, measured: CountedRows) -> str | None:
    """What is wrong if clearly more measured rows are among the past rows, which the search looked at, than by chance:
    that share is how many past rows have the values of another one.
    """
    places = [
        np.append(look_up_codes(new, old.values), [new.missing_code] * old.missing)
        for old, new in zip(past.space.features, measured.space.features, strict=True)
    ]
    known = np.stack([own[codes] for own, codes in zip(places, past.codes.T, strict=True)], axis=1)
    every = np.concatenate([known, measured.codes]).astype(np.int32)
    _, kinds = np.unique(every, axis=0, return_inverse=True)
    counts = np.bincount(kinds.ravel()[: len(known)], minlength=len(every))[kinds.ravel()]
    usual = float(np.mean(counts[: len(known)] > 1))
    shared, by_chance = int((counts[len(known) :] > 0).sum()), len(measured) * usual
    if shared <= by_chance + 5.0 * math.sqrt(by_chance * (1.0 - usual)) + max(5.0, 0.02 * len(measured)):
        return None
    return (
        f"{shared:,} of {len(measured):,} measured rows are in the data, which the search looked at; by chance about "
        f"{by_chance:,.0f} would be, so bounds that rest on them need not hold"
    )


def _find_new_values(space: CheckerSpace, table: UserTable) -> dict[str, list[Any]]:
    """The values of a table, by feature, that the domains do not have; None for missing. One-hot groups have none."""
    found: dict[str, list[Any]] = {}
    for feature in space.features:
        if feature.one_hot:
            continue
        column = table.column(feature.columns[0])
        values = sort_values(column.present)
        new = [value for value, code in zip(values, look_up_codes(feature, values), strict=True) if code < 0]
        new += [None] if column.missing.any() and not feature.missing else []
        found |= {feature.name: new} if new else {}
    return found


def _ask_about_rows(models: Sequence[Any], table: UserTable, space: CheckerSpace, target: OutcomeTarget) -> BoolArray:
    """Which of the user's own rows some model gives the desired outcome; they are put to the models as they are."""
    desired = np.zeros(len(table), dtype=np.bool_)
    for model, threshold in list_models_with_thresholds(models, target):
        decision, (order, as_array) = build_decision(model, target, threshold), find_input_form(model, table)
        names = order if order is not None else tuple(name for name in table.names if name in space.columns)
        for start in range(0, len(table), BATCH_ROWS):
            rows = np.arange(start, min(start + BATCH_ROWS, len(table)))
            desired[rows] |= decision(select_rows(table, rows, names, as_array), len(rows))
    return desired


def flag_measured_rows(space: CheckerSpace, codes: Int32Array, seed: int) -> BoolArray:
    """Which rows the split measures."""
    key = seed.to_bytes((seed.bit_length() + 7) // 8 or 1, "little")
    sums = np.zeros(len(codes), dtype=np.uint64)  # additions wrap around at 2^64
    for place, feature in enumerate(space.features):
        hashes = np.array([_hash_value(feature, code, key) for code in range(feature.size)], dtype=np.uint64)
        sums += hashes[codes[:, place]]
    times_seen: dict[bytes, int] = {}
    flags = np.zeros(len(codes), dtype=np.bool_)
    for number, (row, total) in enumerate(zip(codes, sums.tolist(), strict=True)):
        values = row.tobytes()
        earlier = times_seen.get(values, 0)
        times_seen[values] = earlier + 1
        word = (total + earlier * OCCURRENCE_STEP) % WORD
        for shift, factor in MIX_STEPS:
            word = (word ^ word >> shift) * factor % WORD
        flags[number] = word < WORD // 2
    return flags


def _hash_value(feature: CheckerFeature, code: int, key: bytes) -> int:
    plain = value_to_json(feature.value(code))
    if isinstance(plain, float) and plain == math.floor(plain):
        plain = math.floor(plain)  # 30.0 is 30
    text = json.dumps([feature.name, plain], separators=(",", ":"), ensure_ascii=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "little")


def follows_from_counts(bound: float, seen: int, rows: int, doubt: float) -> bool:
    """Whether a bound is that of Clopper and Pearson, to within 1e-9.

    >>> follows_from_counts(1 - 0.05 ** (1 / 400), 0, 400, 0.05), follows_from_counts(0.007, 0, 400, 0.05)
    (True, False)
    """
    if seen >= rows:  # nothing is excluded
        return seen == rows and bound == 1.0
    if not 0.0 < bound <= 1.0:
        return False
    below, above = max(0.0, bound - BOUND_TOLERANCE), min(1.0, bound + BOUND_TOLERANCE)
    return compute_tail(seen, rows, below) >= doubt >= compute_tail(seen, rows, above)


def compute_tail(seen: int, rows: int, share: float) -> float:
    """The probability of at most ``seen`` exceptions among ``rows`` rows, if this is their share in the population.

    >>> round(compute_tail(1, 2, 0.5), 12), round(compute_tail(0, 3, 0.5), 12), compute_tail(0, 5, 0.0)
    (0.75, 0.125, 1.0)
    """
    if share <= 0.0 or share >= 1.0:
        return float(share <= 0.0 or seen >= rows)
    # From the largest term, the terms fall to both sides.
    top, odds = min(seen, int((rows + 1) * share)), share / (1.0 - share)
    parts, term = [1.0], 1.0
    for count in range(top, 0, -1):
        term *= count / ((rows - count + 1) * odds)
        parts.append(term)
        if term < NEGLIGIBLE:
            break
    term = 1.0
    for count in range(top + 1, seen + 1):
        term *= (rows - count + 1) * odds / count
        parts.append(term)
        if term < NEGLIGIBLE:
            break
    ways = math.lgamma(rows + 1) - math.lgamma(top + 1) - math.lgamma(rows - top + 1)
    return math.exp(ways + top * math.log(share) + (rows - top) * math.log1p(-share)) * math.fsum(parts)
