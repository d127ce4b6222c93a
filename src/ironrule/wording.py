"""Numbers, values and conditions as text for people: messages, rules, reports, the command line and the web pages.

Everything here takes plain Python values and imports nothing else of the package but how errors are written, so that
every layer can use it. One function per question: how a counted noun is written, how a value is quoted, how a share is
rounded. A share in a claim is always rounded to the safe side: what is promised is never rounded up, what can go wrong
never down.

Names and values come from data files, models and documents, and may hold anything. Wherever they become text here, and
wherever text is put together from them (``join_lines``), control characters are shown as escapes.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from html import escape as escape_markup
from typing import Any, Literal

from ironrule.errors import (
    escape_controls as escape_controls,  # offered here to all layers
    shorten,
)

ValueStyle = Literal["quoted", "unquoted", "letter"]


def format_first(count: int) -> str:
    """The first, or so many of the first."""
    return "the first" if count == 1 else f"the first {count}"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun; ``plural`` is the noun with an s unless it is given.

    >>> format_count(1, "row"), format_count(1200, "row"), format_count(2, "rule is", "rules are")
    ('1 row', '1,200 rows', '2 rules are')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


MAX_FLOAT_DIGITS = 300  # of whole numbers that are shown as floating-point numbers


def format_size(number: int, digits: int = 3) -> str:
    """The size of a space: a few digits, or the power of ten below it where it is beyond all floating-point numbers.

    >>> [format_size(number) for number in (6, 123_456, 12**50, 7 * 10**412)]
    ['6', '1.23e+05', '9.1e+53', '10^412']
    """
    power = int(number.bit_length() * math.log10(2.0)) - 1  # at most two too small
    if power < MAX_FLOAT_DIGITS:
        return f"{number:.{digits}g}"
    while 10 ** (power + 1) <= number:
        power += 1
    return f"10^{power}"


def format_number(number: int | Fraction) -> str:
    """An exact number for people: with a decimal point where that is exact and short, else as p/q.

    >>> [format_number(number) for number in (Fraction(3, 10), Fraction(1, 3), 12, Fraction(1, 2 * 10**9))]
    ['0.3', '1/3', '12', '5e-10']
    """
    if isinstance(number, int):
        return str(number)
    near = f"{float(number):.15g}"
    return near if Fraction(near) == number else format_ratio(number)


def format_names(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are.

    >>> format_names(("age", "job")), format_names(("a", "b", "c"), most=1)
    ('age, job', 'a and 2 more')
    """
    more = len(names) - most
    return escape_controls(", ".join(names[:most])) + (f" and {more:,} more" if more > 0 else "")


def join_lines(lines: Iterable[str]) -> str:
    """Lines that are one line each, whatever is in them.

    >>> join_lines(["rule: a", "verdict: un\\x1b[2Kproven\\nproven"])
    'rule: a\\nverdict: un\\\\x1b[2Kproven\\\\nproven'
    """
    return "\n".join(map(escape_controls, lines))


def format_ratio(number: Fraction) -> str:
    """A fraction as p/q."""
    return f"{number.numerator}/{number.denominator}"


def format_value(value: object, style: ValueStyle = "quoted") -> str:
    """A value as a person reads it. ``style`` says where: ``quoted`` in the text of a rule, which can be parsed again;
    ``unquoted`` on a web page, as one would type it there; ``letter`` in reports and plots, for readers who know no
    programs.

    >>> format_value(1250.0), format_value("own house"), format_value(0.25), format_value(None)
    ('1250', "'own house'", '0.25', 'missing')
    >>> format_value("own house", "unquoted"), format_value(True, "unquoted"), format_value(None, "unquoted")
    ('own house', 'True', 'missing')
    >>> format_value("own house", "letter"), format_value(True, "letter"), format_value(None, "letter")
    ('own house', 'yes', 'not given')
    """
    letter = style == "letter"
    if value is None:
        return "not given" if letter else "missing"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" " if letter else "T")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if letter and isinstance(value, bool):
        return "yes" if value else "no"
    # Without its quotation marks a blank text could not be seen in a letter.
    bare = (isinstance(value, str) and style == "unquoted") or (letter and str(value).strip())
    return escape_controls(str(value)) if bare else repr(value)


def format_percent(share: float, digits: int = 0) -> str:
    """A share that was counted, in percent, rounded to the nearest; what a claim says is rounded down or up, below.

    >>> format_percent(0.261), format_percent(0.2611, digits=1), format_percent(1.0, digits=1)
    ('26%', '26.1%', '100.0%')
    """
    return f"{100.0 * share:.{digits}f}%"


def format_percent_down(share: float) -> str:
    """A share in percent, never rounded up.

    >>> format_percent_down(0.99989), format_percent_down(0.95)
    ('99.98%', '95%')
    """
    return f"{math.floor(share * 1e4 + 1e-6) / 100:g}%"


def format_percent_up(share: float) -> str:
    """A share in percent, never rounded down: 0.0001 is not 0 %.

    >>> format_percent_up(0.01561), format_percent_up(0.00001), format_percent_up(1.0)
    ('1.57%', '0.001%', '100%')
    """
    percent = share * 100.0
    if percent >= 0.01:
        return f"{min(100.0, math.ceil(percent * 100.0 - 1e-6) / 100.0):g}%"
    return f"{round_share_up(percent):.2g}%"


def format_resolution(share: float) -> str:
    """How much nearer something else may be, behind a statement that it is the nearest; empty where nothing is.

    >>> "It is the nearest" + format_resolution(0.001) + "."
    'It is the nearest, to within 0.1% of the range of each number.'
    """
    return f", to within {format_percent_up(share)} of the range of each number" if share else ""


def format_cost_resolution(apart: float) -> str:
    """The same where nearest means a cost of the user's own.

    >>> "It is the nearest" + format_cost_resolution(0.0) + "."
    'It is the nearest by the cost asked for.'
    """
    return " by the cost asked for" + (f"; nothing costs less by more than {apart:.2g}" if apart else "")


def round_share_up(share: float) -> float:
    """A share with two digits, never rounded down.

    >>> round_share_up(0.000931), round_share_up(0.5), round_share_up(0.0)
    (0.00094, 0.5, 0.0)
    """
    unit = 10.0 ** (math.floor(math.log10(share)) - 1) if share > 0 else 1.0
    return min(1.0, float(f"{math.ceil(share / unit - 1e-9) * unit:.10g}"))  # without the noise of the product


def round_towards(value: float, limit: float) -> float:
    """The number with the fewest digits between a value and a limit, both included, the nearest to the value.

    >>> round_towards(1.7140000462532043, 1.7), round_towards(0.044999999925494194, 0.05), round_towards(2.5, 2.5)
    (1.7, 0.05, 2.5)
    >>> round_towards(2.3, 2.25)  # although no float is 2.3: the nearest to it is a little less
    2.3
    """
    low, high, written = min(value, limit), max(value, limit), Decimal(repr(float(value)))
    rounding = ROUND_FLOOR if limit < value else ROUND_CEILING
    with localcontext() as context:
        context.prec = 400  # a double has up to 308 digits before the point
        for digits in range(-308, 17):
            rounded = float(written.quantize(Decimal(1).scaleb(-digits), rounding=rounding)) + 0.0  # no negative zero
            if low <= rounded <= high:
                return rounded
    return value


def group_digits(digits: str, decimal: str = ".", thousands: str = ",", grouped: bool = True) -> str:
    """A number that is written with a decimal point, with the signs of a language.

    >>> group_digits("-1234567.25", decimal=",", thousands="."), group_digits("2024.5", grouped=False)
    ('-1.234.567,25', '2024.5')
    """
    whole, point, rest = digits.partition(".")
    if grouped and whole != "-0":
        whole = f"{int(whole):,}".replace(",", thousands)
    return whole + (decimal + rest if point else "")


MAX_REPR_CHARACTERS = 400


def format_repr(value: object) -> str:
    """A result in one line, with its type: what its text says.

    >>> format_repr(Fraction(1, 3))
    '<Fraction: 1/3>'
    """
    text = "; ".join(line.strip() for line in str(value).splitlines() if line.strip())
    return f"<{type(value).__name__}: {shorten(escape_controls(text), MAX_REPR_CHARACTERS)}>"


def format_settings(value: Any) -> str:
    """Settings as the call that makes them, without those that are as usual; fields that repr leaves out are left out.

    >>> from ironrule.verdict.budget import Budget
    >>> format_settings(Budget(seconds=5.0))
    'Budget(seconds=5.0)'
    """
    parts = []
    for one in fields(value):
        given = getattr(value, one.name)
        usual = one.default if one.default_factory is MISSING else one.default_factory()
        if one.init and one.repr and (usual is MISSING or given != usual):
            parts.append(f"{one.name}={given!r}")
    return f"{type(value).__name__}({', '.join(parts)})"


PROVEN_COLOUR, OPEN_COLOUR = "#1b6e3c", "#8a5a00"


def render_text(value: object, verdict: object = None) -> str:
    """A result's text as HTML for a notebook, a paragraph per line; behind a badge, if it has a verdict."""
    lines = str(value).splitlines()
    paragraphs = "".join(f"<p>{escape_markup(escape_controls(line))}</p>" for line in lines)
    badge = "" if verdict is None else _render_badge(type(verdict).__name__.lower())
    return f'<div style="font-family:system-ui,sans-serif;max-width:46em;line-height:1.45">{badge}{paragraphs}</div>'


def _render_badge(word: str) -> str:
    """Filled where something is proven, dashed where not."""
    is_proven = word == "proven"
    ink = (
        "background:{0};color:#fff;border:2px solid {0}"
        if is_proven
        else "background:#fff;color:{0};border:2px dashed {0}"
    )
    style = ink.format(PROVEN_COLOUR if is_proven else OPEN_COLOUR)
    shown = word if word in ("proven", "refuted") else f"{word}, not proven"
    return f'<span style="{style};border-radius:4px;padding:2px 8px">{shown}</span>'


def format_name(name: str) -> str:
    """The name of a column as words.

    >>> format_name("job_kind"), format_name("_")
    ('job kind', '_')
    """
    return escape_controls(" ".join(name.replace("_", " ").split()) or name)
