"""The files beside the package: how to cite it, the checks before a commit, the workflow, the templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from hatch_build import NEEDED
from tools.dependencies import read_project

ROOT = Path(__file__).parents[1]
PROJECT = read_project()
BUILD_SYSTEM = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
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


def normalize_requirements(lines: list[str]) -> set[str]:
    return {line.replace(" ", "") for line in lines}


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_package() -> None:
    recipe = read("conda/recipe.yaml")
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    (command,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    python = f"python{PROJECT['requires-python']}"
    needed = normalize_requirements(recipe["requirements"]["run"])
    assert needed == {python, *normalize_requirements(PROJECT["dependencies"])}
    to_build = normalize_requirements(recipe["requirements"]["host"]) - {"pip", *BUILD_SYSTEM["requires"]}
    assert to_build == {line for line in needed if line.startswith(("python>", *NEEDED))}


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert next(version for version in versions if version != "Unreleased") == PROJECT["version"]


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
