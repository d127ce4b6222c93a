"""python -m tools.sbom: a CycloneDX bill of materials of the installed package and all that it requires.

  python -m tools.sbom --output sbom.json
  python -m tools.sbom --extra server --extra skops --output sbom.json

It lists what is installed here: the exact versions, their licences, and who requires whom. Archives are not
downloaded, so their hashes are not in it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from tools.dependencies import (
    Installed,
    find_closure,
    list_requirements,
    parse_licence,
    read_licence,
    read_project,
)

SPEC_VERSION = "1.6"
SCHEMA = f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json"


def build_sbom(extras: Sequence[str] = ()) -> dict[str, Any]:
    """The bill of materials of the core and of some extras, as a JSON document."""
    project = read_project()
    requirements = list_requirements(project, extras)
    closure = find_closure(requirements)
    root = _make_purl(project["name"], project["version"])
    direct = {canonicalize_name(requirement.name) for requirement in requirements} & set(closure)
    refs = {name: _make_purl(name, package.version) for name, package in closure.items()}
    needs = {refs[name]: package.requires for name, package in closure.items()}
    needs[root] = {str(name) for name in direct}
    document: dict[str, Any] = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": _read_time().isoformat(),
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": root,
            },
        },
        "components": [_describe_component(package) for package in closure.values()],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(refs[name] for name in names)} for ref, names in sorted(needs.items())
        ],
    }
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    return document


def _describe_component(package: Installed) -> dict[str, Any]:
    licence = read_licence(package.distribution)
    ref = _make_purl(package.name, package.version)
    return {
        "type": "library",
        "bom-ref": ref,
        "name": package.name,
        "version": package.version,
        "description": " ".join(package.distribution.metadata.get_all("Summary", [])),
        "licenses": [{"expression": licence} if parse_licence(licence) else {"license": {"name": licence}}],
        "purl": ref,
    }


def _make_purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def _read_time() -> datetime.datetime:
    """Now, or the time in ``SOURCE_DATE_EPOCH``, with which the same installation gives the same document."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return datetime.datetime.fromtimestamp(int(given), datetime.UTC)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the bill of materials."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description="Write a CycloneDX bill of materials.")
    parser.add_argument("--extra", action="append", default=[], metavar="NAME", help="an extra to list too")
    parser.add_argument("--output", type=Path, default=Path("sbom.json"), help="the file to write (sbom.json)")
    options = parser.parse_args(arguments)
    document = build_sbom(options.extra)
    options.output.write_text(json.dumps(document, indent=2) + "\n")
    print(f"{len(document['components'])} packages in {options.output}")


if __name__ == "__main__":
    main()
