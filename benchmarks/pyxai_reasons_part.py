"""PyXAI's half of benchmarks/proofs.py, in an environment of its own. It imports nothing of Ironrule.

    python benchmarks/pyxai_reasons_part.py FOLDER

FOLDER holds model.pkl (the classifier alone), matrix.npy (what it sees) and settings.json: rows, methods, the limit in
seconds, and which columns of the matrix are one-hot columns of one feature. Written is pyxai_reasons.json, row by row.

Every reason is computed in a forked process, which is ended at the limit: `tree_specific_reason` with a time limit goes
on until the limit is reached, and `minimal_sufficient_reason` takes a limit but does not look at it. CPU time counts
the solvers that PyXAI starts. PyXAI knows (its "theory") that conditions on a number imply each other and that one
category excludes the others; without that its reasons are several times longer.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Settings = dict[str, Any]


def made_explainer(model: Any, settings: Settings, instance: Any) -> Any:
    """PyXAI's explainer for a classifier, with what it can know of the columns."""
    from pyxai import Explaining, Learning

    _, imported = Learning.ModelIO.import_models(model, instances_type="tabular")
    imported.learner_information.feature_names = settings["columns"]
    explainer = Explaining.initialize(imported, instance=instance)
    groups = {f"{prefix}*": tuple(range(count)) for prefix, count in settings["groups"].items()}
    explainer.set_features_type({"numerical": Learning.DEFAULT} | ({"categorical": groups} if groups else {}))
    return explainer


def reason_of(explainer: Any, method: str) -> Any:
    """A reason by one of the methods."""
    if method == "tree-specific":
        return explainer.tree_specific_reason(n_iterations=1)
    if method == "tree-specific, best of 50":
        return explainer.tree_specific_reason(n_iterations=50)
    if method == "sufficient":
        return explainer.sufficient_reason()
    if method == "minimal, first":
        only_the_first()
    return explainer.minimal_sufficient_reason()


def only_the_first() -> None:
    """PyXAI enumerates every reason to find the shortest, although its solver gives a shortest one first."""
    from pysat.examples.optux import OptUx
    from pyxai.sources.solvers.MUS.OPTUXSolver import OPTUXSolver

    def solve(self: Any, implicant: Any) -> Any:
        with OptUx(self.WCNF) as solver:
            return [implicant[place - 1] for place in solver.compute()]

    OPTUXSolver.solve = solve


def seconds_used() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def compute(explainer: Any, instance: Any, method: str, pipe: Any) -> None:
    """The forked process: one reason, and what it took."""
    os.setsid()  # so that solvers which PyXAI starts end with this process
    try:
        explainer.set_instance(instance)
        wall, cpu = time.perf_counter(), seconds_used()
        reason = reason_of(explainer, method)
        taken = {"wall": time.perf_counter() - wall, "cpu": seconds_used() - cpu}
        bounds = explainer.to_features(reason, details=True)
        counts = {"conditions": len(reason), "columns": len(bounds), "bounds": sum(map(len, bounds.values()))}
        said = [
            [one["name"], one["operator_sign_considered"].value, one["threshold"]] for b in bounds.values() for one in b
        ]
        pipe.send(taken | counts | {"said": said})
    except Exception as error:
        pipe.send({"failed": repr(error)})


def measured(explainer: Any, instance: Any, method: str, limit: float) -> dict[str, Any]:
    """One reason, or why there is none."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=compute, args=(explainer, instance, method, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else {"failed": f"no reason within {limit:.0f} s"}
    except EOFError:
        process.join(10)
        return {"failed": f"died, exit code {process.exitcode}"}
    finally:
        end(process)
        ours.close()


def end(process: Any) -> None:
    """End a process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def main() -> None:
    """Read, explain, write."""
    place = Path(sys.argv[1])
    settings = json.loads((place / "settings.json").read_text())
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    matrix = np.load(place / "matrix.npy")
    os.chdir(place)  # PyXAI writes files where it stands
    written: dict[str, Any] = {"failed": None, "answers": []}
    target = place / "pyxai_reasons.json"
    try:
        wall, cpu = time.perf_counter(), seconds_used()
        explainer = made_explainer(model, settings, matrix[settings["rows"][0]])
        written["set-up s"], written["set-up CPU s"] = time.perf_counter() - wall, seconds_used() - cpu
        checked = matrix[:: max(1, len(matrix) // 500)]
        theirs = np.array([explainer.predict(point) for point in checked])
        written["decides otherwise"] = float((theirs != model.predict(checked)).mean())
    except Exception as error:
        target.write_text(json.dumps(written | {"failed": repr(error)}))
        return
    for row in settings["rows"]:
        for method in settings["methods"]:
            answer = measured(explainer, matrix[row], method, settings["limit"])
            written["answers"].append({"row": row, "method": method} | answer)
            target.write_text(json.dumps(written, default=float))


if __name__ == "__main__":
    main()
