"""The past rows as a list that can be searched, filtered, sorted and paged, however long it is.

Everything happens on codes: a word is looked up among the values of every domain, which are few, and rows are selected
and sorted by their codes. The rows found are saved as bits under a random name, so that no value ever stands in an
address.
"""

from __future__ import annotations

import difflib
import re
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cachetools import LRUCache

from ironrule.arrays import BoolArray, Float64Array, Int64Array, UInt8Array
from ironrule.errors import InputError
from ironrule.explain.explainer import Explainer
from ironrule.rule.condition import find_code_range
from ironrule.rule.parsing import OPERATOR_PATTERN, ConditionParts, parse_value, split_condition
from ironrule.rule.phrasing import format_label, name_value
from ironrule.server.errors import ApiError, build_not_found_error, format_brief
from ironrule.server.typed_values import read_number
from ironrule.space.codes import EncodedTable
from ironrule.space.feature import Feature, Value
from ironrule.space.labels import Labels
from ironrule.space.space import Space
from ironrule.wording import format_names, format_value

OutcomeFilter = Literal["any", "desired", "undesired"]
SortOrder = Literal["ascending", "descending"]
MAX_SEARCH_LENGTH = 200
FEATURE_PREFIX = "feature:"  # of a sort key, so that a feature may have any name
SORT_WORDS = ("row", "outcome", "score")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which applicants are listed, and in which order. ``sort`` is a row, outcome or score, or ``feature:NAME``."""

    outcome: OutcomeFilter = "any"
    page: int = 1
    size: int = 25
    search: str | None = None
    sort: str = "row"
    order: SortOrder = "ascending"


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

    def select(self, mask: BoolArray | None, outcome: OutcomeFilter) -> Int64Array:
        """The positions of those found who have the outcome, in the order of their rows."""
        chosen = np.ones(len(self.outcomes), dtype=np.bool_) if mask is None else mask
        if outcome != "any":
            chosen = chosen & (self.outcomes == (outcome == "desired"))
        return np.flatnonzero(chosen)

    def get_page(self, mask: BoolArray | None, query: ListQuery, scores: Float64Array | None = None) -> ApplicantPage:
        """One page of those found. ``scores`` are those of all past rows, where the model has any."""
        positions = self._sort(self.select(mask, query.outcome), query, scores)
        total = len(positions)
        pages = max(1, -(-total // query.size))
        page = min(max(1, query.page), pages)
        shown = positions[(page - 1) * query.size : page * query.size]
        return ApplicantPage(self.row_numbers[shown].tolist(), shown.tolist(), total, page, pages)

    def _sort(self, positions: Int64Array, query: ListQuery, scores: Float64Array | None) -> Int64Array:
        """The positions in the order asked for; equal ones, and missing values at the end, by row number."""
        is_descending = query.order == "descending"
        if query.sort == "row":
            return positions[::-1] if is_descending else positions
        if query.sort == "outcome":
            keys: Int64Array | Float64Array = self.outcomes[positions].astype(np.int64)
        elif query.sort == "score":
            if scores is None:
                raise InputError("the model has no scores to sort by", hint="sort by row, outcome or a feature")
            keys = scores[positions]
        elif query.sort.startswith(FEATURE_PREFIX):
            feature = self.space[query.sort.removeprefix(FEATURE_PREFIX)]
            codes = self.codes.columns[self.space.index(feature.name)][positions]
            ranks = _rank_codes(feature, is_descending, self.space.labels)
            return positions[np.argsort(ranks[codes], kind="stable")]
        else:
            expected = f"sort must be {', '.join(SORT_WORDS)} or {FEATURE_PREFIX}NAME"
            raise InputError(expected=expected, got=format_brief(query.sort))
        return positions[np.argsort(-keys if is_descending else keys, kind="stable")]

    def search(self, text: str) -> BoolArray:
        """Who is meant: by conditions such as ``age >= 40 and job = cook``, by words among the values, or by both.

        Raises an ApiError, with the nearest feature, for a condition that names none.
        """
        parts = self.split_search(text)
        return np.asarray(np.logical_and.reduce([self._match_part(part) for part in parts]))

    def split_search(self, text: str) -> list[str]:
        """The conditions and words of a search. A name, and a value, may have an ``and`` in it."""
        text = text.strip()
        if not 1 <= len(text) <= MAX_SEARCH_LENGTH:
            raise InputError(expected=f"a search must have 1 to {MAX_SEARCH_LENGTH} characters", got=len(text))
        pieces = re.split(r"\s+and\s+", text)
        starts = [0, *(place for place in range(1, len(pieces)) if self._begins_condition(pieces, place))]
        ends = [*starts[1:], len(pieces)]
        parts = [" and ".join(pieces[start:end]) for start, end in zip(starts, ends, strict=True)]
        return [one for part in parts for one in self._split_off_words(part)]

    def _split_off_words(self, part: str) -> list[str]:
        """A condition and the words behind its value, unless the feature has a value with all of these words."""
        condition = self._split_condition(part)
        if condition is None or " and " not in condition.value:
            return [part]
        feature = self.space[condition.name]
        known = {text for value in _list_domain(feature) for text in self._list_texts(feature, value)}
        if condition.value.strip("'\"") in known:
            return [part]
        cut = part.lower().rindex(condition.value) + condition.value.index(" and ")
        return [part[:cut], *self._split_off_words(part[cut + len(" and ") :])]

    def suggest_search(self, text: str) -> str | None:
        """The search with the nearest feature in the place of each name that is unknown; None if there is none."""
        parts = []
        for part in self.split_search(text):
            operator = OPERATOR_PATTERN.search(part)
            if operator is None or self._split_condition(part) is not None:
                parts.append(part)
                continue
            near = self.find_near_label(part[: operator.start()])
            if near is None:
                return None
            parts.append(f"{near}{part[operator.start() :]}")
        suggested = " and ".join(parts)
        return None if suggested == text.strip() else suggested

    def _begins_condition(self, pieces: Sequence[str], place: int) -> bool:
        """Whether a condition begins at a piece: with a name that reaches its end, or goes on in the next pieces."""
        if self._split_condition(" and ".join(pieces[place:])) is None:
            return False
        before = self._split_condition(" and ".join(pieces[place - 1 :]))
        return before is None or self._split_condition(pieces[place - 1]) is not None

    def _split_condition(self, text: str) -> ConditionParts | None:
        """The feature's own name, the operator and the value in lower case; None for what is no condition."""
        named = {name.lower(): f.name for f in self.space.features for name in (f.name, format_label(f))}
        parts = split_condition(text.lower(), named)
        return None if parts is None else parts._replace(name=named[parts.name], value=parts.value.strip())

    def _match_part(self, text: str) -> BoolArray:
        parts = self._split_condition(text)
        if parts is None:
            return self._match_word(text)
        feature = self.space[parts.name]
        if not parts.value:
            raise InputError(expected=f"a condition on {format_label(feature)!r} must have a value", got="none")
        return self._select_rows(feature, self._flag_admitted_codes(feature, parts.operator, parts.value))

    def _match_word(self, text: str) -> BoolArray:
        word = text.lower()
        mask, found = np.zeros(len(self.outcomes), dtype=np.bool_), False
        for feature in self.space.features:
            admitted = [self._matches_word(feature, value, word) for value in _list_domain(feature)]
            if any(admitted):
                found, mask = True, mask | self._select_rows(feature, admitted)
        if not found and OPERATOR_PATTERN.search(text):
            raise self._build_search_error(text)
        return mask

    def _build_search_error(self, text: str) -> ApiError:
        """The error for a condition on no feature of this data, with the nearest one."""
        operator = OPERATOR_PATTERN.search(text)
        name = text[: operator.start()].strip() if operator else text
        near = self.find_near_label(name)
        known = format_names([format_label(feature) for feature in self.space.features], most=8)
        hint = f"did you mean {near}?" if near else f"the features are {known}"
        expected = "a condition must begin with the name of a feature"
        return ApiError(422, "search-not-understood", expected=expected, got=format_brief(name), hint=hint)

    def find_near_label(self, name: str) -> str | None:
        """The feature that is most likely meant: one whose name has the text in it, else one that is spelt alike."""
        labels = {format_label(feature).lower(): format_label(feature) for feature in self.space.features}
        labels |= {feature.name.lower(): format_label(feature) for feature in self.space.features}
        wanted = name.lower().strip()
        inside = [label for known, label in labels.items() if len(wanted) > 2 and wanted in known]
        if inside:
            return min(inside, key=len)
        close = difflib.get_close_matches(wanted, labels, n=1, cutoff=0.5)
        if close:
            return labels[close[0]]
        words = {word: label for known, label in labels.items() for word in re.split(r"[\s_]+", known) if len(word) > 2}
        near_word = difflib.get_close_matches(wanted, words, n=1, cutoff=0.7)
        return words[near_word[0]] if near_word else None

    def _list_texts(self, feature: Feature, value: Value) -> tuple[str, str]:
        """A value as it is written and as it is called, in lower case."""
        shown = name_value(feature.name, value, self.space.labels, "unquoted")
        return format_value(value, "unquoted").lower(), shown.lower()

    def _matches_word(self, feature: Feature, value: Value, word: str) -> bool:
        """A text that has the word in it, or a number that is it."""
        written, called = self._list_texts(feature, value)
        is_text = isinstance(value, str) or (written != called and not isinstance(value, (int, float)))
        return word in written or word in called if is_text else word in (written, called)

    def _flag_admitted_codes(self, feature: Feature, operator: str, text: str) -> list[bool]:
        """Which codes a condition admits; its value is in lower case."""
        text = text.strip("'\"")
        values = _list_domain(feature)
        matches = [text in self._list_texts(feature, value) for value in values]
        if operator in ("==", "!="):
            if not any(matches) and not (feature.numeric or feature.temporal):
                raise self._build_unknown_value_error(feature, text)
            return [match == (operator == "==") for match in matches]
        bound = values[matches.index(True)] if True in matches else self._parse_bound(feature, text)
        low, high = find_code_range(feature, operator, bound)
        return [low <= code <= high for code in range(feature.size)]

    def _parse_bound(self, feature: Feature, text: str) -> Value:
        """A bound in the feature's own type; a number may have its unit and signs between thousands."""
        if feature.numeric and feature.values:
            try:
                return read_number(feature, text, self.space.labels)
            except ValueError:
                pass  # what follows says what is expected
        return parse_value(feature, text)

    def _build_unknown_value_error(self, feature: Feature, text: str) -> ApiError:
        """The error for a value that a category never has, with the nearest one."""
        texts = [name_value(feature.name, value, self.space.labels, "unquoted") for value in _list_domain(feature)]
        lower = {one.lower(): one for one in texts}
        inside = [one for one in lower if len(text) > 1 and text in one]
        close = inside or difflib.get_close_matches(text, lower, n=1)
        hint = f"did you mean {lower[close[0]]}?" if close else f"it is {format_names(texts, most=8)}"
        expected = f"{format_label(feature)!r} must be one of its values"
        return ApiError(422, "value-outside-domain", expected=expected, got=format_brief(text), hint=hint)

    def _select_rows(self, feature: Feature, admitted: list[bool]) -> BoolArray:
        return np.asarray(np.array(admitted, dtype=np.bool_)[self.codes.columns[self.space.index(feature.name)]])


def _rank_codes(feature: Feature, is_descending: bool, labels: Labels) -> Int64Array:
    """The place of every code in a sorted list: in the feature's own order, or else by the texts; missing is last."""
    count = len(feature.values)
    if feature.ordered:
        ranks = np.arange(count, dtype=np.int64)
    else:
        texts = [name_value(feature.name, value, labels, "unquoted").lower() for value in feature.values]
        ranks = np.empty(count, dtype=np.int64)
        ranks[sorted(range(count), key=texts.__getitem__)] = np.arange(count)
    ranks = count - 1 - ranks if is_descending else ranks
    return np.append(ranks, count) if feature.missing else ranks


def _list_domain(feature: Feature) -> list[Value]:
    return [feature.value(code) for code in range(feature.size)]


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
