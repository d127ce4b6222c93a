"""The past rows as a list that can be searched, filtered and paged, however long it is.

Everything happens on codes: a word is looked up among the values of every domain, which are few, and rows are selected
by their codes. The rows found are saved as bits under a random name, so that no value ever stands in an address.
"""

from __future__ import annotations

import re
import secrets
import threading
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cachetools import LRUCache

from ironrule.arrays import BoolArray, Int64Array, UInt8Array
from ironrule.errors import InputError
from ironrule.explain.explainer import Explainer
from ironrule.rule.condition import find_code_range
from ironrule.rule.parsing import parse_value, split_condition
from ironrule.rule.phrasing import format_label
from ironrule.server.errors import build_not_found_error, format_brief
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature, Value
from ironrule.space.space import Space
from ironrule.wording import format_value

OutcomeFilter = Literal["any", "desired", "undesired"]
MAX_SEARCH_LENGTH = 200


@dataclass(frozen=True, slots=True)
class ApplicantPage:
    """One page of applicants: their row numbers, their positions among the past rows, and how many there are in all."""

    row_numbers: list[int]
    positions: list[int]
    total: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Applicants:
    """The past rows of an explainer."""

    space: Space
    codes: EncodedTable
    outcomes: BoolArray
    row_numbers: Int64Array

    @classmethod
    def from_explainer(cls, explainer: Explainer) -> Applicants:
        """All past rows that the explainer knows."""
        return cls(explainer.space, explainer.codes, explainer.outcomes, explainer.row_numbers)

    def find_position(self, number: int) -> int:
        """The position of a row number among the past rows; raises a 404 for an unknown one."""
        position = int(np.searchsorted(self.row_numbers, number)) if 0 <= number < 1 << 62 else len(self.row_numbers)
        if position == len(self.row_numbers) or self.row_numbers[position] != number:
            raise build_not_found_error(f"applicant {format_brief(number)}")
        return position

    def values(self, position: int) -> dict[str, Value]:
        """One past row in the user's terms."""
        return self.space.decode_row(self.codes.row(position))

    def get_page(self, mask: BoolArray | None, outcome: OutcomeFilter, page: int, size: int) -> ApplicantPage:
        """One page of those found who have the outcome."""
        chosen = np.ones(len(self.outcomes), dtype=np.bool_) if mask is None else mask
        if outcome != "any":
            chosen = chosen & (self.outcomes == (outcome == "desired"))
        total = int(np.count_nonzero(chosen))
        pages = max(1, -(-total // size))
        page = min(max(1, page), pages)
        positions = np.flatnonzero(chosen)[(page - 1) * size : page * size]
        return ApplicantPage(self.row_numbers[positions].tolist(), positions.tolist(), total, page, pages)

    def search(self, text: str) -> BoolArray:
        """Who is meant: by conditions such as ``age >= 40 and job = cook``, or by a word among the values."""
        text = text.strip()
        if not 1 <= len(text) <= MAX_SEARCH_LENGTH:
            raise InputError(expected=f"a search must have 1 to {MAX_SEARCH_LENGTH} characters", got=len(text))
        masks = [self._match_condition(part) for part in re.split(r"\s+and\s+", text)]
        conditions = [mask for mask in masks if mask is not None]
        if len(conditions) < len(masks):
            return self._match_word(text.lower())
        return np.asarray(np.logical_and.reduce(conditions))

    def _match_condition(self, text: str) -> BoolArray | None:
        named = {name.lower(): f for f in self.space.features for name in (f.name, format_label(f))}
        parts = split_condition(text.lower(), named)
        if parts is None or not parts.value.strip():
            return None
        feature = named[parts.name]
        return self._select_rows(feature, _flag_admitted_codes(feature, parts.operator, parts.value.strip()))

    def _match_word(self, word: str) -> BoolArray:
        mask = np.zeros(len(self.outcomes), dtype=np.bool_)
        for feature in self.space.features:
            admitted = [_matches_word(value, word) for value in _list_domain(feature)]
            if any(admitted):
                mask |= self._select_rows(feature, admitted)
        return mask

    def _select_rows(self, feature: Feature, admitted: list[bool]) -> BoolArray:
        return np.asarray(np.array(admitted, dtype=np.bool_)[self.codes.columns[self.space.index(feature.name)]])


def _list_domain(feature: Feature) -> list[Value]:
    return [feature.value(code) for code in range(feature.size)]


def _matches_word(value: Value, word: str) -> bool:
    """A text that has the word in it, or a number that is it."""
    return word in value.lower() if isinstance(value, str) else format_value(value, "unquoted").lower() == word


def _flag_admitted_codes(feature: Feature, operator: str, text: str) -> list[bool]:
    """Which codes a condition admits; its value is in lower case."""
    text = text.strip("'\"")
    values = _list_domain(feature)
    matches = [format_value(value, "unquoted").lower() == text for value in values]
    if operator in ("==", "!="):
        return [match == (operator == "==") for match in matches]
    bound = values[matches.index(True)] if True in matches else parse_value(feature, text)
    low, high = find_code_range(feature, operator, bound)
    return [low <= code <= high for code in range(feature.size)]


class SavedSearches:
    """Texts that were searched for and the rows found, under random names; the least recently used are dropped."""

    def __init__(self, max_searches: int) -> None:
        self._lock = threading.Lock()
        self._searches: LRUCache[str, tuple[str, int, UInt8Array]] = LRUCache(max_searches)

    def save(self, text: str, mask: BoolArray) -> str:
        """Save the rows found; gives their name."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._searches[name] = (text, len(mask), np.packbits(mask))
        return name

    def find(self, name: str) -> tuple[str, BoolArray]:
        """The text and the rows of a search; raises a 404 if it is unknown or was dropped."""
        with self._lock:
            found = self._searches.get(name)
        if found is None:
            raise build_not_found_error(f"search {format_brief(name)}", "old searches are dropped: search again")
        text, count, bits = found
        return text, np.unpackbits(bits, count=count).astype(np.bool_)
