"""Reports of many explanations in one file: a letter each for the persons, one account for the validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ironrule.counting import counted
from ironrule.errors import InputError
from ironrule.explain import Explanation
from ironrule.report.person import person_body
from ironrule.report.pictures.layouts import overview_drawing
from ironrule.report.pictures.overview import overview_of
from ironrule.report.pieces import facts, picture, section, table
from ironrule.report.text import verdict_word
from ironrule.report.validator import search_facts
from ironrule.report.words import Words


def names_of(explanations: Sequence[Explanation], names: Sequence[str] | None) -> tuple[str, ...]:
    """What every explanation is called; numbers where no names are given."""
    if names is None:
        return tuple(str(place) for place in range(1, len(explanations) + 1))
    if len(names) != len(explanations):
        raise InputError(
            expected=f"names must have {counted(len(explanations), 'name')}, one for each explanation", got=len(names)
        )
    return tuple(map(str, names))


def letters_body(explanations: Sequence[Explanation], names: Sequence[str]) -> str:
    """One letter after the other, each on a page of its own in print."""
    return "\n".join(
        f'<article class="letter"><p class="small">{escape(name)}</p>{person_body(explanation)}</article>'
        for explanation, name in zip(explanations, names, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """What the account says of one explanation, which may be long: its line, and what it shares with others."""

    line: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]
    stopped: bool


def account_body(explanations: Sequence[Explanation], names: Sequence[str], words: Words | None = None) -> str:
    """The overview, the scope, and a line for every explanation."""
    entries = [_entry(name, one) for name, one in zip(names, explanations, strict=True)]
    head = ("", "rule", "verdict", "components", "past rows")
    return (
        f"<h1>{counted(len(entries), 'explanation')}</h1>\n"
        f"{picture(overview_drawing(overview_of(explanations, words)))}"
        f"{section('Scope', facts(_scope(entries, explanations[0])))}"
        f"{section('All of them', table(head, [entry.line for entry in entries]))}"
    )


def _entry(name: str, one: Explanation) -> Entry:
    rule = " and ".join(one.rule.conditions) or "everyone"
    length = f"{one.cardinality}{', shortest' if one.minimum else ''}"
    shared = (
        ("Model (SHA-256)", one.model or "not recorded"),
        ("Space (SHA-256)", one.space),
        ("Algorithm", one.statistics.algorithm),
        ("Seed", str(one.statistics.seed)),
    )
    line = (name, rule, verdict_word(one.verdict), length, f"{one.coverage:,}")
    return Entry(line, shared, one.statistics.stopped is not None)


def _scope(entries: Sequence[Entry], first: Explanation) -> list[tuple[str, str]]:
    columns = zip(*(entry.shared for entry in entries), strict=True)
    shared = [(column[0][0], _each([value for _, value in column])) for column in columns]
    made = dict(search_facts(first))
    return [
        *shared,
        ("Stopped early", f"{sum(entry.stopped for entry in entries):,}"),
        ("Made with", made["Made with"]),
        ("Report by", made["Report by"].replace("explanation", "explanations")),
    ]


def _each(texts: Sequence[str]) -> str:
    counted = Counter(texts)
    if len(counted) == 1:
        return texts[0]
    return "; ".join(f"{text} ({number:,})" for text, number in counted.most_common(8))
