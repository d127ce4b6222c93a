"""The half of methods_anchor_packages.py that runs in a package's own environment: anchor-exp or alibi.

    python -P benchmarks/paper/anchor_part.py FOLDER PACKAGE

FOLDER is what encoded.py writes: model.pkl, tables.npz, train.npy, rows.npy, settings.json. Written is anchors.json,
after every row: the anchor's conditions, exactly (the packages' own texts round bounds to two digits), its estimated
precision and coverage, and the time that the package took. Both packages are used with their defaults; fitting them
(quartiles of the table) is not counted. Of Ironrule only a model of its own, where that is explained, is imported.
"""

from __future__ import annotations

import json
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Settings = dict[str, Any]
Predict = Callable[[Any], Any]
Ask = Callable[[Any], dict[str, Any]]


def predictor(place: Path, settings: Settings, calls: list[int]) -> Predict:
    """The model's decision on rows of numbers: from numbers to codes, from codes to what its last step sees."""
    model = pickle.loads((place / "model.pkl").read_bytes())  # written by the other half, a moment ago
    if settings["frame"] is None:
        vars(model).pop("feature_names_in_", None)  # it would warn at every matrix without names
    with np.load(place / "tables.npz", allow_pickle=False) as arrays:
        features = arrays["features"].tolist()
        tables = [arrays[f"table{k}"] for k in range(len(features))]
        domains = [arrays[f"domain{j}"] for j in range(len(settings["names"]))]
    same = [np.array_equal(table, domains[j]) for j, table in zip(features, tables, strict=True)]

    def predict(numbers: Any) -> Any:
        numbers = np.asarray(numbers, dtype=np.float64)
        calls.append(len(numbers))
        codes = {
            j: np.searchsorted(domains[j], numbers[:, j])
            for j in {j for j, s in zip(features, same, strict=True) if not s}
        }
        seen = [numbers[:, j] if s else t[codes[j]] for j, t, s in zip(features, tables, same, strict=True)]
        matrix = np.stack(seen, axis=1)
        if settings["frame"] is None:
            return np.asarray(model.predict(matrix))
        import pandas as pd

        return np.asarray(model.predict(pd.DataFrame(matrix, columns=settings["frame"])))

    return predict


def anchor_exp(train: Any, settings: Settings, predict: Predict) -> Ask:
    """The authors' package."""
    from anchor.anchor_tabular import AnchorTabularExplainer

    class Exact(AnchorTabularExplainer):  # type: ignore[misc]
        """Notes an anchor before it becomes a text."""

        said: list[Any]

        def add_names_to_exp(self, data_row: Any, exp: Any, mapping: Any) -> None:
            self.said = [mapping[place] for place in exp["feature"]]
            super().add_names_to_exp(data_row, exp, mapping)

    categorical = {int(j): texts for j, texts in settings["categorical"].items()}
    explainer = Exact(["0", "1"], settings["names"], train, categorical)
    relations = {"leq": "<=", "geq": ">", "eq": "=="}

    def ask(row: Any) -> dict[str, Any]:
        found = explainer.explain_instance(row, predict)
        said = [
            [int(f), relations[op], float(v) if op == "eq" else float(explainer.disc.maxs[f][int(v)])]
            for f, op, v in explainer.said
        ]
        return {"conditions": said, "precision": found.precision(), "share covered": found.coverage()}

    return ask


def alibi(train: Any, settings: Settings, predict: Predict) -> Ask:
    """Seldon's package."""
    from alibi.explainers import AnchorTabular
    from alibi.utils.discretizer import Discretizer

    class Exact(AnchorTabular):  # type: ignore[misc]
        """Notes an anchor before it becomes a text."""

        said: list[Any]

        def add_names_to_exp(self, explanation: Any) -> None:
            self.said = []
            for place in explanation["feature"]:
                feature = self.enc2feat_idx[place]
                if place in self.cat_lookup:
                    self.said.append([feature, "==", float(self.cat_lookup[place])])
                    continue
                bins, cuts = self.ord_lookup[place], borders[feature]
                if min(bins) > 0:
                    self.said.append([feature, ">", float(cuts[min(bins) - 1])])
                if max(bins) < len(cuts):
                    self.said.append([feature, "<=", float(cuts[max(bins)])])
            super().add_names_to_exp(explanation)

    categorical = {int(j): texts for j, texts in settings["categorical"].items()}
    numeric = [j for j in range(train.shape[1]) if j not in categorical]
    discretizer = Discretizer(train, numeric, settings["names"])
    borders = {j: discretizer.lambdas[j].keywords["qts"] for j in numeric}
    explainer = Exact(predict, settings["names"], categorical_names=categorical or None, seed=settings["seed"])
    explainer.fit(train)

    def ask(row: Any) -> dict[str, Any]:
        found = explainer.explain(row)
        said = [[int(feature), relation, bound] for feature, relation, bound in explainer.said]
        return {"conditions": said, "precision": float(found.precision), "share covered": float(found.coverage)}

    return ask


PACKAGES = {"anchor-exp": anchor_exp, "alibi": alibi}


class TooLong(Exception):  # noqa: N818  # an answer, not a failure
    """The limit of a row is reached."""


def measured(ask: Ask, row: Any, limit: float, calls: list[int]) -> dict[str, Any]:
    """One row: its anchor, and what that took."""

    def end(*_: Any) -> None:
        raise TooLong

    calls.clear()
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        answer = ask(row)
    except TooLong:
        answer = {"failed": f"no anchor within {limit:.0f} s"}
    except Exception as error:
        answer = {"failed": repr(error)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return taken | answer | {"model calls": len(calls), "evaluations": sum(calls)}


def main() -> None:
    """Read, ask, write."""
    warnings.simplefilter("ignore")
    place, package = Path(sys.argv[1]), sys.argv[2]
    settings = json.loads((place / "settings.json").read_text())
    np.random.seed(settings["seed"])  # noqa: NPY002  # anchor-exp draws from the global state
    train, rows, calls = np.load(place / "train.npy"), np.load(place / "rows.npy"), [0]
    predict = predictor(place, settings, calls)
    known = np.load(place / "known.npy")
    if (predict(train[: len(known)]).astype(str) != known).any():
        raise SystemExit("the model must decide here as it does there, but it does not")
    ask = PACKAGES[package](train, settings, predict)
    ask(rows[0])  # warm
    answers = []
    for row in rows:
        answers.append(measured(ask, row, settings["limit"], calls))
        (place / "anchors.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
