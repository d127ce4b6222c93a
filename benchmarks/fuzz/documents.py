"""Documents altered in every field, with a digest that fits, for the checker.

A path leads to a place in a document; an alteration puts something else there: a number that is one off, another type,
a number that is none, nested lists, a value from elsewhere in the document, or nothing at all. Some alter the text
itself: truncated, names that occur twice, numbers that no float can hold.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.fuzz.statements import false_statements
from benchmarks.fuzz.tally import Tally
from benchmarks.fuzz.world import World

Rng = np.random.Generator
Path = tuple[Any, ...]
NESTED: Any = [[[[[[[[1]]]]]]]]
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, 1e300, 10**400, -(10**30), "", "1", "é\u2028\ud800", "a" * 300, [], {}, [1],
    {"a": 1}, [[]], NESTED, [None], {"date": "2024-13-45"}, {"date": 5}, "proven", "<=", float("nan"), float("inf"),
)  # fmt: skip
DROP = object()


def with_digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the digest that its documentation describes; without a new one where it can have none."""
    rest = {name: value for name, value in document.items() if name != "digest"}
    try:
        text = json.dumps(_whole(rest), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return rest | {"digest": hashlib.sha256(text.encode("ascii")).hexdigest()}
    except (ValueError, OverflowError, RecursionError, TypeError):
        return dict(document)


def _whole(value: Any) -> Any:
    """Whole numbers without a decimal point."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document: fields, entries of lists, and what is inside them."""
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inside:
        yield from paths_of(part, (*path, name))


def read(document: Any, path: Path) -> Any:
    """What stands at a place."""
    for name in path:
        document = document[name]
    return document


def altered(document: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy with something else at a place; with ``DROP`` it is left out. What is not on the way there is shared."""
    made = dict(document)
    inside: Any = made
    for name in path[:-1]:
        part = inside[name]
        if not isinstance(part, (dict, list)):  # something else stands there by now
            return made
        inside[name] = copy.copy(part)
        inside = inside[name]
    if value is DROP:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return made


def draw_alteration(rng: Rng, document: Mapping[str, Any], places: list[Path]) -> dict[str, Any]:
    """A document with one thing altered, now and then two; sensible ones more often than odd ones."""
    made = altered(document, *_change(rng, document, places))
    if rng.random() < 0.25:
        made = altered(made, *_change(rng, made, [path for path in places if _there(made, path)]))
    return made


def _there(document: Any, path: Path) -> bool:
    try:
        read(document, path)
    except (LookupError, TypeError):
        return False
    return True


def _change(rng: Rng, document: Mapping[str, Any], places: list[Path]) -> tuple[Path, Any]:
    path = places[int(rng.integers(0, len(places)))]
    value = read(document, path)
    draw = rng.random()
    if draw < 0.15:
        return path, DROP
    if (
        draw < 0.3
    ):  # something of the same name from elsewhere: a rule's verdict for another's, other values, other codes
        alike = [read(document, other) for other in places if other[-1] == path[-1] and other != path]
        if alike:
            return path, copy.deepcopy(alike[int(rng.integers(0, len(alike)))])
    if draw < 0.8:
        near = _near(rng, value)
        if near is not None:
            return path, near
    return path, copy.deepcopy(ODD[int(rng.integers(0, len(ODD)))])


def _near(rng: Rng, value: Any) -> Any:
    """Something that could stand there as well; None if nothing comes to mind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + int(rng.choice([-2, -1, 1, 2]))
    if isinstance(value, float):
        steps = (
            value + 1,
            value - 1,
            value * 2,
            -value,
            float(np.nextafter(value, np.inf)),
            value / 2,
            round(value) if math.isfinite(value) else 0,
        )
        return steps[int(rng.integers(0, len(steps)))]
    if isinstance(value, str):
        return {"<=": ">=", ">=": "<=", "==": "<="}.get(value, value[::-1] if rng.random() < 0.5 else value + " ")
    if isinstance(value, list) and value:
        kinds = ("shorter", "longer", "turned", "empty", "swapped")
        kind = kinds[int(rng.integers(0, len(kinds)))]
        place = int(rng.integers(0, len(value)))
        if kind == "swapped" and len(value) > 1:
            other = [*value]
            other[place], other[place - 1] = other[place - 1], other[place]
            return other
        return {
            "shorter": value[:place] + value[place + 1 :],
            "longer": [*value, copy.deepcopy(value[place])],
            "turned": value[::-1],
        }.get(kind, [])
    return None


def draw_text(rng: Rng, document: Mapping[str, Any]) -> str | bytes:
    """A text that is nearly the document's JSON."""
    text = json.dumps(document)
    kind = int(rng.integers(0, 7))
    if kind == 0:
        return text[: int(rng.integers(0, len(text)))]
    if kind == 1:
        return text[:-1] + ', "weight": 0}'
    if kind == 2:
        return '{"lower_bound": 99, ' + text[1:]
    if kind == 3:
        depth = int(rng.choice([50, 700, 5000, 100_000]))
        return text.replace('"operator_seconds": {', '"operator_seconds": {"a": ' + "[" * depth + "]" * depth + ", ", 1)
    if kind == 4:
        number = str(rng.choice(["1e999", "-1e999", "NaN", "Infinity", "1" * 5000, "1e400", "-0.0", "1E5"]))
        return (
            text.replace('"weight": ', f'"weight": {number}, "x": ', 1)
            if rng.random() < 0.3
            else _number(rng, text, number)
        )
    if kind == 5:
        return text.encode()[: len(text) // 2] + b"\xff\xfe" + text.encode()[len(text) // 2 :]
    return text.replace('"', "'", int(rng.integers(1, 5))) if rng.random() < 0.5 else "[" + text + "]"


def _number(rng: Rng, text: str, number: str) -> str:
    """The text with one of its numbers replaced."""
    import re

    spots = list(re.finditer(r"(?<=[:\[ ,])-?\d+(\.\d+)?(?=[,\]}])", text))
    spot = spots[int(rng.integers(0, len(spots)))]
    return text[: spot.start()] + number + text[spot.end() :]


def targeted(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Alterations that claim more than is true, if anything does: a shorter rule, a wider bound, a higher bound."""
    components = document["rules"][0]["rule"]["components"]
    for place in range(len(components)):
        rest = components[:place] + components[place + 1 :]
        made = altered(document, ("rules", 0, "rule", "components"), rest)
        yield made
        made = copy.deepcopy(made)
        made["weight"] = len(rest)
        made["lower_bound"] = min(int(Fraction(made["lower_bound"])), len(rest))
        made["wider"], made["wider_is_maximal"], made["wider_witnesses"] = None, False, []
        yield made
        kind = made["rules"][0]["verdict"].get("certificate")
        if kind is not None:  # a certificate of the larger box with a single piece
            certificate = copy.deepcopy(kind)
            certificate["low"] = [0] * len(certificate["low"])
            certificate["covers"] = [{"splits": [], "tree": [-1]} for _ in certificate.get("covers", [])]
            certificate["pieces" if kind["method"] == "cover" else "points"] = len(certificate["covers"])
            yield altered(made, ("rules", 0, "verdict", "certificate"), certificate)
    yield altered(document, ("lower_bound",), int(Fraction(document["lower_bound"])) + 1)
    yield altered(altered(document, ("witnesses",), []), ("lower_bound",), document["weight"])
    yield altered(document, ("decision", "threshold"), 1e6)
    yield altered(document, ("decision", "margin"), 0.9)
    yield altered(document, ("restrictions", "forbid"), [component["feature"] for component in components])


def judge_altered(rng: Rng, checker: Any, original: Mapping[str, Any], world: World, count: int, tally: Tally) -> None:
    """Give the checker altered documents: it may refuse them, and must call none proven that says anything false."""
    places = list(paths_of(original))
    documents: list[Any] = list(targeted(original))[:count]
    while len(documents) < count:
        if rng.random() < 0.08:
            documents.append(draw_text(rng, original))
        else:
            documents.append(draw_alteration(rng, original, places))
    for document in documents:
        fitting = with_digest(document) if isinstance(document, dict) else document
        judge_document(checker, fitting, original, world, tally)


def judge_document(checker: Any, document: Any, original: Mapping[str, Any], world: World, tally: Tally) -> None:
    """One altered document, as data or as text."""
    import ironrule

    try:
        found = checker.check(document)
    except ironrule.IronruleError:
        tally.record("altered document", None)
        tally.note("altered: refused")
        return
    except Exception as error:  # the claim is that there is no other
        kind = type(error).__name__
        tally.record("altered document: error", f"{kind}: {str(error)[:200]} for {_shortened(document, original)}")
        return
    tally.note(f"altered: {found.status}")
    if found.status != "proven":
        tally.record("altered document", None)
        return
    data = json.loads(document) if isinstance(document, (str, bytes)) else document
    wrong = false_statements(data, original, world)
    text = f"proven, but {wrong[:3]}; altered: {_shortened(document, original)}" if wrong else None
    tally.record("altered document", text)


def _shortened(document: Any, original: Mapping[str, Any]) -> str:
    """Where a document differs from the original, for a report."""
    if not isinstance(document, dict):
        return f"{document[:100]!r} ... ({len(document)} characters)"
    names = [name for name in {**document, **original} if name != "digest"]
    there = {name: document.get(name, "(none)") for name in names if document.get(name, DROP) is not original.get(name)}
    return repr({name: value for name, value in there.items() if value != original.get(name)})[:600]
