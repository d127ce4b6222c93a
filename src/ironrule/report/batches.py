"""Reports of many explanations in one file: a letter each for the persons, one account for the validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from ironrule.errors import InputError
from ironrule.explain import Explanation
from ironrule.report.person import person_body
from ironrule.report.pictures.layouts import overview_drawing
from ironrule.report.pictures.overview import overview_of
from ironrule.report.pieces import facts, picture, section, table
from ironrule.report.text import verdict_word
from ironrule.report.validator import search_facts


def names_of(explanations: Sequence[Explanation], names: Sequence[str] | None) -> tuple[str, ...]:
    """What every explanation is called; numbers where no names came."""
    if names is None:
        return tuple(str(place) for place in range(1, len(explanations) + 1))
    if len(names) != len(explanations):
        raise InputError(f"every explanation must have a name, but {len(names)} came for {len(explanations)}")
    return tuple(map(str, names))


def letters_body(explanations: Sequence[Explanation], names: Sequence[str]) -> str:
    """One letter after the other, each on a page of its own in print."""
    return "\n".join(
        f'<article class="letter"><p class="small">{escape(name)}</p>{person_body(explanation)}</article>'
        for explanation, name in zip(explanations, names, strict=True)
    )


def account_body(explanations: Sequence[Explanation], names: Sequence[str]) -> str:
    """The overview, the scope, and a line for every explanation."""
    return (
        f"<h1>{len(explanations):,} explanations</h1>\n{picture(overview_drawing(overview_of(explanations)))}"
        f"{section('Scope', facts(_scope(explanations)))}{section('All of them', _lines(explanations, names))}"
    )


def _scope(explanations: Sequence[Explanation]) -> list[tuple[str, str]]:
    made = dict(search_facts(explanations[0]))
    return [
        ("Model (SHA-256)", _each(one.model or "not recorded" for one in explanations)),
        ("Space (SHA-256)", _each(one.space for one in explanations)),
        ("Algorithm", _each(one.statistics.algorithm for one in explanations)),
        ("Seed", _each(str(one.statistics.seed) for one in explanations)),
        ("Stopped early", f"{sum(one.statistics.stopped is not None for one in explanations):,}"),
        ("Made with", made["Made with"]),
        ("Report by", made["Report by"].replace("explanation", "explanations")),
    ]


def _each(texts: Iterable[str]) -> str:
    counted = Counter(texts)
    if len(counted) == 1:
        return next(iter(counted))
    return "; ".join(f"{text} ({number:,})" for text, number in counted.most_common(8))


def _lines(explanations: Sequence[Explanation], names: Sequence[str]) -> str:
    rows = [
        (
            name,
            " and ".join(one.rule.conditions) or "everyone",
            verdict_word(one.verdict),
            f"{one.cardinality}{', shortest' if one.minimum else ''}",
            f"{one.coverage:,}",
        )
        for name, one in zip(names, explanations, strict=True)
    ]
    return table(("", "rule", "verdict", "components", "past rows"), rows)
