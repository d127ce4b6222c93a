"""What every case of the corpus must satisfy, and the small model and data that the cases use.

A case is an input that cannot be used. It must end in an error of ours, of the right class, that says what is expected
and what was got, briefly, and what to do; never in an exception of Python or of another library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import ironrule
from ironrule.errors import CONTROL_CHARACTERS, IronruleError

MAX_CHARACTERS = 2500


class BadInput(NamedTuple):
    """A call that must be refused: with which error, and with which words in its text."""

    call: Callable[..., Any]
    error: type[IronruleError]
    words: tuple[str, ...]


def refuse(call: Callable[..., Any], error: type[IronruleError], *words: str) -> BadInput:
    """A case; at least one word must say what is expected."""
    assert words
    return BadInput(call, error, words)


def assert_refused(case: BadInput, *arguments: Any) -> IronruleError:
    """Run a case; whatever is no error of ours, or says too little or too much, fails the test."""
    with pytest.raises(IronruleError) as caught:
        case.call(*arguments)
    assert_informative(caught.value, case.error, case.words)
    return caught.value


def assert_informative(error: IronruleError, kind: type[IronruleError], words: tuple[str, ...]) -> None:
    """An error of this class whose text has these words, and is neither empty nor long."""
    text = str(error)
    assert type(error) is kind, f"{type(error).__name__}: {text}"
    assert [word for word in words if word.lower() not in text.lower()] == [], text
    assert len(error.statement) > 10
    assert len(text) < MAX_CHARACTERS
    assert error.got is None or 0 < len(error.got) < 500
    assert not CONTROL_CHARACTERS.search(error.statement)
    assert error.hint is None or error.hint


def build_data() -> pd.DataFrame:
    """Thirty rows of two numbers and a category."""
    return pd.DataFrame(
        {
            "age": list(range(20, 50)),
            "income": [100 * (i % 7) for i in range(30)],
            "job": ["cook", "clerk", "judge"] * 10,
        }
    )


def decide(table: pd.DataFrame) -> np.ndarray:
    """Approves incomes of 300 or more."""
    return np.asarray(table["income"] >= 300)


def build_explainer(**options: Any) -> ironrule.Explainer:
    """An explainer of these."""
    return ironrule.Explainer(options.pop("model", decide), options.pop("data", build_data()), **options)


DENIED = 0  # a row that is denied


class BrokenRepr:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


HUGE = 10**5000  # an integer that Python refuses to write
LONG = "x" * 1_000_000
