"""The same boxes put to Marabou (Wu et al., "Marabou 2.0: A Versatile Formal Analyzer of Neural Networks", CAV 2024).

Ours are boxes of a finite space: the values seen. Marabou works on real intervals, so a box becomes, per column of the
network, the interval from the lowest to the highest value; it may then find a point between the values of the space.
That is counted apart; where Marabou proves that there is none, we must not have found one, and the other way round only
Marabou's tolerance can stand behind a difference.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.network_packs import Pack, Query
from benchmarks.proof_peers import run_in_session
from benchmarks.proof_tables import quantile
from ironrule.model.normal_form.network import Network

Answer = dict[str, Any]
READ = ("relu",)  # of logistic units it says at once that it does not know


def marabou(python: str, pack: Pack, queries: list[Query], limit: float) -> Answer:
    """Marabou's answers to boxes, in their order: fewer if it was ended before, none if it cannot read the network."""
    network = pack.read.normal_form
    assert isinstance(network, Network)
    kinds = {layer.activation.kind for layer in network.layers[:-1]}
    if not kinds <= set(READ) or len(network.alternatives) != 1:
        return {"answers": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _write(place, pack, queries, {"limit": limit})
        script = str(Path(__file__).with_name("marabou_part.py"))
        said = run_in_session([python, script, name], 120 + 1.5 * limit * len(queries))
        written = place / "marabou.json"
        if not written.exists():
            print(f"Marabou on {pack.name}: {said}")
            return {"answers": []}
        answer: Answer = json.loads(written.read_text())
    return answer


def _write(place: Path, pack: Pack, queries: list[Query], settings: Answer) -> None:
    network, columns = pack.read.normal_form, pack.read.columns
    assert isinstance(network, Network)
    (wanted,) = network.alternatives[0]
    last = network.layers[-1]
    scale = float(wanted.coefficients[0])
    arrays: dict[str, Any] = {"threshold": -wanted.offset}
    for k, layer in enumerate(network.layers):
        arrays[f"weights{k}"], arrays[f"bias{k}"] = layer.weights, layer.bias
    arrays[f"weights{len(network.layers) - 1}"] = last.weights * scale
    arrays[f"bias{len(network.layers) - 1}"] = last.bias * scale
    np.savez(place / "network.npz", **arrays)
    ranges = [
        [values[query.low[j] : query.high[j] + 1] for j, values in zip(columns.features, columns.values, strict=True)]
        for query in queries
    ]
    np.save(place / "low.npy", np.array([[part.min() for part in parts] for parts in ranges], dtype=np.float64))
    np.save(place / "high.npy", np.array([[part.max() for part in parts] for parts in ranges], dtype=np.float64))
    (place / "settings.json").write_text(json.dumps(settings))


def line(name: str, ours: list[Answer], theirs: list[Answer]) -> Answer:
    """One line of the table. Ratios are Marabou's time over ours, box by box; the time of an undecided box counts."""
    pairs = list(zip(ours, theirs, strict=False))
    return {
        "task": name,
        "asked": len(pairs),
        "undecided": sum(one["answer"] == "undecided" for one, _ in pairs),
        "Marabou undecided": sum(other["answer"] == "undecided" for _, other in pairs),
        "only Marabou decides": sum(one["answer"] == "undecided" != other["answer"] for one, other in pairs),
        "median ms": quantile([1000 * one["wall"] for one, _ in pairs], 0.5),
        "Marabou ms": quantile([1000 * other["wall"] for _, other in pairs], 0.5),
        "ratio": quantile([other["wall"] / one["wall"] for one, other in pairs], 0.5),
        "CPU ratio": quantile([other["cpu"] / one["cpu"] for one, other in pairs if one["cpu"] > 0], 0.5),
        "ratio, none": quantile([b["wall"] / a["wall"] for a, b in pairs if a["answer"] == "none"], 0.5),
        "ratio, found": quantile([b["wall"] / a["wall"] for a, b in pairs if a["answer"] == "found"], 0.5),
        "between values": sum(a["answer"] == "none" and b["answer"] == "found" for a, b in pairs),
        "Marabou misses": sum(a["answer"] == "found" and b["answer"] == "none" for a, b in pairs),
    }
