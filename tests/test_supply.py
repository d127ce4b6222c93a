"""What is installed with the package: minimum versions, constraints, licences, the bill of materials."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import constraints, licences, sbom
from tools.dependencies import find_closure, list_extras, list_requirements, read_licence, read_project

ROOT = Path(__file__).parents[1]
PROJECT = read_project()
EVERYTHING = list_requirements(PROJECT, list_extras(PROJECT))
FAMILY = re.compile(r"AGPL|LGPL|GPL|MPL|MIT|BSD|Apache|PSF|Python Software Foundation")


def find_names(lines: list[str], found: set[str]) -> set[str]:
    """The packages that some lines require on this machine, without extras, and all that those require."""
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            find_names(metadata.requires(name) or [], found)
    return found


def minimum(requirement: Requirement) -> Version:
    return max(Version(one.version) for one in requirement.specifier if one.operator == ">=")


@pytest.mark.parametrize("requirement", EVERYTHING, ids=lambda one: one.name)
def test_every_requirement_has_a_minimum_version(requirement: Requirement) -> None:
    assert ">=" in [one.operator for one in requirement.specifier]


def test_a_package_that_several_extras_need_has_one_minimum_version() -> None:
    minima: dict[str, set[Version]] = {}
    for requirement in EVERYTHING:
        minima.setdefault(canonicalize_name(requirement.name), set()).add(minimum(requirement))
    assert {name: found for name, found in minima.items() if len(found) > 1} == {}


def test_the_minimum_versions_in_the_documentation_are_those_of_the_package() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    documented = dict(re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|", page, re.MULTILINE))
    minima = {canonicalize_name(one.name): str(minimum(one)) for one in EVERYTHING}
    assert len(documented) > 10
    assert documented == {name: minima.get(name) for name in documented}


def test_the_constraints_name_every_requirement_with_a_version_that_it_allows() -> None:
    pinned = {one.name: one for one in constraints.read_constraints(constraints.PATH.read_text())}
    for requirement in EVERYTHING:
        (exactly,) = pinned[canonicalize_name(requirement.name)].specifier
        assert exactly.operator == "=="
        assert requirement.specifier.contains(exactly.version), requirement
        assert Version(exactly.version).local is None


def test_the_constraints_name_all_that_is_installed_for_the_core() -> None:
    pinned = {one.name for one in constraints.read_constraints(constraints.PATH.read_text())}
    assert find_names(PROJECT["dependencies"], set()) <= pinned


def test_the_table_of_licences_has_every_direct_dependency() -> None:
    rows = licences.read_licences(licences.PATH.read_text())
    assert {row.name: row.needed_by for row in rows} == licences.list_users(PROJECT)


@pytest.mark.parametrize("row", licences.read_licences(licences.PATH.read_text()), ids=lambda row: row.name)
def test_a_licence_in_the_table_is_the_one_that_the_package_states(row: licences.LicenceRow) -> None:
    try:
        distribution = metadata.distribution(row.name)
    except metadata.PackageNotFoundError:
        pytest.skip("an extra that is not installed")
    stated = read_licence(distribution)
    if distribution.version.partition("+")[0] == row.version:
        assert stated == row.licence
    else:  # another version may say it in other words
        assert FAMILY.findall(stated)[:1] == FAMILY.findall(row.licence)[:1]


def test_the_bill_of_materials_of_the_core_lists_all_that_it_requires_and_nothing_else(tmp_path: Path) -> None:
    sbom.main(["--output", str(tmp_path / "sbom.json")])
    document = json.loads((tmp_path / "sbom.json").read_text())
    listed = {component["name"]: component["version"] for component in document["components"]}
    expected = find_names(PROJECT["dependencies"], set())
    assert listed == {name: metadata.version(name).partition("+")[0] for name in expected}
    assert {"numpy", "scipy", "markupsafe", "llvmlite"} <= set(listed)
    assert not {"pytest", "pandas", "fastapi", "ironrule"} & set(listed)


def test_the_bill_of_materials_follows_the_schema_of_cyclonedx() -> None:
    text = json.dumps(sbom.build_sbom(["server", "skops"]))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    wrong = text.replace('"type": "library"', '"type": "no such type"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(wrong) is not None


def test_the_bill_of_materials_says_who_requires_whom_and_under_which_licence() -> None:
    document = sbom.build_sbom(["server"])
    refs = {component["bom-ref"]: component for component in document["components"]}
    needs = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    root = document["metadata"]["component"]["bom-ref"]
    assert set(needs) == {root, *refs}
    reached, waiting = set(), [root]
    while waiting:
        new = set(needs[waiting.pop()]) - reached
        reached |= new
        waiting += new
    assert reached == set(refs)
    names = {refs[ref]["name"] for ref in needs[root]}
    assert {"numpy", "starlette", "h11"} <= names
    assert all(component["licenses"] for component in refs.values())
    assert refs[f"pkg:pypi/starlette@{metadata.version('starlette')}"]["licenses"] == [{"expression": "BSD-3-Clause"}]


def test_the_same_installation_gives_the_same_bill_of_materials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = sbom.build_sbom()
    assert first == sbom.build_sbom()
    assert first["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    assert first["serialNumber"] != sbom.build_sbom()["serialNumber"]


def test_extras_of_extras_are_followed() -> None:
    names = {one.name for one in list_requirements(PROJECT, ["postgres"])}
    assert {"psycopg", "fastapi", "numpy"} <= names
    assert "psycopg-binary" in find_closure([Requirement("psycopg[binary]")])
    assert "psycopg-binary" not in find_closure([Requirement("psycopg")])


def test_an_unknown_extra_or_package_is_named() -> None:
    with pytest.raises(SystemExit, match=r"the extra must be one of .*, got 'sever'"):
        sbom.build_sbom(["sever"])
    with pytest.raises(SystemExit, match="no-such-package must be installed to be listed"):
        find_closure([Requirement("no-such-package")])
