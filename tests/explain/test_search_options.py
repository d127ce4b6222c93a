"""One value holds all that a search can be told: nobody has a list, or defaults, of his own."""

from __future__ import annotations

import argparse
import inspect
import re
from typing import Any

import pytest

from ironrule import Budget, Cost, Explainer
from ironrule.cli.commands import batch, explain
from ironrule.cli.options import build_search_options
from ironrule.errors import BudgetError, InputError
from ironrule.explain.options import DEFAULTS, SearchOptions
from ironrule.server.responses import get_environment
from ironrule.server.schemas import ExplainForm, SearchOptionsBody
from ironrule.server.views.cases import build_cost_examples
from ironrule.space.feature import Feature
from ironrule.space.space import Space

NAMES = SearchOptions.__slots__
AGES = Space((Feature("age", (20, 30), ordered=True),))
OTHER_VALUES: dict[str, Any] = {
    "algorithm": "genetic",
    "k": 3,
    "budget": Budget(evaluations=1000, seconds=2.5),
    "seed": 7,
    "require": ("age",),
    "forbid": ("amount", "job"),
    "weights": {"age": 2.5},
    "widen": False,
    "prefer": "coverage",
    "change_cost": Cost("l1", "mad", {"age": 2, "amount": {"up": 1, "down": 5}}, {"amount": 50}),
}

# How the command line, the HTTP API and the form of the web page spell what is not spelt as in Python.
SPELLINGS = {"budget": ("seconds", "evaluations")}
FORM_SPELLINGS = {
    "budget": ("seconds",),
    "widen": ("keep_bounds",),
    "change_cost": ("change_cost", "change_scale", "change_prices", "change_steps"),
}
NOT_ON_THE_COMMAND_LINE = {"weights"}  # a mapping; no option has been asked for
NOT_ON_THE_FORM = {"k", "seed", "weights"}  # the page shows one rule, and asks for as little as it can

# What the others take besides: it does not say how to search.
OF_A_ROW = {"row", "progress"}
OF_A_BATCH = {"rows", "output", "workers", "engine", "address", "documents", "reuse", "changes", "ladders", "progress"}
OF_A_REQUEST = {"where"}  # which part of the space is asked about
COMMAND_LINE = {
    "algorithm": ["--algorithm", "genetic"],
    "k": ["--k", "3"],
    "budget": ["--seconds", "2.5", "--evaluations", "1000"],
    "seed": ["--seed", "7"],
    "require": ["--require", "age"],
    "forbid": ["--forbid", "amount", "--forbid", "job"],
    "widen": ["--no-widen"],
    "prefer": ["--prefer", "coverage"],
    "change_cost": [
        *("--change-cost", "l1", "--scale", "mad", "--price", "age=2", "--price", "amount=1:5", "--step", "amount=50")
    ],
}


def spell(names: set[str], spellings: dict[str, tuple[str, ...]]) -> set[str]:
    """The options as somebody else names them."""
    return {spelling for name in names for spelling in spellings.get(name, (name,))}


def parse_command_line(*words: str) -> SearchOptions:
    """The options of ``ironrule explain``."""
    parser = argparse.ArgumentParser()
    explain.add_options(parser)
    return build_search_options(parser.parse_args(["model.skops", "data.csv", "--row", "0", *words]))


def assert_same(found: SearchOptions, expected: SearchOptions) -> None:
    """Whether two are the same."""
    assert found.to_kwargs() == expected.to_kwargs()


def test_the_tables_above_name_every_option() -> None:
    assert tuple(OTHER_VALUES) == NAMES
    assert all(getattr(DEFAULTS, name) != OTHER_VALUES[name] for name in NAMES)
    assert set(COMMAND_LINE) == {*NAMES} - NOT_ON_THE_COMMAND_LINE


@pytest.mark.parametrize(("method", "others"), [(Explainer.explain, OF_A_ROW), (Explainer.explain_many, OF_A_BATCH)])
def test_explain_and_explain_many_take_every_option_with_its_default(method: Any, others: set[str]) -> None:
    taken = {name: parameter.default for name, parameter in inspect.signature(method).parameters.items()}
    assert {name: taken[name] for name in taken if name not in others | {"self"}} == DEFAULTS.to_kwargs()


@pytest.mark.parametrize("method", [getattr(Explainer, name) for name in dir(Explainer) if not name.startswith("_")])
def test_an_option_has_the_same_default_everywhere(method: Any) -> None:
    if callable(method):
        parameters = inspect.signature(method).parameters
        shared = {name for name in NAMES if name in parameters and name != "algorithm"}
        assert {name: parameters[name].default for name in shared} == {name: getattr(DEFAULTS, name) for name in shared}


@pytest.mark.parametrize("name", NAMES)
def test_explain_and_explain_many_pass_every_option_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made: list[SearchOptions] = []

    def stop(**given: Any) -> None:
        made.append(SearchOptions(**given))
        raise KeyboardInterrupt

    monkeypatch.setattr("ironrule.explain.explainer.SearchOptions", stop)
    explainer = Explainer.__new__(Explainer)
    for method in (explainer.explain, explainer.explain_many):
        with pytest.raises(KeyboardInterrupt):
            method(0, **{name: OTHER_VALUES[name]})
    assert [one.to_kwargs() for one in made] == 2 * [SearchOptions(**{name: OTHER_VALUES[name]}).to_kwargs()]


@pytest.mark.parametrize("command", [explain, batch])
def test_the_command_line_offers_every_option_without_defaults(command: Any) -> None:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    actions = {action.dest: action for action in parser._actions}
    offered = spell({*NAMES} - NOT_ON_THE_COMMAND_LINE, SPELLINGS)
    assert offered <= set(actions)
    assert not NOT_ON_THE_COMMAND_LINE & set(actions)
    assert not [name for name in offered if actions[name].default]
    stated = ("k", "seed", "algorithm", "prefer")
    said = {name: re.search(r"default:? (\w+)", actions[name].help or "") for name in stated}
    assert {name: match and match[1] for name, match in said.items()} == {
        name: str(getattr(DEFAULTS, name)) for name in said
    }


@pytest.mark.parametrize("name", COMMAND_LINE)
def test_the_command_line_says_what_python_says(name: str) -> None:
    assert_same(parse_command_line(), DEFAULTS)
    assert_same(parse_command_line(*COMMAND_LINE[name]), SearchOptions(**{name: OTHER_VALUES[name]}))


@pytest.mark.parametrize("name", NAMES)
def test_the_api_says_what_python_says(name: str) -> None:
    assert set(SearchOptionsBody.model_fields) == spell({*NAMES}, SPELLINGS) | OF_A_REQUEST
    assert_same(SearchOptionsBody().to_request(0).options, DEFAULTS)
    value = OTHER_VALUES[name]
    said = {one: getattr(value, one) for one in SPELLINGS["budget"]} if name == "budget" else {name: value}
    said = {name: value.to_dict()} if name == "change_cost" else said
    assert_same(SearchOptionsBody(**said).to_request(0).options, SearchOptions(**{name: value}))


def test_the_form_says_what_python_says() -> None:
    about: dict[str, Any] = {
        "row": 1,
        "max_seconds": 9.0,
        "usual_seconds": 1.0,
        "subspace_example": "",
        "cost_examples": build_cost_examples(AGES),
    }
    about["values"] = [{"label": "age", "feature": "age"}]
    template = '{% from "parts.html" import ask with context %}{{ ask(about, true, none, none, []) }}'
    html = get_environment().from_string(template).render(about=about)
    offered = spell({*NAMES} - NOT_ON_THE_FORM, FORM_SPELLINGS)
    assert set(re.findall(r' name="(\w+)"', html)) == offered | OF_A_REQUEST
    assert_same(ExplainForm().to_request(0).options, DEFAULTS)
    fields: dict[str, Any] = {
        "algorithm": "genetic",
        "seconds": "2.5",
        "require": ["age"],
        "forbid": ["job"],
        "keep_bounds": "yes",
    }
    fields["prefer"] = "coverage"
    fields |= {"change_cost": "l1", "change_scale": "mad"}
    fields |= {"change_prices": ["age=2\r\namount=1:5"], "change_steps": ["amount=50"]}
    assert set(fields) == offered
    expected = SearchOptions(
        algorithm="genetic",
        budget=Budget(seconds=2.5),
        require=["age"],
        forbid=["job"],
        widen=False,
        prefer="coverage",
        change_cost=OTHER_VALUES["change_cost"],
    )
    assert_same(ExplainForm.model_validate(fields).to_request(0).options, expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_depends_on_every_option(name: str) -> None:
    assert SearchOptions(**{name: OTHER_VALUES[name]}).fingerprint() != DEFAULTS.fingerprint()


def test_a_search_has_thirty_seconds_unless_it_is_told_otherwise() -> None:
    default = SearchOptions().start_meter().budget
    assert (default.seconds, default.evaluations, default.use_all_seconds) == (30.0, 5_000_000, False)
    assert SearchOptions(budget=None).start_meter().budget == Budget()
    assert SearchOptions(budget=7).start_meter().budget == Budget(seconds=7.0)
    assert parse_command_line("--seconds", "inf").start_meter().budget == Budget(seconds=float("inf"))
    assert parse_command_line("--evaluations", "9").start_meter().budget == Budget(evaluations=9)


def test_the_fingerprint_is_that_of_batches_already_written() -> None:
    assert DEFAULTS.fingerprint() == "222a435f9e0896581f904fa7da38db66a0429311088304fa0d07444beda83726"
    before = {name: value for name, value in OTHER_VALUES.items() if name != "change_cost"}
    assert SearchOptions(**before).fingerprint() == "c79f828e4928230b4b60b2e2ec391d2420b76de51c9be00d8fcbf0bd569853ce"
    one = SearchOptions(budget=2, require="age", weights={"age": 2.5, "job": 1})
    same = SearchOptions(budget=Budget(seconds=2.0), require=["age"], weights={"job": 1, "age": 2.5})
    assert one.fingerprint() == same.fingerprint()
    one = SearchOptions(change_cost=Cost("l1", prices={"age": 2, "job": 3}))
    same = SearchOptions(change_cost=Cost("l1", prices={"job": 3.0, "age": 2.0}))
    assert one.fingerprint() == same.fingerprint()
    assert SearchOptions(change_cost="fewest").fingerprint() == DEFAULTS.fingerprint()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("algorithm", "magic", InputError),
        ("algorithm", Explainer, InputError),
        ("k", 0, InputError),
        ("k", True, InputError),
        ("budget", "soon", BudgetError),
        ("seed", -1, InputError),
        ("require", 3, InputError),
        ("forbid", None, InputError),
        ("weights", "papers", InputError),
        ("weights", {"age": 0}, InputError),
        ("prefer", "beauty", InputError),
        ("prefer", None, InputError),
        ("change_cost", "cheap", InputError),
        ("change_cost", None, InputError),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(name: str, value: Any, error: type[InputError]) -> None:
    with pytest.raises(error):
        SearchOptions(**{name: value})
