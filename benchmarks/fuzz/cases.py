"""One case from its family and number: draw a subject, explain some rows, hold every claim against the truth."""

from __future__ import annotations

import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.fuzz.claims import judge_explanation, judge_nearest, random_rule
from benchmarks.fuzz.data import Rng
from benchmarks.fuzz.documents import judge_altered
from benchmarks.fuzz.families import Family
from benchmarks.fuzz.listings import (
    difference,
    judge_batch,
    judge_changes,
    judge_judgement,
    judge_recheck,
    judge_rules,
)
from benchmarks.fuzz.remembering import remember_answers
from benchmarks.fuzz.subjects import NotDrawn, Subject
from benchmarks.fuzz.tally import Tally
from benchmarks.fuzz.truth import Truth, parts_of
from benchmarks.fuzz.unseen import draw_unseen_row
from benchmarks.fuzz.world import World

ROWS = 3
UNSEEN_ROWS = 3
WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 10.0)
WEIGHTS_APART = (5e-10, 1e-12, 1e-9, 1e9, 1e12, 1e15, 3.0, 1.0)
OTHER_ALGORITHMS = ("greedy_cf", "genetic_cf", "genetic", "min_set_cover", "anchor")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a case does: altered documents per explanation, whether other claims are looked at as well, how many
    points of the space are explained, and whether explanations are checked.
    """

    altered: int = 12
    claims: bool = True
    points: int = 1
    checks: bool = True


@dataclass(slots=True)
class Case:
    """What a case has found."""

    family: str
    number: int
    subject: str = ""
    tally: Tally = field(default_factory=Tally)
    crashes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether a claim was false or something crashed."""
        return bool(self.tally.false or self.crashes)


def run_case(family: Family, number: int, effort: Effort) -> Case:
    """Draw and judge one case; the same family, number and effort give the same case."""
    case = Case(family.name, number)
    begun = time.perf_counter()
    rng = np.random.default_rng([zlib.crc32(family.name.encode()), number])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            subject = family.draw(rng)
            case.subject = subject.describe()
            _Run(subject, rng, effort, case).run()
        except NotDrawn as reason:
            case.tally.note(f"not drawn: {str(reason)[:60]}")
        except Exception as error:  # one bad case must not end a night's run; it is reported, and the status is 1
            case.crashes.append(f"in the fuzzer itself: {_told(error)}")
    case.seconds = time.perf_counter() - begun
    return case


class _Run:
    """The work of one case."""

    def __init__(self, subject: Subject, rng: Rng, effort: Effort, case: Case) -> None:
        self.subject, self.rng, self.effort, self.case = subject, rng, effort, case
        self.tally = case.tally
        self.data = subject.table.native()
        self.worlds = list[World]()

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Refusals are counted with what they say; any other exception is a crash."""
        import ironrule

        try:
            yield
        except ironrule.IronruleError as error:
            if "please report" in str(error):
                self.case.crashes.append(f"{what}: {type(error).__name__}: {error}")
            self.tally.note(f"refused {what}: {type(error).__name__}")
        except Exception as error:
            self.case.crashes.append(f"{what}: {_told(error)}")

    def run(self) -> None:
        """Make the explainer and the checker, and go through the claims."""
        import ironrule

        explainer: Any = None
        constraints = [rule.text for rule in (*self.subject.space_rules, *self.subject.change_rules)]
        with self.guarded("explainer"):
            explainer = ironrule.Explainer(
                self.subject.model, self.data, constraints=constraints, **self.subject.arguments()
            )
        if explainer is None:
            return
        self.tally.note("models read" if explainer.unreadable_reason is None else "models asked")
        self.explainer = explainer
        self.world = self._build_world(self.subject, explainer.space)
        self._outcomes()
        self.checker: Any = None
        with self.guarded("checker"):
            given: dict[str, Any] = {"models": self.subject.others} if self.subject.others else {}
            texts = [rule.text for rule in self.subject.space_rules]
            self.checker = ironrule.Checker(
                self.subject.model,
                self.data,
                constraints=texts,
                **given,
            )
        with nullcontext() if self.effort.claims else remember_answers():
            self._rows()
        if self.effort.claims:
            self._unseen()
        if self.case.failed and any(world.unstable for world in self.worlds):
            self.tally.note("unstable: the model contradicts itself", len(self.tally.false) + len(self.case.crashes))
            self.tally.false.clear()
            self.case.crashes[:] = [text for text in self.case.crashes if "please report" not in text]

    def _build_world(self, subject: Subject, space: Any) -> World:
        """The points of a space; a model that contradicts itself at some of them is noticed at the end."""
        self.worlds.append(World(subject, space))
        return self.worlds[-1]

    def _outcomes(self) -> None:
        """The outcomes of past rows, by number, are the estimator's own."""
        world = self.world
        places = [world.index(point) for point in world.past]
        wrong = [
            int(number)
            for number, place, said in zip(self.explainer.row_numbers, places, self.explainer.outcomes, strict=True)
            if place is not None and bool(world.own[place]) != bool(said)
        ]
        self.tally.expect("outcomes", not wrong, f"past rows {wrong} have another outcome")

    def _rows(self) -> None:
        """Some undesired rows: past ones by number, and points of the space by their values."""
        world = self.world
        past = {int(number): point for number, point in zip(world.past_rows, world.past, strict=True)}
        undesired = {n: p for n, p in past.items() if (i := world.index(p)) is not None and not world.desired[i]}
        numbers = self.rng.permutation(np.array(sorted(undesired), dtype=np.int64))[:ROWS].tolist()
        others = np.flatnonzero(~world.desired)
        alone: dict[int, Any] = {}
        for number in numbers:
            found = self._row(number, undesired[number])
            if found is not None:
                alone[number] = found
        for place in self.rng.permutation(others)[: self.effort.points].tolist():
            point = world.points[place]
            if all(axis.values[code] in axis.domain for axis, code in zip(world.axes, point, strict=True)):
                self._row(world.decode(point), point)
        if self.effort.claims and alone:
            self._batches(undesired, sorted(alone), alone)
            self._recheck(list(alone.values()))
            self._part(undesired)

    def _unseen(self) -> None:
        """Rows with values that no past row has, each by itself, and together in a batch."""
        rng = np.random.default_rng([zlib.crc32(self.case.family.encode()), self.case.number, 1])
        rows = self.subject.table.rows()
        drawn = [rows[int(place)] for place in rng.integers(0, len(rows), 3 * UNSEEN_ROWS)]
        explained = list[dict[str, Any]]()
        for row in (draw_unseen_row(rng, self.subject.table, row) for row in drawn):
            if len(explained) < UNSEEN_ROWS and self._unseen_row(row):
                explained.append(row)
        if len(explained) > 1:
            self._unseen_batch(explained)

    def _unseen_row(self, row: dict[str, Any]) -> bool:
        """All claims about one row with new values, by a space that has them; whether it was explained."""
        from ironrule.explain.extend import extend_to_row

        values = self.world.by_feature(row)
        with self.guarded("unseen row"):
            context, known = extend_to_row(self.explainer._context, values)
            world = self._build_world(self.subject, context.space)
            point = world.code({axis.name: known[axis.name] for axis in world.axes})
            place = world.index(point)
            if point is None or place is None or world.desired[place]:
                self.tally.note("unseen row desired, or it cannot occur")
                return False
            truth = Truth(world, point)
            explanation = self.explainer.explain(values)
            self.tally.note("unseen rows explained")
            judge_explanation(truth, explanation, self.tally)
            self._check(explanation, alter=False)
            judge_nearest(truth, self.explainer.counterfactuals(values, 2), 2, None, self.tally)
            judge_judgement(
                truth, self.explainer.judge(values, explanation), parts_of(explanation.rule), None, self.tally
            )
            judge_rules(truth, self.explainer.rules(values), None, (), False, self.tally)
            return True
        return False

    def _unseen_batch(self, rows: list[dict[str, Any]]) -> None:
        """The same rows in a batch, whose domains have the new values of all."""
        from ironrule.explain.batch.rows import extend_to_rows

        table = self.subject.table.filled({name: [row[name] for row in rows] for name in self.subject.table.names})
        with self.guarded("unseen batch"):
            world = self._build_world(self.subject, extend_to_rows(self.explainer._context, table).space)
            batch = self.explainer.explain_many(table, workers=1, progress=False)
            for explanation in batch:
                point = world.code(explanation.instance)
                if point is None:
                    self.tally.record("batch of unseen rows", f"{explanation.instance} is no point of the space")
                    continue
                judge_explanation(Truth(world, point), explanation, self.tally)
                self._check(explanation, alter=False)

    def _row(self, row: Any, point: Any) -> Any:
        """All claims about one row; its explanation."""
        truth = Truth(self.world, point)
        explanation: Any = None
        with self.guarded("explain"):
            explanation = self.explainer.explain(row)
            judge_explanation(truth, explanation, self.tally)
        if explanation is not None and self.effort.checks:
            self._check(explanation)
        if not self.effort.claims or explanation is None:
            return explanation
        with self.guarded("second call"):
            again = self.explainer.explain(row)
            self.tally.record("second call", difference(explanation, again))
        self._weighed(truth, row)
        self._nearest(truth, row)
        self._lists(truth, row)
        self._judged(truth, row, explanation)
        if self.rng.random() < 0.15:
            with self.guarded("other algorithm"):
                name = str(self.rng.choice(OTHER_ALGORITHMS))
                made = self.explainer.explain(row, name, budget=_budget(20_000))
                judge_explanation(truth, made, self.tally)
                self._check(made, alter=False)
        return explanation

    def _check(self, explanation: Any, alter: bool = True) -> None:
        """The checker's word on a document, on its JSON, and on altered ones."""
        if self.checker is None:
            return
        document = explanation.to_dict()
        with self.guarded("check"):
            found = self.checker.check(explanation.to_json())
            proven = type(explanation.verdict).__name__ == "Proven"
            self.tally.note(f"check: {found.status}")
            if found.reading == "shared":
                self.tally.note("check: reading shared")
            text = f"{explanation.rule}: {found.status}: {[one for one in found.findings if one.status != 'holds']}"
            open_between = self.subject.intervals and found.status == "undecided"  # rounding between two values
            self.tally.expect("check", not proven or found.status == "proven" or open_between, text)
            self.tally.expect("check", proven or found.status != "proven", text)
            again = type(explanation).from_json(explanation.to_json())
            self.tally.record("round trip", difference(explanation, again))
        if alter and self.effort.altered:
            judge_altered(self.rng, self.checker, document, self.world, self.effort.altered, self.tally)

    def _weighed(self, truth: Truth, row: Any) -> None:
        """Random weights, required and forbidden components."""
        names = [axis.name for axis in self.world.axes] + [f"{name} {op}" for name, op, _ in truth.parts]
        some = WEIGHTS_APART if self.subject.weights_apart else WEIGHTS
        chosen = self.rng.permutation(np.array(names, dtype=object))[: self._weights()].tolist()
        weights: Any = {name: float(self.rng.choice(some)) for name in chosen}
        if self.rng.random() < 0.1:
            weights = "paper"
        usable = [f"{name} {op}" for name, op, _ in truth.parts]
        require = [str(self.rng.choice(usable))] if usable and self.rng.random() < 0.3 else []
        forbid = [str(self.rng.choice(names))] if self.rng.random() < 0.3 else []
        with self.guarded("weights"):
            made = self.explainer.explain(row, weights=weights or None, require=require, forbid=forbid)
            judge_explanation(truth, made, self.tally)
            self._check(made, alter=self.rng.random() < 0.3)
        with self.guarded("weighed rules"):
            least = bool(self.rng.random() < 0.5)
            listing = self.explainer.rules(row, weights=weights or None, forbid=forbid, minimum_only=least)
            judge_rules(truth, listing, weights, forbid, least, self.tally)

    def _weights(self) -> int:
        """How many weights are given: few, or where they are far apart most."""
        return int(self.rng.integers(3, 12) if self.subject.weights_apart else self.rng.integers(0, 4))

    def _nearest(self, truth: Truth, row: Any) -> None:
        """Nearest counterfactuals: of all features, and of some."""
        k = int(self.rng.integers(1, 6))
        names = [axis.name for axis in self.world.axes]
        some = self.rng.permutation(np.array(names, dtype=object))[: int(self.rng.integers(1, len(names) + 1))].tolist()
        for vary in (None, some):
            with self.guarded("counterfactuals"):
                found = self.explainer.counterfactuals(row, k, features_to_vary=vary or "all")
                judge_nearest(truth, found, k, vary, self.tally)

    def _lists(self, truth: Truth, row: Any) -> None:
        with self.guarded("rules"):
            limit = int(self.rng.integers(1, 4)) if self.rng.random() < 0.3 else None
            judge_rules(truth, self.explainer.rules(row, limit=limit), None, (), False, self.tally)
        with self.guarded("changes"):
            judge_changes(truth, self.explainer.change_sets(row), None, self.tally)

    def _judged(self, truth: Truth, row: Any, explanation: Any) -> None:
        """Random rules, and the explanation's own."""
        import ironrule

        for _ in range(2):
            given = random_rule(truth, self.rng)
            with self.guarded("judge"):
                rule = ironrule.Rule(
                    tuple(_component(self.explainer.space[name], op, value) for name, op, value in given)
                )
                judge_judgement(truth, self.explainer.judge(row, rule), given, None, self.tally)
        with self.guarded("judge"):
            parts = [(part.feature, part.op, part.value) for part in explanation.rule.components]
            judge_judgement(truth, self.explainer.judge(row, explanation), parts, None, self.tally)

    def _batches(self, undesired: dict[int, Any], numbers: list[int], alone: dict[int, Any]) -> None:
        """Batches of the past rows, with and without rules that serve again."""
        more = sorted({*numbers, *list(undesired)[:8]})
        truths = {number: Truth(self.world, undesired[number]) for number in more}
        for reuse in (False, True):
            with self.guarded("batch"):
                batch = self.explainer.explain_many(more, workers=1, changes=True, reuse=reuse, progress=False)
                judge_batch(truths, batch, alone, self.tally)
                if reuse:
                    for explanation in list(batch)[:2]:
                        self._check(explanation, alter=False)

    def _recheck(self, explanations: list[Any]) -> None:
        """The explanations against a second model."""
        import ironrule

        second = self.subject.second
        if second is None or self.subject.intervals:
            return
        other = replace(self.subject, model=second, others=())
        with self.guarded("recheck"):
            texts = [rule.text for rule in self.subject.space_rules]
            explainer = ironrule.Explainer(second, self.data, constraints=texts, **other.arguments())
            world = self._build_world(other, explainer.space)
            judge_recheck(world, explainer.recheck(explanations, progress=False), explanations, self.tally)

    def _part(self, undesired: dict[int, Any]) -> None:
        """A part of the space, where a further constraint holds."""
        from benchmarks.fuzz.drawing import draw_space_rules

        rules = draw_space_rules(self.rng, self.subject.table)
        if not rules or self.subject.intervals or self.rng.random() < 0.5:
            return
        part = replace(self.subject, space_rules=(*self.subject.space_rules, *rules))
        with self.guarded("where"):
            explainer = self.explainer.where(rules[0].text)
            world = self._build_world(part, explainer.space)
            for number, point in list(undesired.items())[:2]:
                if world.index(point) is not None:
                    judge_explanation(Truth(world, point), explainer.explain(number), self.tally)


def _told(error: Exception) -> str:
    """An exception in one line, with the place that it comes from."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
    return f"{type(error).__name__}: {str(error)[:300]} ({place})"


def _component(feature: Any, op: Any, value: Any) -> Any:
    import ironrule

    return ironrule.Component.from_feature(feature, op, value)


def _budget(evaluations: int) -> Any:
    import ironrule

    return ironrule.Budget(evaluations=evaluations)
