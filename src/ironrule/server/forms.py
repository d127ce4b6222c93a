"""What comes from the forms of the pages: plain key=value bodies, read without any help."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args
from urllib.parse import parse_qs

from fastapi import Request

from ironrule.errors import InputError
from ironrule.server.answering import Question, Recourse, RecourseAlgorithm
from ironrule.server.bodies import Algorithm
from ironrule.server.problem import brief
from ironrule.server.whatif import typed
from ironrule.space import Space

MOST_FIELDS = 2000
Fields = Mapping[str, Sequence[str]]


async def fields_of(request: Request) -> Fields:
    """The fields of a form."""
    try:
        return parse_qs((await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:  # no UTF-8, or too many fields
        raise InputError(f"the form is not UTF-8 or has more than {MOST_FIELDS:,} fields") from None


def one(fields: Fields, name: str, default: str = "") -> str:
    """A field that comes once."""
    return fields.get(name, [default])[-1].strip()


def question_of(fields: Fields, row: int) -> Question:
    """How to explain."""
    algorithm = one(fields, "algorithm", "auto")
    if algorithm not in get_args(Algorithm):
        raise _unknown(algorithm, get_args(Algorithm))
    return Question(
        row,
        algorithm,
        seconds=_seconds(one(fields, "seconds")),
        require=tuple(fields.get("require", ())),
        forbid=tuple(fields.get("forbid", ())),
        where=_lines(one(fields, "where")),
        widen=one(fields, "plain") != "yes",
    )


def recourse_of(fields: Fields, row: int) -> Recourse:
    """What may change."""
    fixed = set(fields.get("fixed", ()))
    vary = tuple(name for name in fields.get("feature", ()) if name not in fixed)
    algorithm = one(fields, "algorithm", "auto")
    if algorithm not in get_args(RecourseAlgorithm):
        raise _unknown(algorithm, get_args(RecourseAlgorithm))
    return Recourse(
        row,
        algorithm=cast(RecourseAlgorithm, algorithm),
        features_to_vary=vary if fixed else "all",
        constraints=_lines(one(fields, "constraints")),
        seconds=_seconds(one(fields, "seconds")),
    )


def changes_of(fields: Fields, space: Space) -> dict[str, Any]:
    """The values of the what-if form, one field per feature: its position."""
    given = {f"f{place}": feature for place, feature in enumerate(space.features)}
    return {given[name].name: typed(given[name], one(fields, name)) for name in fields if name in given}


def document_of(fields: Fields) -> Any:
    """An explanation that was pasted."""
    try:
        return json.loads(one(fields, "explanation"))
    except (ValueError, RecursionError):
        pasted = brief(one(fields, "explanation"))
        raise InputError(expected="an explanation must be JSON", got=pasted, hint="paste the whole file") from None


def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text that have something in them."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _unknown(algorithm: str, known: Sequence[str]) -> InputError:
    return InputError(
        expected=f"the algorithm must be one of {', '.join(known)}", got=brief(algorithm), code="unknown-algorithm"
    )


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        raise InputError(expected="seconds must be a number", got=brief(text)) from None
    if not 0 < seconds < float("inf"):
        raise InputError(expected="seconds must be a positive number", got=brief(text))
    return seconds
