"""DiCE-driven rules: the paper's GreedyRuleCF with dice-ml in GeCo's place as the source of counterfactuals.

dice-ml is asked for counterfactuals within a rule's box (its ``permitted_range``), by its random method; the genetic
one takes up to ten seconds for a question where the box is narrow. What it finds is moved to the nearest values of the
space, in the box, and counts if the model desires it. When it finds nothing, the rule is taken, which proves nothing.
The environment variable IRONRULE_DICE_PYTHON names the python of dice-ml's environment (requirements-dice.txt); without
it the method is left out.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.encoded import domain
from benchmarks.paper.methods import Found, Method
from benchmarks.paper.packages import version
from benchmarks.paper.subject import SEED, Subject
from benchmarks.proof_worker import ONE_THREAD
from benchmarks.stopwatch import Taken, timed
from ironrule import GreedyRuleCF
from ironrule.arrays import Points
from ironrule.explain.options import SearchOptions
from ironrule.explain.query import build_problem
from ironrule.oracles.caching import CachingOracle
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Run
from ironrule.rule.box import Box
from ironrule.search.problem import SearchState
from ironrule.verdict.budget import BudgetExhausted
from ironrule.verdict.verdict import NOT_SEARCHED, Verdict

BATCH = 5
VARIABLE = "IRONRULE_DICE_PYTHON"
TARGET = "__desired__"
METHOD, OPTIONS = "random", {"random_seed": SEED}
ASKED = 5  # counterfactuals per question
QUEUE = 10  # candidates that are kept; 50, as elsewhere, would take minutes for a row


@dataclass(slots=True)
class Dice:
    """dice-ml as an oracle; ``row`` is the row of the table that is explained."""

    subject: Subject
    process: subprocess.Popen[str]
    row: int = 0
    cpu: float = 0.0
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Refuted by what dice-ml finds; unrefuted if that is nothing."""
        run.meter.check()
        points = self._snapped(query.box, self._answer(query.box, query.k))
        good = points[run.meter.desired(query.case.model, points)] if len(points) else points
        return query.case.build_refuted(np.unique(good, axis=0)) if len(good) else NOT_SEARCHED

    def _answer(self, box: Box, k: int) -> list[dict[str, Any]]:
        features = self.subject.exact.space.features
        permitted = {f.name: _permitted(f, *ends) for f, *ends in zip(features, box.low, box.high, strict=True)}
        vary = [f.name for f, low, high in zip(features, box.low, box.high, strict=True) if low < high]
        if not vary:
            return []
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"row": self.row, "k": k, "permitted": permitted, "vary": vary}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"failed": "dice-ml has ended", "cpu": 0.0}')
        self.cpu += answer["cpu"]
        if "failed" in answer:
            raise RuntimeError(f"dice-ml failed: {answer['failed']}")
        found: list[dict[str, Any]] = answer["found"]
        return found

    def _snapped(self, box: Box, found: list[dict[str, Any]]) -> Points:
        """Counterfactuals as points, every feature at the nearest value in the box."""
        points = np.empty((len(found), len(box.low)), dtype=np.int32)
        for j, feature in enumerate(self.subject.exact.space.features):
            numbers, codes = domain(feature), np.arange(box.low[j], box.high[j] + 1)
            for place, one in enumerate(found):
                value = one[feature.name]
                if feature.ordered:
                    points[place, j] = codes[np.argmin(np.abs(numbers[codes] - float(value)))]
                else:
                    points[place, j] = feature.code(value)
        return points[box.contains(points)]


def _permitted(feature: Any, low: int, high: int) -> list[Any]:
    if feature.ordered:
        return [feature.values[low], feature.values[high]]
    return list(feature.values[low : high + 1])


@contextmanager
def _server(python: str, subject: Subject) -> Iterator[subprocess.Popen[str]]:
    """dice-ml's process; the model's own outcomes are the target that it gets."""
    numeric = [f.name for f in subject.exact.space.features if f.ordered]
    settings = {"target": TARGET, "numeric": numeric, "seed": SEED, "method": METHOD, "options": OPTIONS}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "model.pkl").write_bytes(pickle.dumps(subject.model))
        outcomes = subject.exact.outcomes.astype(int)
        subject.table.assign(**{TARGET: outcomes}).to_csv(place / "table.csv", index=False)
        (place / "settings.json").write_text(json.dumps(settings))
        script = str(Path(__file__).with_name("dice_server_part.py"))
        process = subprocess.Popen(
            [python, "-P", script, name],
            env=os.environ | ONE_THREAD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def run(python: str, subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
    """The rules of some rows. Their time is ours and dice-ml's together."""
    with _server(python, subject) as process:
        dice = Dice(subject, process)
        return [_found(dice, row, budget) for row in rows]


def _found(dice: Dice, row: int, budget: float) -> Found:
    dice.cpu = 0.0
    (rule, facts), taken = timed(lambda: _rule(dice, row, budget))
    return Found(rule, Taken(taken.wall, taken.cpu + dice.cpu), facts)


def _rule(dice: Dice, row: int, budget: float) -> tuple[Any, dict[str, Any]]:
    dice.row, context = row, dice.subject.exact._context
    options = SearchOptions(k=ASKED, seed=SEED, budget=budget)
    problem = build_problem(context, row, options)
    meter = problem.meter
    problem.oracle.oracle = dice
    assert isinstance(problem.oracle, CachingOracle)
    try:
        found = GreedyRuleCF(q=QUEUE).run(problem, SearchState())
    except BudgetExhausted:
        return None, {"failed": f"no rule within {budget:.0f} s", "oracle calls": meter.events["oracle calls"]}
    facts = {"oracle calls": meter.events["oracle calls"], "candidates": meter.events["candidates"]}
    return (
        (problem.case.components.rule(found[0], "undesired"), facts) if found else (None, facts | {"failed": "no rule"})
    )


def _methods() -> tuple[Method, ...]:
    python = os.environ.get(VARIABLE)
    if not python:
        return ()
    known = version("dice-ml", python)

    def asked(subject: Subject, rows: Sequence[int], budget: float) -> list[Found]:
        return run(python, subject, rows, budget)

    settings = f"q={QUEUE}, {METHOD}, {ASKED} per question"
    return (Method("greedy_cf_dice", f"GreedyRuleCF, {known}", asked, lambda _: settings, BATCH, known),)


METHODS = _methods()
