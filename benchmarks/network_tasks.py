"""The networks that benchmarks/networks.py trains, and the boxes that arise while their decisions are explained."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.network_packs import Pack, Query, file_name, load
from benchmarks.network_rows import State, explain, problem_of
from benchmarks.proof_models import DATA, Task
from ironrule import Proven, Unrefuted
from ironrule.backends.network.engine import CpuEngine
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.hitting.bits import list_members
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Run
from ironrule.rule.box import Box
from ironrule.search.driver import solve
from ironrule.search.minimum import Minimum
from ironrule.search.problem import Algorithm, Problem, SearchState
from ironrule.verdict.verdict import Verdict

NETWORKS: dict[str, dict[str, Any]] = {
    "10+10 relu": {"hidden_layer_sizes": (10, 10)},
    "20+20 relu": {"hidden_layer_sizes": (20, 20)},
    "50+50 relu": {"hidden_layer_sizes": (50, 50)},
    "20+20 tanh": {"hidden_layer_sizes": (20, 20), "activation": "tanh"},
    "20+20 logistic": {"hidden_layer_sizes": (20, 20), "activation": "logistic"},
    "100+100 relu": {"hidden_layer_sizes": (100, 100)},
    "ten layers of 10 relu": {"hidden_layer_sizes": (10,) * 10},
    "ten layers of 20 relu": {"hidden_layer_sizes": (20,) * 10},
}


def train(data: str, network: str, **options: Any) -> Task:
    """scikit-learn's defaults, or other options, on all rows: numbers scaled, categories one-hot."""
    table, target = DATA[data]()
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 200 rounds are the default, and what is explained here
        model = make_pipeline(encoder, MLPClassifier(random_state=0, **NETWORKS[network], **options)).fit(table, target)
    undesired = np.flatnonzero(np.asarray(model.predict(table)) == 0)
    return Task(data, network, model, table, undesired)


def prepare(folder: Path, data: str, network: str, rows: int, queries: int, seed: int, seconds: float) -> Pack:
    """Train a network, unless it is in the folder, record boxes in so many seconds per row and search, and write both
    to the folder.
    """
    name = f"{data}, {network}"
    pack = load(folder, name) if (folder / f"{file_name(name)}.pack").exists() else trained(data, network, seed)
    state = State(pack, CpuEngine())
    explain(state, pack.rows[0], seconds)  # what compiles shall not count as recording
    every = [recorded(state, row, -(-queries // rows), seed, seconds) for row in pack.rows[:rows]]
    asked, hard = (tuple(query for some in every for query in some[kind])[:queries] for kind in range(2))
    pack = replace(pack, queries=asked, hard=hard)
    pack.saved(folder)
    return pack


def trained(data: str, network: str, seed: int) -> Pack:
    """A network trained and read, without boxes."""
    task = train(data, network)
    explainer = task.explainer()
    ready = explainer._context
    if ready.compiled_model is None:
        raise RuntimeError(f"the network must be readable, but: {ready.unreadable_reason}")
    score = float((ready.outcomes == (DATA[data]()[1].to_numpy() == 1)).mean())
    rows = tuple(task.rows(len(task.undesired), seed))
    return Pack(
        task.name, explainer.space, ready.compiled_model.tabulated, history=ready.history, rows=rows, score=score
    )


@dataclass(frozen=True, slots=True)
class Deletion:
    """From the whole instance, one component after the other is left out where that is proven to do."""

    attempts: int = 1

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """The rule that is left."""
        rule = problem.allowed
        for bit in list_members(rule):
            if isinstance(problem.ask(rule & ~(1 << bit)), Proven):
                rule &= ~(1 << bit)
        state.best = [rule]
        return state.best


@dataclass(slots=True)
class Noting:
    """An oracle that notes the boxes that it is asked about, and whether it could decide them."""

    oracle: NetworkOracle
    boxes: list[tuple[Box, bool]]
    capabilities = NO_CAPABILITIES

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """The oracle's own answer."""
        verdict = self.oracle.find(query, run)
        self.boxes.append((query.box, not isinstance(verdict, Unrefuted)))
        return verdict


@dataclass(slots=True)
class Recorder:
    """A search whose questions to the oracle are noted."""

    inner: Algorithm
    boxes: list[tuple[Box, bool]] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        """As often as the search itself."""
        return self.inner.attempts

    def run(self, problem: Problem, state: SearchState) -> list[int]:
        """What the search finds."""
        oracle = problem.oracle.oracle
        assert isinstance(oracle, NetworkOracle)
        problem.oracle.oracle = Noting(oracle, self.boxes)
        return self.inner.run(problem, state)


def recorded(state: State, row: int, count: int, seed: int, seconds: float) -> tuple[list[Query], list[Query]]:
    """Two samples of the distinct boxes that arise while a row is explained, by deletion and by the minimum search: of
    all, and of those that were not decided on the way.
    """
    queries: dict[bytes, tuple[Query, bool]] = {}
    searches: dict[str, Algorithm] = {"deletion": Deletion(), "minimum": Minimum()}
    for kind, search in searches.items():
        recorder = Recorder(search)
        solve(problem_of(state, row, seconds), recorder)
        for box, decided in recorder.boxes:
            queries.setdefault(box.low.tobytes() + box.high.tobytes(), (Query(kind, row, box.low, box.high), decided))
    rng = np.random.default_rng([seed, row])
    every, hard = (
        [query for query, _ in queries.values()],
        [query for query, decided in queries.values() if not decided],
    )
    first, second = ([some[place] for place in rng.permutation(len(some))[:count]] for some in (every, hard))
    return first, second
