"""Errors: their fields, their text, and that both survive copying, pickling and the way from another process."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

import pytest

import ironrule
from ironrule import errors
from ironrule.errors import (
    AuditError,
    BudgetError,
    ConstraintError,
    InputError,
    IronruleError,
    MissingExtraError,
    ModelError,
    OutcomeError,
    SpaceError,
    StorageError,
    TableError,
)
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.parser import parse_constraint
from ironrule.space.feature import Feature

KINDS: dict[type[IronruleError], tuple[type[BaseException], str]] = {
    IronruleError: (Exception, "ironrule"),
    InputError: (ValueError, "input"),
    TableError: (InputError, "table"),
    SpaceError: (InputError, "space"),
    ConstraintError: (InputError, "constraint"),
    OutcomeError: (InputError, "outcome"),
    BudgetError: (InputError, "budget"),
    StorageError: (OSError, "storage"),
    ModelError: (RuntimeError, "model"),
    AuditError: (RuntimeError, "audit"),
    MissingExtraError: (ImportError, "missing-extra"),
}
FIELDS = ("statement", "expected", "got", "hint", "code")
CODE = re.compile(r"[a-z]+(-[a-z]+)*")

every_kind = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not MissingExtraError])


def pointing() -> ConstraintError:
    """An error whose text shows more than its fields: the place in a constraint."""
    with pytest.raises(ConstraintError) as caught:
        bind_constraint(parse_constraint("cf.agee > 3"), [Feature("age", (20, 30), ordered=True)])
    return caught.value


def examples() -> Iterator[IronruleError]:
    """Every class, with every field and with few; one that takes other arguments; one with a text of its own."""
    for kind in KINDS:
        if kind is not MissingExtraError:
            yield kind(expected="k must be a positive integer", got=0, hint="leave it out", code="k-not-positive")
            yield kind("digest mismatch")
    yield MissingExtraError("PyYAML", "yaml", "reading a YAML file")
    yield pointing()


every_example = pytest.mark.parametrize(
    "error", list(examples()), ids=lambda error: f"{type(error).__name__}-{error.code}"
)


def subclasses(kind: type[IronruleError]) -> Iterator[type[IronruleError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


def assert_same(again: BaseException, error: IronruleError) -> None:
    assert type(again) is type(error)
    assert again is not error
    assert str(again) == str(error)
    assert repr(again) == repr(error)
    assert again.args == error.args
    assert {name: getattr(again, name) for name in FIELDS} == {name: getattr(error, name) for name in FIELDS}
    assert vars(again) == vars(error)


def test_every_class_is_known_here_and_public() -> None:
    there = {kind for kind in subclasses(IronruleError) if kind.__module__ == errors.__name__}
    assert there == set(KINDS)
    assert {kind.__name__ for kind in KINDS} <= set(ironrule.__all__)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_caught_by_its_built_in_name_too_and_has_a_code(kind: type[IronruleError]) -> None:
    base, code = KINDS[kind]
    assert issubclass(kind, base)
    example = kind("pandas", "pandas", "this") if kind is MissingExtraError else kind("no")
    assert example.code == code
    assert CODE.fullmatch(code)


@every_kind
def test_what_was_expected_and_got_are_fields_and_the_text_is_made_of_them(kind: type[IronruleError]) -> None:
    error = kind(
        expected="k must be a positive integer", got=0, hint="leave it out for one rule", code="k-not-positive"
    )
    assert str(error) == "k must be a positive integer, got 0; leave it out for one rule"
    assert error.statement == "k must be a positive integer, got 0"
    assert (error.expected, error.got) == ("k must be a positive integer", "0")
    assert (error.hint, error.code) == ("leave it out for one rule", "k-not-positive")


@every_kind
def test_a_statement_stands_alone(kind: type[IronruleError]) -> None:
    error = kind("digest mismatch: the document was modified")
    assert str(error) == error.statement == "digest mismatch: the document was modified"
    assert (error.expected, error.got, error.hint) == (None, None, None)
    assert error.code == KINDS[kind][1]
    assert str(kind("file not found: 'a'", hint="check the path")) == "file not found: 'a'; check the path"


@pytest.mark.parametrize(
    ("got", "field", "text"),
    [
        (0, "0", "must hold, got 0"),
        ("", "", "must hold, got "),
        ([], "[]", "must hold, got []"),
        (False, "False", "must hold, got False"),
        (repr(None), "None", "must hold, got None"),
        (None, None, "must hold"),
    ],
    ids=repr,
)
def test_everything_may_be_got_and_none_means_that_nothing_is_said(got: object, field: str | None, text: str) -> None:
    error = InputError(expected="must hold", got=got)
    assert error.got == field
    assert str(error) == text


def test_what_is_got_is_kept_as_text() -> None:
    listed = [1]
    error = InputError(expected="must be empty", got=listed)
    listed.append(2)
    assert error.got == "[1]"
    assert pickle.loads(pickle.dumps(InputError(expected="must be a string", got=lambda: None))).got.startswith("<func")


def test_a_missing_extra_says_what_needs_what_and_the_command() -> None:
    error = MissingExtraError("PyYAML", "yaml", "reading a YAML file")
    assert error.statement == "reading a YAML file needs PyYAML, which is not installed"
    assert error.hint == "run pip install 'ironrule[yaml]'"
    assert str(error) == f"{error.statement}; {error.hint}"
    assert error.code == "missing-extra"


@every_example
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_error_survives_copying(error: IronruleError, copied: Callable[[IronruleError], IronruleError]) -> None:
    assert_same(copied(error), error)


@every_example
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling(error: IronruleError, protocol: int) -> None:
    assert_same(pickle.loads(pickle.dumps(error, protocol)), error)


def test_a_copy_is_changed_alone() -> None:
    error = InputError("unknown feature 'shoe'", hint="see space.names")
    error.add_note("in row 3")
    again = copy.deepcopy(error)
    again.hint = "see --help"
    again.add_note("in row 4")
    assert error.hint == "see space.names"
    assert error.__notes__ == ["in row 3"]
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["in row 3"]


class NumberedError(InputError):
    """An error of somebody else's, with arguments and a field of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(expected="number must be even", got=number)
        self.number = number


def test_a_subclass_with_other_arguments_survives_pickling() -> None:
    error = NumberedError(3)
    again = pickle.loads(pickle.dumps(error))
    assert_same(again, error)
    assert again.number == 3
    assert (again.code, str(again)) == ("input", "number must be even, got 3")


def raise_it(error: IronruleError) -> NoReturn:
    raise error


def test_errors_cross_from_another_process() -> None:
    told = list(examples())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for error, answer in [(error, pool.submit(raise_it, error)) for error in told]:
            again = answer.exception()
            assert again is not None
            assert_same(again, error)


def test_the_place_in_a_constraint_is_part_of_the_text_and_of_no_field() -> None:
    error = pointing()
    assert str(error) == "unknown feature 'agee'; did you mean cf.age? (column 1)\n  cf.agee > 3\n  ^"
    assert (error.statement, error.hint) == ("unknown feature 'agee'", "did you mean cf.age?")


def codes() -> Iterator[str]:
    """Every code that is written in the package."""
    for path in Path(ironrule.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                given = [one.value for one in node.exc.keywords if one.arg == "code"]
                yield from (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_codes_are_words_joined_by_hyphens() -> None:
    found = set(codes())
    assert {"value-outside-domain", "constant-column", "missing-among-values", "unknown-feature"} <= found
    assert [code for code in found if not CODE.fullmatch(code)] == []
