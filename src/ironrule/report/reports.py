"""Reports as files: one explanation or many, for the person or for the validator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from ironrule.counting import counted
from ironrule.errors import InputError
from ironrule.explain import Explanation
from ironrule.report.batches import account_body, letters_body, names_of
from ironrule.report.page import page
from ironrule.report.person import person_body, person_title
from ironrule.report.recheck import Recheck
from ironrule.report.validator import validator_body, validator_title
from ironrule.report.words import Words
from ironrule.space import Space

Voice = Literal["person", "validator"]
VOICES: tuple[Voice, ...] = get_args(Voice)


def explanation_report(explanation: Explanation, voice: Voice = "person", recheck: Recheck | None = None) -> str:
    """One explanation as a whole HTML page; ``recheck`` names the files that the validator's command needs."""
    if _checked(voice) == "person":
        return page(person_title(explanation), person_body(explanation))
    return page(validator_title(explanation), validator_body(explanation, recheck or Recheck()))


def batch_report(
    explanations: Sequence[Explanation],
    voice: Voice = "validator",
    names: Sequence[str] | None = None,
    space: Space | None = None,
) -> str:
    """Many explanations as one HTML page: an account of all for the validator, or one letter per person.

    Labels in the account come from the space, or from what stands behind the first explanation.
    """
    if not explanations:
        raise InputError(expected="a report needs at least one explanation", got="none")
    called = names_of(explanations, names)
    title = counted(len(explanations), "explanation")
    if _checked(voice) == "person":
        return page(title, letters_body(explanations, called))
    return page(title, account_body(explanations, called, None if space is None else Words.over(space)))


def written(text: str, path: str | Path | None) -> str:
    """The same text, also in a file where a path is given."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text


def _checked(voice: str) -> str:
    if voice not in VOICES:
        raise InputError(expected=f"voice must be one of {', '.join(VOICES)}", got=repr(voice))
    return voice
