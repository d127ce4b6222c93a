"""Marabou's half of benchmarks/networks.py marabou, in an environment of its own.

    python benchmarks/marabou_part.py FOLDER

FOLDER holds network.npz (weights and biases of every layer, and the threshold on the output), low.npy and high.npy (a
box per line, over the network's columns) and settings.json. Written is marabou.json: for every box whether a point with
an output of at least the threshold exists, and what that took. It imports nothing of Ironrule.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from maraboupy import Marabou, MarabouNetwork

WAYS = {"unsat": "none", "sat": "found"}


def built(weights: list[Any], biases: list[Any]) -> Any:
    """The network, of relu units, as Marabou's variables, equations and activations."""
    network = MarabouNetwork.MarabouNetwork()
    before = [network.getNewVariable() for _ in range(len(weights[0]))]
    network.inputVars = [np.array(before)]
    for k, (matrix, bias) in enumerate(zip(weights, biases, strict=True)):
        sums = [network.getNewVariable() for _ in bias]
        for i, total in enumerate(sums):
            network.addEquality([*before, total], [*matrix[:, i].tolist(), -1.0], -float(bias[i]))
        before = sums
        if k < len(weights) - 1:
            before = [network.getNewVariable() for _ in bias]
            for total, out in zip(sums, before, strict=True):
                network.addRelu(total, out)
    network.outputVars = [np.array(before)]
    return network


def decide(written: dict[str, Any], low: Any, high: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One box: the answer and what it took, building the query included."""
    wall, cpu = time.perf_counter(), time.process_time()
    network = built(written["weights"], written["biases"])
    for variable, a, b in zip(network.inputVars[0].tolist(), low.tolist(), high.tolist(), strict=True):
        network.setLowerBound(variable, a)
        network.setUpperBound(variable, b)
    network.setLowerBound(int(network.outputVars[0][0]), written["threshold"])
    options = Marabou.createOptions(timeoutInSeconds=int(settings["limit"]), verbosity=0, numWorkers=1)
    answer, values, _ = network.solve(verbose=False, options=options)
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "said": answer}
    if answer == "sat":
        taken["input"] = [values[variable] for variable in network.inputVars[0].tolist()]
    return taken | {"answer": WAYS.get(answer, "undecided")}


def main() -> None:
    """Read, decide, write."""
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    arrays = np.load(place / "network.npz")
    layers = range(len(arrays.files) // 2)
    network: dict[str, Any] = {
        "weights": [arrays[f"weights{k}"] for k in layers],
        "biases": [arrays[f"bias{k}"] for k in layers],
        "threshold": float(arrays["threshold"]),
    }
    low, high = np.load(place / "low.npy"), np.load(place / "high.npy")
    answers = []
    for a, b in zip(low, high, strict=True):
        answers.append(decide(network, a, b, settings))
        (place / "marabou.json").write_text(json.dumps({"answers": answers}, default=float))


if __name__ == "__main__":
    main()
