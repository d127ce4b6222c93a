"""The appendix's table, again: every system, one line each for the paper, CARLA's stored answers, and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.carla.findings import EXCHANGED, PUT_RIGHT
from benchmarks.carla.measures import AnswerMeasures, Judge, summarize
from benchmarks.carla.models import CarlaModel
from benchmarks.carla.optima import Optimum, find_optima, measure_gaps
from benchmarks.carla.paper_figures import PaperFigures, find_paper_figures
from benchmarks.carla.peers import PEERS
from benchmarks.carla.settings import Settings
from benchmarks.carla.stored_answers import StoredAnswers, exchange_columns, load_answers
from benchmarks.carla.systems import SYSTEMS, Absence, System, answer_rows
from ironrule.progress import track

Line = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """A model, its first denied rows, their proven optima, and who measures answers."""

    model: CarlaModel
    rows: list[int]
    judge: Judge
    optima: list[Optimum]

    @classmethod
    def prepare(cls, model: CarlaModel, settings: Settings) -> Bench:
        """Prove the optima of the first denied rows."""
        rows = model.list_denied_rows(settings.rows)
        return cls(
            model, rows, Judge(model), find_optima(model, rows, settings.budget, settings.list_norms(model.kind))
        )

    def measure(self, answers: Sequence[np.ndarray | None]) -> list[AnswerMeasures | None]:
        """Answers about the first of these rows."""
        return [
            self.judge.measure(self.model.encoded[row], answer) for row, answer in zip(self.rows, answers, strict=False)
        ]

    def write_line(self, system: System, who: str, measured: Sequence[AnswerMeasures | None], seeds: int = 1) -> Line:
        """What measured answers come to; those of several seeds one after the other."""
        optima = [optimum for _ in range(seeds) for optimum in self.optima[: len(measured) // seeds]]
        by_seed = np.array_split(np.array([one is not None for one in measured]), seeds)
        spread = [float(part.mean()) for part in by_seed]
        figures = {**summarize(measured), **measure_gaps(measured, optima)}
        more = {"seeds": seeds, "least success of a seed": min(spread)}
        return {"system": system.name, "who": who, **figures, **more}


def list_systems(model: CarlaModel) -> list[System]:
    """The systems that run on a model: on a network or a logistic regression, those that CARLA has for its library."""
    if model.kind == "forest" or model.data != "adult":
        return list(SYSTEMS)
    return [system for system in SYSTEMS if system.backend in (None, model.backend)]


def compare(model: CarlaModel, settings: Settings) -> list[Line]:
    """The table of one model."""
    bench, lines = Bench.prepare(model, settings), list[Line]()
    paper, stored = find_paper_figures(model.data, model.kind, model.backend), load_answers(model)
    wanted = [system for system in list_systems(model) if settings.wants(system.name, system.carla, system.paper)]
    for system in track(wanted, model.name, len(wanted)):
        if system.paper in paper:
            lines.append(_write_paper_line(system, paper[system.paper]))
        for answers in stored:
            if answers.method == system.carla:
                lines += _write_stored_lines(bench, system, answers)
        lines.append(_write_own_line(bench, system, settings))
        lines += _write_peer_lines(bench, system, settings)
    return lines


def _write_paper_line(system: System, figures: PaperFigures) -> Line:
    return {
        "system": system.name,
        "who": "paper",
        "redundancy": figures.redundancy,
        "violations": figures.violations,
        "success": figures.success,
        "CPU s": figures.seconds,
    }


def _write_stored_lines(bench: Bench, system: System, answers: StoredAnswers) -> list[Line]:
    """CARLA's answers as they are, and those of FOCUS with two columns put right."""
    rows = bench.model.encoded[bench.rows][: len(answers.rows)]
    if not np.allclose(rows, answers.rows[: len(rows)]):
        raise SystemExit(f"the rows of CARLA's {answers.method} must be the first that {bench.model.name} denies")
    who = f"CARLA {answers.version}"
    said = [(who, answers)]
    if answers.method == "focus":
        said.append((f"{who}, {PUT_RIGHT}", exchange_columns(answers, bench.model.columns, *EXCHANGED)))
    lines = []
    for name, one in said:
        line = bench.write_line(system, name, bench.measure(one.answers[: len(rows)]))
        lines.append({**line, "CPU s": answers.reported.get("cpu"), "set-up CPU s": answers.reported.get("setup")})
    return lines


def _write_own_line(bench: Bench, system: System, settings: Settings) -> Line:
    seeds = range(settings.seeds if system.draws else 1)
    measured: list[AnswerMeasures | None] = []
    taken, first = list[float](), list[float]()
    for seed in seeds:
        answers = answer_rows(bench.model, system, bench.rows, seed, settings.budget)
        if isinstance(answers, Absence):
            return {"system": system.name, "who": "ours", "note": answers.reason}
        measured += bench.measure(answers.answers)
        taken += [one.cpu for one in answers.taken]
        first.append(answers.first.cpu)
    line = bench.write_line(system, "ours", measured, len(seeds))
    return {**line, "CPU s": float(np.mean(taken)), "set-up CPU s": float(np.max(first))}


def _write_peer_lines(bench: Bench, system: System, settings: Settings) -> list[Line]:
    """The packages that have this system and whose environment is named."""
    lines = []
    for peer in PEERS:
        if peer.system == system.name and peer.package in settings.peers and peer.fits(bench.model):
            said = peer.ask(settings.peers[peer.package], bench.model, bench.rows, settings.budget)
            line = bench.write_line(system, peer.label, bench.measure(said.answers))
            lines.append({**line, "CPU s": float(np.mean(said.seconds)), "set-up CPU s": said.setup})
    return lines
