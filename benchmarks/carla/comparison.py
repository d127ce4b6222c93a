"""The appendix's table, again: every system, one line each for the paper, CARLA's stored answers, and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.carla.findings import EXCHANGED, PUT_RIGHT
from benchmarks.carla.measures import AnswerMeasures, Judge, summarize
from benchmarks.carla.models import CarlaModel
from benchmarks.carla.optima import Optimum, find_optima, measure_gaps
from benchmarks.carla.paper_figures import PaperFigures, find_paper_figures
from benchmarks.carla.peers import PEERS, Peer, PeerAnswers
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

        def remember(find: Callable[[], float | None], row: int, norm: str) -> float | None:
            what = settings.describe("optima", model.name, row=row, norm=norm)
            known = settings.journal.known(what) or settings.journal.add({"least": find()}, what)
            least: float | None = known["least"]
            return least

        optima = find_optima(model, rows, settings.budget, settings.list_norms(model.kind), remember)
        return cls(model, rows, Judge(model), optima)

    def measure(self, answers: Sequence[np.ndarray | None]) -> list[AnswerMeasures | None]:
        """Answers about the first of these rows."""
        return [
            self.judge.measure(self.model.encoded[row], answer) for row, answer in zip(self.rows, answers, strict=False)
        ]

    def write_line(self, system: System, who: str, *by_seed: Sequence[AnswerMeasures | None]) -> Line:
        """What measured answers come to, each seed's about the first of the rows."""
        measured = [one for part in by_seed for one in part]
        optima = [optimum for part in by_seed for optimum in self.optima[: len(part)]]
        spread = [float(np.mean([one is not None for one in part])) for part in by_seed if len(part)]
        figures = {**summarize(measured), **measure_gaps(measured, optima)}
        more = {
            "rows": max(map(len, by_seed)),
            "seeds": len(spread),
            "answers": len(measured),
            "least success of a seed": min(spread),
            "largest success of a seed": max(spread),
        }
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
    _compare_times(lines)
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
    measured: list[list[AnswerMeasures | None]] = []
    taken, first = list[float](), list[float]()
    for seed in range(settings.seeds if system.draws else 1):
        answers = answer_rows(bench.model, system, bench.rows, seed, settings, sum(taken))
        if isinstance(answers, Absence):
            return {"system": system.name, "who": "ours", "note": answers.reason}
        if answers.answers:
            measured.append(bench.measure(answers.answers))
            taken += answers.taken
            first.append(answers.first)
    if not measured:
        return {"system": system.name, "who": "ours", "note": "no time was left"}
    line = bench.write_line(system, "ours", *measured)
    return {**line, "CPU s": float(np.mean(taken)), "set-up CPU s": float(np.max(first))}


def _compare_times(lines: Sequence[Line]) -> None:
    """Add to each line how long it takes beside CARLA's system of that name, where CARLA's answers carry times."""
    for line in lines:
        theirs = [
            one["CPU s"]
            for one in lines
            if one["system"] == line["system"] and one["who"].startswith("CARLA") and one.get("CPU s") is not None
        ]
        if theirs and line["who"] == "ours" and "note" not in line:
            line["CPU beside CARLA's"] = line["CPU s"] / theirs[0]


def _write_peer_lines(bench: Bench, system: System, settings: Settings) -> list[Line]:
    """The packages that have this system and whose environment is named."""
    lines = []
    for peer in PEERS:
        if peer.system == system.name and peer.package in settings.peers and peer.fits(bench.model):
            said = _ask_peer(bench, peer, settings)
            line = bench.write_line(system, peer.label, bench.measure(said.answers))
            lines.append({**line, "CPU s": float(np.mean(said.seconds)), "set-up CPU s": said.setup})
    return lines


def _ask_peer(bench: Bench, peer: Peer, settings: Settings) -> PeerAnswers:
    """What a package answers; all rows are one question of the journal."""
    what = settings.describe("peers", bench.model.name, peer=peer.label, system=peer.system, rows=bench.rows)
    known = settings.journal.known(what)
    if known is None:
        said = peer.ask(settings.peers[peer.package], bench.model, bench.rows, settings.budget)
        answers = [None if one is None else one.tolist() for one in said.answers]
        known = settings.journal.add({"answers": answers, "cpu": said.seconds, "set-up": said.setup}, what)
    answers = [None if one is None else np.array(one) for one in known["answers"]]
    return PeerAnswers(answers, known["cpu"], known["set-up"])
