"""The past rows as a list that can be searched, filtered and paged, however long it is.

Everything happens on codes: a word is looked for among the values of every domain, which are few, and a row is found by
looking its code up. What was found is kept as bits under a random name, so that no value ever stands in an address.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError
from ironrule.explain import Explainer
from ironrule.server.problem import brief, missing
from ironrule.server.subject import name_of, text_of
from ironrule.space import Codes, Feature, Space, Value

Mask = npt.NDArray[np.bool_]
Outcome = Literal["any", "desired", "undesired"]
CONDITION = re.compile(r"\s*(?P<name>.+?)\s*(?P<relation><=|>=|!=|=|<|>)\s*(?P<value>.+?)\s*")
MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of applicants: their row numbers, their places among the past rows, and how many there are in all."""

    numbers: list[int]
    places: list[int]
    total: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class Applicants:
    """The past rows of an explainer."""

    space: Space
    codes: Codes
    outcomes: Mask
    numbers: npt.NDArray[np.int64]

    @classmethod
    def of(cls, explainer: Explainer) -> Applicants:
        """All past rows that the explainer knows."""
        return cls(explainer.space, explainer.codes, explainer.outcomes, explainer.numbers)

    def place(self, number: int) -> int:
        """Where a row number is among the past rows; raises a 404 for an unknown one."""
        place = int(np.searchsorted(self.numbers, number)) if 0 <= number < 1 << 62 else len(self.numbers)
        if place == len(self.numbers) or self.numbers[place] != number:
            raise missing(f"applicant {brief(number)}")
        return place

    def values(self, place: int) -> dict[str, Value]:
        """One past row in the user's terms."""
        return self.space.decode_row(self.codes.row(place))

    def listed(self, mask: Mask | None, outcome: Outcome, page: int, size: int) -> Listed:
        """One page of those found who have the outcome."""
        chosen = np.ones(len(self.outcomes), dtype=np.bool_) if mask is None else mask
        if outcome != "any":
            chosen = chosen & (self.outcomes == (outcome == "desired"))
        total = int(np.count_nonzero(chosen))
        pages = max(1, -(-total // size))
        page = min(max(1, page), pages)
        places = np.flatnonzero(chosen)[(page - 1) * size : page * size]
        return Listed(self.numbers[places].tolist(), places.tolist(), total, page, pages)

    def search(self, text: str) -> Mask:
        """Who is meant: by conditions such as ``age >= 40 and job = cook``, or by a word among the values."""
        text = text.strip()
        if not 1 <= len(text) <= MOST_TEXT:
            raise InputError(expected=f"a search must have 1 to {MOST_TEXT} characters", got=len(text))
        conditions = [self._condition(part) for part in re.split(r"\s+and\s+", text)]
        found = [one for one in conditions if one is not None]
        if len(found) < len(conditions):
            return self._among(text.lower())
        return np.asarray(np.logical_and.reduce(found))

    def _condition(self, text: str) -> Mask | None:
        match = CONDITION.fullmatch(text)
        named = {name.lower(): f for f in self.space.features for name in (f.name, name_of(f))}
        if match is None or match["name"].lower() not in named:
            return None
        feature = named[match["name"].lower()]
        return self._rows(feature, _admitted(feature, match["relation"], match["value"]))

    def _among(self, word: str) -> Mask:
        mask = np.zeros(len(self.outcomes), dtype=np.bool_)
        for feature in self.space.features:
            admitted = [_fits(value, word) for value in _domain(feature)]
            if any(admitted):
                mask |= self._rows(feature, admitted)
        return mask

    def _rows(self, feature: Feature, admitted: list[bool]) -> Mask:
        return np.asarray(np.array(admitted, dtype=np.bool_)[self.codes.columns[self.space.index(feature.name)]])


def _domain(feature: Feature) -> list[Value]:
    return [feature.value(code) for code in range(feature.size)]


def _fits(value: Value, word: str) -> bool:
    """A text that has the word in it, or a number that is it."""
    return word in value.lower() if isinstance(value, str) else text_of(value).lower() == word


def _admitted(feature: Feature, relation: str, text: str) -> list[bool]:
    """Which codes a condition admits."""
    wanted = text.strip("'\"").lower()
    if relation in ("=", "!="):
        equal = [text_of(value).lower() == wanted for value in _domain(feature)]
        return equal if relation == "=" else [not one for one in equal]
    if not feature.ordered:
        raise InputError(expected=f"{feature.name!r} has no order and must be searched with = or !=", got=relation)
    bound = _bound(feature, wanted)
    compare = {"<=": np.less_equal, "<": np.less, ">=": np.greater_equal, ">": np.greater}[relation]
    keys = feature.values if feature.numeric else range(len(feature.values))
    inside = [bool(one) for one in compare(np.array(keys, dtype=float), bound)]
    return [*inside, False] if feature.missing else inside


def _bound(feature: Feature, wanted: str) -> float:
    """A number, or the place in the order of a value that is none."""
    texts = [text_of(value).lower() for value in feature.values]
    if not feature.numeric and wanted in texts:
        return float(texts.index(wanted))
    try:
        if feature.numeric:
            return float(wanted)
    except ValueError:
        pass
    raise InputError(expected=f"{feature.name!r} must be compared with {feature.describe()}", got=brief(wanted))


class Searches:
    """What was found, under random names; the oldest are forgotten."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[str, tuple[str, int, npt.NDArray[np.uint8]]] = OrderedDict()

    def keep(self, text: str, mask: Mask) -> str:
        """Keep what was found; gives its name."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._kept[name] = (text, len(mask), np.packbits(mask))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return name

    def find(self, name: str) -> tuple[str, Mask]:
        """The text and the rows of a search; raises a 404 if it is unknown or was dropped."""
        with self._lock:
            if name not in self._kept:
                raise missing(f"search {brief(name)}", "old searches are dropped: search again")
            self._kept.move_to_end(name)
            text, count, bits = self._kept[name]
        return text, np.unpackbits(bits, count=count).astype(np.bool_)
