"""--change-cost: what nearest means for suggested changes, as an option and in the project file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from loans import FEATURES, Files, loans
from skops import io

import ironrule
from ironrule import Cost
from ironrule.cli.project import PROJECT_FILE

CLERK = ("--row", '{"age": 25, "income": 3, "job": "cook"}')  # may earn more, or be a clerk who earns a little more
COST = Cost("l1", prices={"income": {"up": 9, "down": 1}, "job": 0.25})
OPTIONS = ("--change-cost", "l1", "--price", "income=9:1", "--price", "job=0.25")


def explain_in_python(files: Files, cost: Cost) -> ironrule.Explanation:
    """What the commands ought to say."""
    explainer = ironrule.Explainer(io.load(files.model), loans()[FEATURES], desired="yes")
    return explainer.explain({"age": 25, "income": 3, "job": "cook"}, change_cost=cost)


@pytest.mark.parametrize("short", ["0", "1"])
def test_explain_suggests_what_is_cheapest_by_the_cost(run, files: Files, short: str):
    expected, usual = explain_in_python(files, COST).changes, explain_in_python(files, Cost()).changes
    assert expected is not None
    assert expected.cost == COST
    assert usual is not None
    assert expected[0] != usual[0]
    result = run("explain", *files.ask("--target", "paid", *CLERK, *OPTIONS, "--most", short, "--json"))
    document = result.json.get("explanation", result.json)
    found = ironrule.Explanation.from_dict(document).changes
    if short == "0":  # a ladder's rule is of half of the rows, and so are its suggestions
        assert found == expected
    assert found is not None
    assert found.cost == COST
    shown = run("explain", *files.ask("--target", "paid", *CLERK, *OPTIONS, "--most", short)).text
    assert "by the cost asked for" in shown


def test_a_letter_and_a_ladder_have_the_cheapest_changes(run, files: Files, tmp_path: Path):
    letter = tmp_path / "letter.html"
    ask = [files.model, files.data, "--desired", "yes", "--target", "paid", *CLERK]
    assert run("report", *ask, *OPTIONS, "--output", str(letter)).code == 0
    by_cost = letter.read_text(encoding="utf-8")
    assert run("report", *ask, "--output", str(letter), "--overwrite").code == 0
    usual = letter.read_text(encoding="utf-8")
    assert "Job: “clerk” instead of “cook”" in by_cost
    assert "Job: “clerk” instead of “cook”" not in usual
    ladder = run("ladder", *ask, *OPTIONS, "--json").json
    changes = ironrule.Ladder.from_dict(ladder).explanation.changes
    assert changes is not None
    assert changes.cost == COST


def test_a_batch_keeps_the_cheapest_changes_and_only_continues_with_the_same_cost(run, files: Files, tmp_path: Path):
    folder = str(tmp_path / "explained")
    ask = (files.model, files.data, "--desired", "yes", "--target", "paid", "--workers", "1", "--output", folder)
    assert run("batch", *ask, "--changes", *OPTIONS).code == 0
    batch = ironrule.Batch.open(folder)
    assert {one.changes.cost == COST for one in batch} == {True}
    assert run("batch", *ask, "--changes", *OPTIONS).code == 0
    other = run("batch", *ask, "--changes", "--change-cost", "l2")
    assert other.code == 2
    assert "options" in other.err
    refused = run("batch", *ask, *OPTIONS)
    assert refused.code == 2
    assert "add --changes" in refused.err


def test_a_cost_is_refused_where_changes_were_found_before(run, files: Files, tmp_path: Path):
    path = tmp_path / "why.json"
    assert run("explain", *files.ask("--target", "paid"), "--output", str(path)).code == 0
    result = run("report", str(path), "--output", str(tmp_path / "why.html"), "--change-cost", "l1")
    assert result.code == 2
    assert "give it to ironrule explain" in result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--price", "wage=2"), "wage"),
        (("--price", "income"), "income=2"),
        (("--step", "job=1"), "ordered number"),
        (("--per-change", "1"), "norm is 'l1'"),
    ],
)
def test_a_cost_that_cannot_be_used_is_refused_before_the_search(refused, files: Files, options, said: str):
    assert said in refused("explain", *files.ask("--target", "paid", *options))


@pytest.fixture
def folder(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose project file has a cost."""
    monkeypatch.chdir(tmp_path)
    text = f'model = "{files.model}"\ndata = "{files.data}"\ntarget = "paid"\ndesired = "yes"\n'
    cost = '[change_cost]\nnorm = "l1"\nprices = {income = {up = 9, down = 1}, job = 0.25, age = inf}\n'
    (tmp_path / PROJECT_FILE).write_text(text + cost, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_cost_of_the_project_file_counts_where_none_is_given(run):
    project = Cost("l1", prices={"income": {"up": 9, "down": 1}, "job": 0.25, "age": math.inf})
    result = run("explain", *CLERK, "--most", "0", "--json")
    assert ironrule.Explanation.from_dict(result.json).changes.cost == project
    assert "change_cost" in run("explain", *CLERK, "--most", "0").err
    given = run("explain", *CLERK, "--most", "0", "--price", "job=2", "--json")
    assert ironrule.Explanation.from_dict(given.json).changes.cost == Cost(prices={"job": 2})  # as a whole
    found = run("counterfactual", *CLERK, "--json")
    assert Cost.from_dict(found.json["cost"]) == project
    assert "cost" not in run("counterfactual", *CLERK, "--cost", "fewest", "--json").json


@pytest.mark.usefixtures("folder")
def test_a_command_that_has_no_use_for_the_cost_of_the_project_says_so_or_leaves_it(run, files: Files):
    past = run("counterfactual", *CLERK, "--past")
    assert past.code == 2
    assert "--cost fewest sets aside" in past.err
    assert run("counterfactual", *CLERK, "--past", "--cost", "fewest").code == 0
    assert run("batch", "--workers", "1", "--output", "plain").code == 0
    assert run("explain", "--row", str(files.denied), "--output", "why.json").code == 0
    assert run("report", "why.json", "--output", "why.html").code == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('change_cost = "cheap"', "one of fewest"),
        ("change_cost = 3", "one of fewest"),
        ("change_cost = {price = 3}", "keys norm"),
        ("change_cost = {prices = {age = -1}}", "age"),
    ],
)
def test_a_cost_in_the_project_file_that_cannot_be_used_is_refused(refused, folder: Path, line: str, said: str):
    path = folder / PROJECT_FILE
    path.write_text(line + "\n", encoding="utf-8")
    message = refused("explain", *CLERK)
    assert message.startswith("error: change_cost in ironrule.toml must be ")
    assert said in message
