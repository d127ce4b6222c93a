"""Many explanations at once: what share is proven, how long the rules are, and which features carry them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ironrule.errors import InputError
from ironrule.explain import Explanation
from ironrule.report.pictures.looks import LOOKS, Look, look_of
from ironrule.report.words import Words

MOST_FEATURES = 15

T = TypeVar("T")

Split = tuple[tuple[Look, int], ...]
"""How many rules have each verdict; verdicts that do not occur are left out."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A batch in numbers, each split by verdict."""

    count: int
    verdicts: Split
    shortest: int  # rules that are proven to hold and proven to be the shortest
    lengths: tuple[tuple[int, Split], ...]  # by number of components
    features: tuple[tuple[str, Split], ...]  # most used first
    left_out: int  # features that are used, but not among those


def overview_of(explanations: Sequence[Explanation], words: Words | None = None) -> Overview:
    """The batch in numbers; raises InputError if there is no explanation in it."""
    if not explanations:
        raise InputError("an overview must have at least one explanation, but none came")
    words = words or Words.of(explanations[0])
    by_length = Counter((one.cardinality, look_of(one.verdict).word) for one in explanations)
    by_feature = Counter((name, look_of(one.verdict).word) for one in explanations for name in one.rule.features)
    used = Counter(name for one in explanations for name in one.rule.features)
    ranked = sorted(used, key=lambda name: (-used[name], name))
    longest = max(length for length, _ in by_length)
    return Overview(
        len(explanations),
        _split(Counter(look_of(one.verdict).word for one in explanations)),
        sum(one.minimum for one in explanations),
        tuple((length, _part(by_length, length)) for length in range(_shortest(by_length), longest + 1)),
        tuple((words.label(name), _part(by_feature, name)) for name in ranked[:MOST_FEATURES]),
        len(ranked[MOST_FEATURES:]),
    )


def _shortest(by_length: Counter[tuple[int, str]]) -> int:
    return min(length for length, _ in by_length)


def _part(counted: Mapping[tuple[T, str], int], key: T) -> Split:
    return _split(Counter({word: number for (own, word), number in counted.items() if own == key}))


def _split(counted: Counter[str]) -> Split:
    return tuple((look, counted[look.word]) for look in LOOKS if counted[look.word])
