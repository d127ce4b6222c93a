"""Many explanations at once: what share is proven, how long the rules are, and which features carry them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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


def overview_of(explanations: Iterable[Explanation], words: Words | None = None) -> Overview:
    """The batch in numbers, read once; raises InputError if there is no explanation in it."""
    by_length: Counter[tuple[int, str]] = Counter()
    by_feature: Counter[tuple[str, str]] = Counter()
    verdicts: Counter[str] = Counter()
    shortest = 0
    for one in explanations:
        words, word = words or Words.of(one), look_of(one.verdict).word
        verdicts[word] += 1
        by_length[one.cardinality, word] += 1
        by_feature.update((name, word) for name in one.rule.features)
        shortest += one.minimum
    if words is None or not verdicts:
        raise InputError(expected="an overview needs at least one explanation", got="none")
    features, left_out = _most_used(by_feature, words)
    lengths = range(min(by_length)[0], max(by_length)[0] + 1)
    spread = tuple((length, _part(by_length, length)) for length in lengths)
    return Overview(verdicts.total(), _split(verdicts), shortest, spread, features, left_out)


def _most_used(by_feature: Counter[tuple[str, str]], words: Words) -> tuple[tuple[tuple[str, Split], ...], int]:
    """The features that most rules name, and how many others there are."""
    used: Counter[str] = Counter()
    for (name, _), number in by_feature.items():
        used[name] += number
    ranked = sorted(used, key=lambda name: (-used[name], name))
    shown = tuple((words.label(name), _part(by_feature, name)) for name in ranked[:MOST_FEATURES])
    return shown, len(ranked[MOST_FEATURES:])


def _part(counted: Mapping[tuple[T, str], int], key: T) -> Split:
    return _split(Counter({word: number for (own, word), number in counted.items() if own == key}))


def _split(counted: Counter[str]) -> Split:
    return tuple((look, counted[look.word]) for look in LOOKS if counted[look.word])
