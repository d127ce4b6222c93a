"""Roles: what may be done with a feature when changes are suggested to a person.

A role is declared once per feature, in a space file or in Python. It is turned into constraints on what a
counterfactual may change, in the language of ``constraints/``, and :func:`build_role_constraints` is the only place
where that happens: whatever searches for changes gets these constraints.

Where nothing is declared, a role is guessed from the words in a feature's name and label (:class:`RoleGuesses`). A
guess limits what an explanation suggests, and is shown as a suggestion by ``ironrule inspect``; it never limits what
somebody asks for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ironrule.errors import InputError, SpaceError, describe_value
from ironrule.wording import format_settings

RoleKind = Literal["actionable", "immutable", "protected"]
Direction = Literal["rise", "fall"]
HigherIs = Literal["better", "worse"]

ROLE_KINDS: tuple[RoleKind, ...] = ("actionable", "immutable", "protected")
ROLE_KEYS = ("role", "direction", "higher_is", "minimum_step")  # of a feature in a space file
STEP_TOLERANCE = 1e-6  # the share of a step that rounding may take: 0.1 + 0.2 is more than 0.3

PROTECTED_NAMES = (
    "sex", "gender", "race", "racial", "ethnic", "ethnicity", "ethnic group", "skin color", "skin colour", "caste",
    "tribe", "religion", "religious", "faith", "nationality", "national origin", "citizenship", "citizen",
    "native country", "country of birth", "birth country", "country of origin", "foreign worker", "foreigner",
    "immigrant", "immigration",
    "marital", "marital status", "married", "relationship", "personal status", "pregnant", "pregnancy", "disability",
    "disabled", "sexual orientation", "political", "veteran",
)  # fmt: skip
"""Words and phrases in the name or label of a feature that looks protected."""

IMMUTABLE_NAMES = (
    "age", "birth", "born", "birthday", "birthdate", "birthplace", "birth place", "date of birth", "year of birth",
    "dob", "native", "parents", "mother", "father",
)  # fmt: skip
"""Words and phrases in the name or label of a feature that looks as if nobody could change it."""


@dataclass(frozen=True, slots=True)
class Role:
    """What may be done with a feature.

    ``kind``: ``actionable`` (may be changed), ``immutable`` (cannot be changed) or ``protected`` (no advice may change
    it, and a rule that uses it is marked). ``direction``: it may only "rise" or only "fall". ``higher_is``: whether a
    higher value is "better" or "worse" for the applicant; changes for the worse are not permitted, and a rule that
    holds against somebody what is better for him is marked. ``minimum_step``: smaller changes are not permitted.

    >>> Role(direction="rise", minimum_step=50).moves
    ('rise',)
    """

    kind: RoleKind = "actionable"
    direction: Direction | None = None
    higher_is: HigherIs | None = None
    minimum_step: int | float | None = None

    def __repr__(self) -> str:
        return format_settings(self)

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("role", self.kind, ROLE_KINDS),
            ("direction", self.direction, (None, "rise", "fall")),
            ("higher_is", self.higher_is, (None, "better", "worse")),
        ):
            if value not in allowed:
                names = " or ".join(repr(one) for one in allowed if one is not None)
                raise SpaceError(expected=f"{name} must be {names}", got=describe_value(value), code="unknown-role")
        step = self.minimum_step
        if step is not None and (
            isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < math.inf
        ):
            raise SpaceError(
                expected="minimum_step must be a positive number", got=describe_value(step), code="unknown-role"
            )
        limits = [name for name in ("direction", "minimum_step") if getattr(self, name) is not None]
        if self.kind != "actionable" and limits:
            raise SpaceError(
                expected=f"a feature that is {self.kind} never changes, so it can have no {' and no '.join(limits)}",
                got=describe_value(self),
                hint="leave one of them out",
                code="contradictory-role",
            )

    @property
    def moves(self) -> tuple[Direction, ...]:
        """In which directions it may move; () if it may not change. A nominal feature that may change has both."""
        if self.kind != "actionable":
            return ()
        better = {"better": "rise", "worse": "fall", None: None}[self.higher_is]
        both: tuple[Direction, ...] = ("rise", "fall")
        return tuple(move for move in both if self.direction in (None, move) and better in (None, move))

    def check_fits(self, name: str, ordered: bool, numeric: bool) -> None:
        """Raise SpaceError if a feature of this kind cannot have this role."""
        for key in ("direction", "higher_is"):
            if getattr(self, key) is not None and not ordered:
                raise SpaceError(
                    expected=f"a feature with a {key} must be ordered",
                    got=f"{name!r}, which is nominal",
                    hint="declare its order: kind = 'ordered' with its values from lowest to highest",
                    code="contradictory-role",
                )
        if self.minimum_step is not None and not (ordered and numeric):
            expected = "a feature with a minimum_step must be an ordered number"
            raise SpaceError(expected=expected, got=f"{name!r}, which is none", code="contradictory-role")

    def to_dict(self) -> dict[str, Any]:
        """The role as the keys that a space file has for it."""
        entries = zip(ROLE_KEYS, (self.kind, self.direction, self.higher_is, self.minimum_step), strict=True)
        return {key: value for key, value in entries if value is not None}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Role | None:
        """The role that a feature of a space file declares; None if it declares none."""
        if not any(key in entry for key in ROLE_KEYS):
            return None
        return cls(entry.get("role", "actionable"), *(entry.get(key) for key in ROLE_KEYS[1:]))


def parse_roles(given: Mapping[str, Role | str]) -> dict[str, Role]:
    """Roles by feature, each a Role or the name of a kind.

    >>> parse_roles({"age": "immutable"})["age"].kind
    'immutable'
    """
    if not isinstance(given, Mapping):
        raise InputError(expected="roles must be a mapping from features to roles", got=type(given).__name__)
    return {name: _parse_role(name, role) for name, role in given.items()}


def _parse_role(name: str, role: Role | str) -> Role:
    if isinstance(role, Role):
        return role
    if isinstance(role, str) and role in ROLE_KINDS:
        return Role(role)
    expected = f"the role of {name!r} must be a Role or one of {', '.join(ROLE_KINDS)}"
    raise SpaceError(expected=expected, got=describe_value(role), code="unknown-role")


@dataclass(frozen=True, slots=True)
class RoleGuesses:
    """Which names look protected or immutable, and whether the past rows say which way is better.

    >>> RoleGuesses().guess_kind("AgeInYears"), RoleGuesses().guess_kind("average balance")
    ('immutable', None)
    """

    protected: tuple[str, ...] = PROTECTED_NAMES
    immutable: tuple[str, ...] = IMMUTABLE_NAMES
    direction_by_data: bool = True

    def __repr__(self) -> str:
        return format_settings(self)

    def guess_kind(self, *names: str | None) -> RoleKind | None:
        """The kind of a feature with this name and label; None if nothing is to be guessed."""
        words = [" ".join(_split_words(name)) for name in names if name]
        lists: tuple[tuple[RoleKind, tuple[str, ...]], ...] = (
            ("protected", self.protected),
            ("immutable", self.immutable),
        )
        return next((kind for kind, phrases in lists if any(_has_phrase(text, phrases) for text in words)), None)


def _split_words(name: str) -> list[str]:
    """The words of a name, in lower case; a capital letter after a small one begins a word."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.replace("'s", ""))
    return [word.lower() for word in re.split(r"[\W_\d]+", parted) if word]


def _has_phrase(text: str, phrases: Iterable[str]) -> bool:
    return any(f" {' '.join(_split_words(phrase))} " in f" {text} " for phrase in phrases)


NO_GUESSES = RoleGuesses((), (), direction_by_data=False)


def parse_guesses(given: bool | RoleGuesses) -> RoleGuesses:
    """What to guess: all that the lists say, nothing, or by lists of the user's own."""
    if isinstance(given, RoleGuesses):
        return given
    if not isinstance(given, bool):
        raise InputError(expected="guess_roles must be True, False or a RoleGuesses", got=describe_value(given))
    return RoleGuesses() if given else NO_GUESSES


class NamedFeature(Protocol):
    """What a role is guessed from."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def label(self) -> str | None:
        """How reports call it."""

    @property
    def role(self) -> Role | None:
        """Its role, if one is declared."""


def suggest_roles(features: Iterable[NamedFeature], guesses: RoleGuesses | None = None) -> dict[str, Role]:
    """A role for every feature without one whose name or label looks protected or immutable."""
    kinds = {f.name: (guesses or RoleGuesses()).guess_kind(f.name, f.label) for f in features if f.role is None}
    return {name: Role(kind) for name, kind in kinds.items() if kind is not None}


def build_role_constraints(role: Role, own: str, other: str) -> list[str]:
    """A role as constraints on a counterfactual: ``own`` is its value (``cf.age``), ``other`` the row's (``x.age``).

    A value that is missing stays missing where the feature may not move both ways.

    >>> build_role_constraints(Role(direction="rise", minimum_step=50), "cf.income", "x.income")
    ['cf.income >= x.income', 'cf.income == x.income or cf.income >= x.income + 50 or cf.income <= x.income - 50']
    """
    if not role.moves:
        return [f"{own} == {other}"]
    limits = [f"{own} {'>=' if role.moves == ('rise',) else '<='} {other}"] if len(role.moves) == 1 else []
    if role.minimum_step is not None:
        exact = isinstance(role.minimum_step, int)
        step = role.minimum_step if exact else role.minimum_step * (1 - STEP_TOLERANCE)
        limits.append(f"{own} == {other} or {own} >= {other} + {step!r} or {own} <= {other} - {step!r}")
    return limits
