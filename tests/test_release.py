"""The files beside the package: how to cite it, the checks before a commit, the workflow, the templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tools.dependencies import read_project

ROOT = Path(__file__).parents[1]
PROJECT = read_project()
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
TEST = "pip install '.[test]' && pytest"


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def read_commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_citation_has_the_name_version_and_licence_of_the_package() -> None:
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "authors", "title"} <= set(citation)
    stated = (citation["title"].lower(), citation["version"], citation["license"])
    assert stated == (PROJECT["name"], PROJECT["version"], PROJECT["license"])


def test_the_checks_before_a_commit_are_those_of_the_tests_and_fetch_nothing() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in repository["hooks"]] == ["ruff check", "ruff format --check", "mypy"]
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}


def test_the_workflow_runs_the_tests_on_three_systems_and_four_pythons() -> None:
    jobs = read(".github/workflows/tests.yml")["jobs"]
    assert [job["strategy"]["matrix"]["python"] for job in jobs.values()] == [PYTHONS, PYTHONS]
    assert jobs["others"]["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]
    assert read_commands(jobs["linux"]) == [".ci/run"]
    assert read_commands(jobs["others"]) == [TEST]
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_templates_of_issues_say_what_they_are_for() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) > 1
    for template in templates:
        front = re.match(r"---\n(.*?)\n---\n", template.read_text(encoding="utf-8"), re.DOTALL)
        assert front is not None
        assert {"name", "about"} <= set(yaml.safe_load(front[1]))
