"""Anchors by the public packages that people use: ``anchor-exp`` (the authors') and ``alibi``.

Each lives in an environment of its own (requirements-anchor.txt, requirements-alibi.txt). The environment variables
IRONRULE_ANCHOR_PYTHON and IRONRULE_ALIBI_PYTHON name the pythons there; a package without one is left out. Anchors
become rules over our components, bound for bound, so that they are judged as ours are: a package knows a number as one
of four quartiles, so its bounds are quartiles of the table, where ours are the row's own values.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper.encoded import Encoded
from benchmarks.paper.methods import Found, Method
from benchmarks.paper.packages import version
from benchmarks.paper.subject import SEED, Subject
from benchmarks.proof_peers import run_in_session
from benchmarks.stopwatch import Taken

BATCH = 50  # rows per process
START_SECONDS = 120.0  # to load a package, the table and the model
SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGES = {"anchor-exp": "IRONRULE_ANCHOR_PYTHON", "alibi": "IRONRULE_ALIBI_PYTHON"}


def run(package: str, python: str, subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
    """The anchors of some rows."""
    encoded = Encoded(subject)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        encoded.write(place, list(rows), {"limit": budget, "seed": SEED})
        script = str(Path(__file__).with_name("anchor_part.py"))
        limit = START_SECONDS + budget * (1 + len(rows))
        said = run_in_session([python, "-P", script, name, package], limit, {"PYTHONPATH": str(SOURCE)})
        written = place / "anchors.json"
        answers: list[dict[str, Any]] = json.loads(written.read_text()) if written.exists() else []
    lost = {"failed": f"{package} gave no answer: {said}", "wall": 0.0, "cpu": 0.0}
    return [_found(encoded, answer) for answer in [*answers, *[lost] * (len(rows) - len(answers))]]


def _found(encoded: Encoded, answer: dict[str, Any]) -> Found:
    facts = {name: value for name, value in answer.items() if name not in ("conditions", "wall", "cpu")}
    said = [tuple(one) for one in answer["conditions"]] if "conditions" in answer else None
    return Found(None if said is None else encoded.rule(said), Taken(answer["wall"], answer["cpu"]), facts)


def _methods() -> Iterator[Method]:
    for package, variable in PACKAGES.items():
        python = os.environ.get(variable)
        if python:
            known = version(package, python)

            def asked(
                subject: Subject, rows: Sequence[int], budget: float, package: str = package, python: str = python
            ) -> list[Found]:
                return run(package, python, subject, rows, budget)

            name = package.replace("-", "_")
            yield Method(name, f"Anchor, {known}", asked, lambda _: "defaults", BATCH, known)


METHODS = tuple(_methods())
