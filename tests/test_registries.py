"""One registry per list: whoever names algorithms, oracles or audiences follows it, the documentation too."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from fastapi.routing import APIRoute

import ironrule
from ironrule.cli.commands import ladder, report
from ironrule.cli.options import add_algorithm_option
from ironrule.cli.parser import COMMANDS
from ironrule.errors import InputError
from ironrule.explain.options import parse_algorithm, parse_oracle
from ironrule.model.readers.registry import OTHER_READERS, TREE_SUM_READERS, RegisteredReader
from ironrule.oracles.registry import ORACLES
from ironrule.report.audiences import (
    LADDER_REPORTS,
    REPORTS,
    render_batch_report,
    render_ladder_batch_report,
    render_ladder_report,
    render_report,
)
from ironrule.results.audience import AUDIENCES, LADDER_AUDIENCES, Audience, LadderAudience
from ironrule.search.algorithms import ALGORITHM_CHOICES, ALGORITHMS, AlgorithmChoice, AlgorithmName, load_algorithm
from ironrule.server.responses import get_environment
from ironrule.server.routes import downloads
from ironrule.server.schemas import SearchOptionsBody
from ironrule.server.views.cases import build_cost_examples
from ironrule.space.feature import Feature
from ironrule.space.space import Space

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ironrule"
AGES = Space((Feature("age", (20, 30), ordered=True),))


def read_choices(parser: argparse.ArgumentParser, option: str) -> tuple[str, ...]:
    """What an option of the command line can be."""
    (found,) = (one for one in parser._actions if option in one.option_strings)
    assert found.choices is not None
    return tuple(found.choices)


def find_repetitions(names: set[str], home: str) -> list[str]:
    """Modules other than the registry's own that write down a whole list of its names."""
    texts = {path: path.read_text() for path in PACKAGE.rglob("*") if path.suffix in (".py", ".html")}
    quoted = {path: set(re.findall(r"[\"'](\w+)[\"']", text)) for path, text in texts.items()}
    return [str(path.relative_to(PACKAGE)) for path in texts if names <= quoted[path] and path != PACKAGE / home]


def test_the_types_name_what_is_registered() -> None:
    assert get_args(AlgorithmName) == tuple(ALGORITHMS)
    assert get_args(AlgorithmChoice) == ALGORITHM_CHOICES == ("auto", *ALGORITHMS)
    assert get_args(Audience) == AUDIENCES == tuple(REPORTS)
    assert get_args(LadderAudience) == LADDER_AUDIENCES == tuple(LADDER_REPORTS)
    assert set(AUDIENCES) < set(LADDER_AUDIENCES)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_where_the_registry_says_and_public(name: AlgorithmName) -> None:
    loaded, entry = load_algorithm(name), ALGORITHMS[name]
    assert (loaded.__module__, loaded.__name__) == (entry.module, entry.class_name)
    assert getattr(ironrule, entry.class_name) is loaded
    assert type(parse_algorithm(name)) is loaded


def test_every_algorithm_of_the_search_is_registered() -> None:
    defined = {
        f"ironrule.search.{path.stem}.{name}"
        for path in (PACKAGE / "search").glob("*.py")
        for name, body in re.findall(r"^class (\w+)[^\n]*:\n((?:    [^\n]*\n|\n)+)", path.read_text(), re.MULTILINE)
        if "    def run(self, problem: Problem, state" in body
    }
    assert defined - {"ironrule.search.problem.Algorithm"} == {
        f"{e.module}.{e.class_name}" for e in ALGORITHMS.values()
    }


def test_the_command_line_offers_what_is_registered() -> None:
    parser = argparse.ArgumentParser()
    add_algorithm_option(parser)
    assert read_choices(parser, "--algorithm") == ALGORITHM_CHOICES
    parser = argparse.ArgumentParser()
    report.add_options(parser)
    assert read_choices(parser, "--audience") == LADDER_AUDIENCES
    parser = argparse.ArgumentParser()
    ladder.add_options(parser)
    assert read_choices(parser, "--audience") == LADDER_AUDIENCES


def test_the_server_offers_what_is_registered() -> None:
    assert tuple(SearchOptionsBody.model_json_schema()["properties"]["algorithm"]["enum"]) == ALGORITHM_CHOICES
    about: dict[str, Any] = {
        "row": 1,
        "max_seconds": 1.0,
        "usual_seconds": 1.0,
        "values": [],
        "subspace_example": "",
        "cost_examples": build_cost_examples(AGES),
    }
    form = get_environment().from_string(
        '{% from "parts.html" import ask with context %}{{ ask(about, true, none, none, []) }}'
    )
    html = form.render(about=about)
    algorithms = html[html.index('<select id="algorithm"') : html.index("</select>")]
    assert tuple(re.findall(r'<option value="(\w+)">[^<]+</option>', algorithms)) == ALGORITHM_CHOICES
    handlers = [one.endpoint for one in downloads.router.routes if isinstance(one, APIRoute)]
    assert Audience in [get_type_hints(handler).get("audience") for handler in handlers]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (ironrule.Explanation.to_html, "Audience"),
        (render_report, "Audience"),
        (render_batch_report, "Audience"),
        (ironrule.Ladder.to_html, "LadderAudience"),
        (ironrule.Batch.to_html, "LadderAudience"),
        (render_ladder_report, "LadderAudience"),
        (render_ladder_batch_report, "LadderAudience"),
    ],
)
def test_every_report_is_for_the_audiences_there_are(function: object, kind: str) -> None:
    assert callable(function)
    assert inspect.signature(function).parameters["audience"].annotation == kind


def test_no_list_is_written_twice() -> None:
    assert find_repetitions(set(ALGORITHMS), "search/algorithms.py") == []
    assert find_repetitions(set(ORACLES), "oracles/registry.py") == []
    assert find_repetitions({"anchor", "genetic"}, "nowhere.py") == ["search/algorithms.py"]
    for audiences in (AUDIENCES, LADDER_AUDIENCES):
        literal = "Literal[" + ", ".join(f'"{name}"' for name in audiences) + "]"
        holders = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if literal in path.read_text()]
        assert holders == [Path("results/audience.py")]


def test_the_documentation_lists_what_is_registered() -> None:
    algorithms = (ROOT / "docs" / "algorithms.md").read_text()
    assert tuple(re.findall(r'^\| `"(\w+)"` \|', algorithms.split("## Oracles")[0], re.MULTILINE)) == ALGORITHM_CHOICES
    assert set(re.findall(r'^\| `"(\w+)"` \|', algorithms.split("## Oracles")[1], re.MULTILINE)) == set(ORACLES)
    (line,) = re.findall(r"^\| `--algorithm` \|.*$", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", line)) == ALGORITHM_CHOICES
    commands = {command.NAME for command in COMMANDS}
    assert commands <= set(re.findall(r"^## (\S+)$", (ROOT / "docs" / "cli.md").read_text(), re.MULTILINE))


@pytest.mark.parametrize("reader", [*TREE_SUM_READERS, *OTHER_READERS], ids=lambda reader: reader.function)
def test_every_reader_is_where_the_registry_says(reader: RegisteredReader) -> None:
    function = getattr(importlib.import_module(f"ironrule.model.readers.{reader.module}"), reader.function)
    assert list(inspect.signature(function).parameters) == ["estimator", "desired", "threshold"]
    assert reader(object(), ("good",), None) is None


@pytest.mark.parametrize("name", ORACLES)
def test_every_oracle_goes_by_its_name(name: str) -> None:
    assert type(parse_oracle(name)) is ORACLES[name]


@pytest.mark.parametrize("oracle", ["magic", 3, ironrule.GeCo, object()])
def test_what_is_no_oracle_is_refused_with_those_there_are(oracle: object) -> None:
    with pytest.raises(InputError, match=f"oracle must be one of {', '.join(ORACLES)}, got") as refused:
        parse_oracle(oracle)
    assert refused.value.code == "unknown-oracle"
