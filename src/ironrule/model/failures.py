"""Why a user's model failed on a table: what libraries say of columns, types and categories that do not fit, explained.

Libraries report such failures in their own words, from deep inside, and often without naming a column. What they
say is matched here once, where a model is called (:func:`ironrule.model.decision.ask_model`), and becomes an error that
says what was expected, what came, and what to do. What is not known stays as the library said it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ironrule.errors import ModelError, shorten
from ironrule.wording import format_count, format_names

MAX_SAID_CHARACTERS = 200
MAX_NAMED_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """What a library says, as a pattern; what it expected, what came (from the groups of the pattern, or else the
    columns of the table), and what to do.
    """

    pattern: str
    code: str
    expected: str
    hint: str
    got: str = ""


SAME_COLUMNS = "pass data with the columns that the model was fitted on, or name them with columns=[...]"
SAME_CATEGORIES = (
    "pass the data as the model was fitted on it: data.astype({'column': 'category'}) for the columns that were "
    "categories then, with the same categories"
)
KNOWN_FAILURES = (
    # LightGBM
    KnownFailure(
        r"categorical_feature do not match",
        code="model-categories",
        expected="the columns that were categories when the model was fitted must be categories now, and no others",
        hint=SAME_CATEGORIES,
    ),
    KnownFailure(
        r"number of features in data \((?P<came>\d+)\) is not the same as it was in training data \((?P<wanted>\d+)\)",
        code="model-columns",
        expected="the model must be given its {wanted} columns",
        got="{came} columns",
        hint=SAME_COLUMNS,
    ),
    # XGBoost
    KnownFailure(
        r"Expecting data to be a DMatrix",
        code="model-input",
        expected="the model must take tables",
        got="an XGBoost Booster, which takes a DMatrix",
        hint="pass the XGBClassifier or XGBRegressor; to make one of a saved booster, call its load_model(...)",
    ),
    KnownFailure(
        r"feature_names mismatch: \[(?P<wanted>[^\]]*)\] \[(?P<came>[^\]]*)\]",
        code="model-columns",
        expected="the model must be given its columns, {wanted}",
        got="{came}",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"Feature shape mismatch, expected: (?P<wanted>\d+), got (?P<came>\d+)",
        code="model-columns",
        expected="the model must be given its {wanted} columns",
        got="{came} columns",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"DataFrame\.dtypes for data must be .*Invalid columns: ?(?P<came>[^\n]*)",
        code="model-categories",
        expected="the model must be given numbers, truth values or categories",
        got="{came}",
        hint=SAME_CATEGORIES,
    ),
    KnownFailure(
        r"Found a category not in the training set for the (?P<place>\d+)th \(0-based\) column: `?(?P<came>[^`\n]*)",
        code="model-unknown-category",
        expected="column {place} (from 0) must have only categories that the model was fitted on",
        got="{came}",
        hint=SAME_CATEGORIES,
    ),
    # scikit-learn
    KnownFailure(
        r"X has (?P<came>\d+) features?, but (?P<who>\w+) is expecting (?P<wanted>\d+) features?",
        code="model-columns",
        expected="{who} must be given its {wanted} columns",
        got="{came} columns",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"feature names should match those that were passed during fit\.?\s*(?P<came>.*)",
        code="model-columns",
        expected="the model must be given the columns that it was fitted on, in their order",
        got="{came}",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"columns are missing: \{?(?P<came>[^}\n]*)",
        code="model-columns",
        expected="the model must be given all columns that it was fitted on",
        got="a table without {came}",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"Found unknown categories (?P<came>\[.*\]) in column (?P<place>\d+)",
        code="model-unknown-category",
        expected="column {place} (from 0) of the model's encoder must have only categories that it was fitted on",
        got="{came}",
        hint="fit the encoder on all categories or with handle_unknown='ignore', or leave those rows out of the data",
    ),
    KnownFailure(
        r"could not convert string to float: (?P<came>.*)",
        code="model-text",
        expected="the model must be given numbers",
        got="the text {came}{column}",
        hint="put the encoding into the model: make_pipeline(encoder, classifier), fitted on the original columns",
    ),
    KnownFailure(
        r"(?P<where>Input \w+) contains NaN",
        code="model-missing-values",
        expected="the model must be given no missing values",
        got="some in the data",
        hint="put an imputer into the model's pipeline, or leave such rows out of the data",
    ),
    # CatBoost
    KnownFailure(
        r"Invalid type for cat_feature\[.*feature_idx=(?P<place>\d+)\]=(?P<came>\S+)",
        code="model-categories",
        expected="column {place} (from 0) must hold whole numbers or text: CatBoost takes no other categories",
        got="{came}",
        hint="pass the data as the model was fitted on it: data.astype({'column': str})",
    ),
    KnownFailure(
        r"Bad value for num_feature\[.*feature_idx=(?P<place>\d+)\]=(?P<came>\"[^\"]*\")",
        code="model-text",
        expected="column {place} (from 0) must hold numbers, as when the model was fitted",
        got="{came}",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"At position (?P<place>\d+) should be feature with name (?P<wanted>.+) \(found (?P<came>.+)\)",
        code="model-columns",
        expected="column {place} (from 0) must be {wanted}, as when the model was fitted",
        got="{came}",
        hint=SAME_COLUMNS,
    ),
    KnownFailure(
        r"Invalid cat_features\[\d+\] = (?P<place>\d+) value: index must be < (?P<came>\d+)",
        code="model-columns",
        expected="the model must be given all columns that it was fitted on",
        got="{came} of them",
        hint=SAME_COLUMNS,
    ),
)


def explain_failure(error: BaseException, table: Any, rows: int) -> ModelError:
    """The error for a model that failed on a table: with what was expected and what to do, where that is known."""
    said = f"{type(error).__name__}: {error}"
    for known in KNOWN_FAILURES:
        found = re.search(known.pattern, str(error), re.DOTALL)
        if found is not None:
            groups = {name: _shorten(text) for name, text in found.groupdict().items()}
            groups["column"] = _name_column(table, found.groupdict().get("came"))
            got = known.got.format(**groups) if known.got else _describe_columns(table)
            return ModelError(
                expected=known.expected.format(**groups),
                got=f"{got or 'others'} (the model said: {_shorten(said)})",
                hint=known.hint,
                code=known.code,
            )
    return ModelError(f"the model failed on a table of {format_count(rows, 'row')}: {said}")


def _name_column(table: Any, text: str | None) -> str:
    """Which column of a pandas table has a text, as the library quotes it; empty where that is not known."""
    bare = (text or "").strip().strip("'\"")
    names = [str(name) for name in getattr(table, "columns", ()) if _has_text(table[name], bare)]
    return f" in column {names[0]!r}" if bare and names else ""


def _has_text(column: Any, text: str) -> bool:
    try:
        return bool((column == text).any())
    except (TypeError, ValueError, AttributeError):  # a column of another kind
        return False


def _shorten(text: str | None) -> str:
    """One line, without the stack trace that some libraries append."""
    lines = (text or "").partition("Stack trace")[0].split("\n")
    return shorten("; ".join(line.strip() for line in lines if line.strip()), MAX_SAID_CHARACTERS)


def _describe_columns(table: Any) -> str:
    """The columns of a table with their types, those that are no numbers first."""
    dtypes: Any = getattr(table, "dtypes", None)
    items: Sequence[tuple[Any, Any]] = list(dtypes.items()) if hasattr(dtypes, "items") else []
    if not items:
        return f"a table of {type(table).__name__}"
    ordered = sorted(items, key=lambda item: getattr(item[1], "kind", "O") in "biuf")
    return format_names([f"{name} ({dtype})" for name, dtype in ordered], MAX_NAMED_COLUMNS)
