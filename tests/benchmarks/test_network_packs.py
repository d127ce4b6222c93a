"""The pure parts of the benchmark of networks, on a tiny one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.network_packs import Pack, Query, file_name, load
from benchmarks.network_queries import agreement, decide, line, speed, spread_out
from ironrule.backends.network.engine import CpuEngine
from ironrule.model.history import build_history
from ironrule.model.model_input import TabulatedColumns
from ironrule.model.normal_form.network import Activation, Layer, Network, OutputMargin
from ironrule.model.read_model import TabulatedModel
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from tiny_cases import codes_of, every_point


def tiny_pack(threshold: float) -> Pack:
    """Desired where a relu of the two features' sum passes a threshold."""
    space = Space(tuple(Feature(f"f{j}", tuple(range(9)), ordered=True) for j in range(2)))
    layers = (Layer(np.ones((2, 1)), np.zeros(1), Activation("relu")), Layer(np.ones((1, 1)), np.zeros(1)))
    network = Network(layers, ((OutputMargin(np.ones(1), -threshold),),))
    read = TabulatedModel(network, TabulatedColumns(np.arange(2), (np.arange(9.0), np.arange(9.0))))
    points = every_point(space)
    history = build_history(space, codes_of(space, points), points.sum(axis=1) > threshold)
    query = Query("deletion", 0, np.zeros(2, np.int32), np.full(2, 8, np.int32))
    return Pack("Tiny, 1 relu", space, read, history, (0,), 1.0, (query,))


def test_a_pack_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    pack = tiny_pack(9.5)
    pack.saved(tmp_path)
    again = load(tmp_path, pack.name)
    assert again.name == pack.name
    assert again.queries[0].high.tolist() == [8, 8]
    assert decide(again, again.queries[0], 5.0, CpuEngine())["answer"] == "found"


def test_what_was_not_prepared_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--prepare"):
        load(tmp_path, "HELOC, 10+10 relu")


def test_a_task_has_a_file_of_its_own() -> None:
    assert file_name("HELOC, 10+10 relu") != file_name("HELOC, 1010 relu")


@pytest.mark.parametrize(("threshold", "answer"), [(15.5, "found"), (16.5, "none")])
def test_a_box_is_decided(threshold: float, answer: str) -> None:
    pack = tiny_pack(threshold)
    found = decide(pack, pack.queries[0], 5.0, CpuEngine())
    assert found["answer"] == answer
    assert (found.get("point") == [8, 8]) == (answer == "found")


def test_shares_count_what_was_not_decided_in_time() -> None:
    answers = [
        {"answer": "found", "wall": 0.5, "parts": 0},
        {"answer": "none", "wall": 5.0, "parts": 20_000},
        {"answer": "undecided", "wall": 0.9, "parts": 0},
        {"answer": "none", "wall": 11.0, "parts": 0},
    ]
    told = line("task", "all", answers)
    assert (told["within 1 s"], told["within 10 s"]) == (0.25, 0.5)
    assert told["median ms"] == 5000
    assert told["parts a s"] == 4000


def test_an_engine_agrees_with_itself_and_has_a_speed() -> None:
    pack = tiny_pack(7.5)
    assert spread_out(pack, 3) is not None
    assert agreement(pack, CpuEngine(), 3) == {"same": 1.0, "closed alone": 0}
    assert (speed(pack, CpuEngine(), 3, 0.0) or 0.0) > 0.0
    assert spread_out(pack, 100_000) is None
