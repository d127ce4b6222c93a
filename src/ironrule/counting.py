"""Numbers with what they count, in the singular where there is one of it."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun; ``plural`` is the noun with an s unless it is given.

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "rule is", "rules are")
    ('1 row', '1,200 rows', '2 rules are')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
