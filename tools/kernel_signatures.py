"""For which types of arguments each kernel is compiled when a wheel is built.

    python -m tools.kernel_signatures

explains rows of several models and tables, and writes the types that came up to ``kernel_signatures.json``. To run it
again is needed where kernels, or the arrays that they get, have changed: what is not listed is compiled by the user.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import types as numba_types
from numba.core.dispatcher import Dispatcher

from ironrule.kernel_cache import KernelCache

FILE = Path(__file__).with_suffix(".json")
types: Any = numba_types  # whose own types are incomplete
_ARRAY = re.compile(r"(\w+)\[(\d)([ACF])\]")

Signatures = dict[str, list[Any]]
"""The full name of a kernel, and the encoded types of its arguments, once for each way it is called."""


def encode_type(kind: Any) -> Any:
    """A Numba type as what JSON can hold.

    >>> encode_type(types.Tuple((types.int64, types.Array(types.uint8, 2, "C"))))
    ['tuple', 'int64', 'uint8[2C]']
    """
    if isinstance(kind, types.BaseNamedTuple):
        home = kind.instance_class
        return [f"{home.__module__}:{home.__qualname__}", *[encode_type(item) for item in kind]]
    if isinstance(kind, types.BaseTuple):
        return ["tuple", *[encode_type(item) for item in kind]]
    if type(kind) is types.Array and kind.mutable and kind.aligned:
        return f"{kind.dtype}[{kind.ndim}{kind.layout}]"
    if getattr(types, str(kind), None) == kind:
        return str(kind)
    if kind == types.boolean:
        return "boolean"
    raise ValueError(f"the type {kind} cannot be written down")


def decode_type(encoded: Any) -> Any:
    """The Numba type that was encoded."""
    if isinstance(encoded, list):
        items = tuple(decode_type(item) for item in encoded[1:])
        if encoded[0] == "tuple":
            return types.BaseTuple.from_types(items)
        module, _, name = encoded[0].partition(":")
        return types.BaseTuple.from_types(items, getattr(importlib.import_module(module), name))
    if found := _ARRAY.fullmatch(encoded):
        return types.Array(decode_type(found[1]), int(found[2]), found[3])
    return getattr(types, "boolean" if encoded == "bool" else encoded)


def read_signatures(file: Path = FILE) -> Signatures:
    """The kernels and types that are compiled when a wheel is built."""
    read: Signatures = json.loads(file.read_text())
    return read


def list_kernels() -> Iterator[tuple[str, Any]]:
    """The kernels of all modules that are loaded, by their full names."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("ironrule."):
            for value in vars(module).values():
                if isinstance(value, Dispatcher) and isinstance(getattr(value, "_cache", None), KernelCache):
                    function: Any = value.py_func
                    if function.__module__ == name:
                        yield f"{name}.{function.__name__}", value


def list_used_signatures() -> Signatures:
    """The kernels that were called in this process, and with which types."""
    used: Signatures = {}
    for name, dispatcher in list_kernels():
        encoded = [[encode_type(kind) for kind in kinds] for kinds in dispatcher.signatures]
        if encoded:
            used[name] = sorted(encoded, key=repr)
    return dict(sorted(used.items()))


def write_signatures(signatures: Signatures, file: Path = FILE) -> None:
    """Write them, one signature per line."""
    kernels = []
    for name, ways in signatures.items():
        lines = ",\n".join(f"  {json.dumps(way)}" for way in ways)
        kernels.append(f'"{name}": [\n{lines}\n]')
    file.write_text("{\n" + ",\n".join(kernels) + "\n}\n")


def _build_table(rows: int = 1_000) -> Any:
    """Numbers with few and with many values, whole and not, yes and no, and a category."""
    from pandas import DataFrame

    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(18, 80, rows),
        "accounts": rng.integers(0, 9, rows),
        "income": rng.normal(50, 15, rows).round(2),
        "debt": rng.exponential(10, rows),
        "days": rng.integers(0, 100_000, rows),
        "owner": rng.integers(0, 2, rows).astype(bool),
        "region": rng.choice(["north", "south", "west"], rows),
    }
    return DataFrame(table)


def _build_models() -> dict[str, tuple[Any, Any]]:
    """A fitted model of each kind, with the table that it is explained on."""
    from lightgbm import LGBMClassifier
    from sklearn.base import clone
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.tree import DecisionTreeClassifier
    from xgboost import XGBClassifier

    from ironrule.data import load_german

    table = _build_table()
    numbers = table.drop(columns="region")
    whole = table[["age", "accounts", "days"]]
    wanted = (table.income - table.debt + 3 * table.owner + (table.region == "north") * 5 > 45).astype(int)
    whole_wanted = (table.age * 3 + table.accounts * 10 + table.days / 2_000 > 210).astype(int)

    def encode(scaled: bool) -> Any:
        others: Any = StandardScaler() if scaled else "passthrough"
        return make_column_transformer((OneHotEncoder(), ["region"]), remainder=others)

    classifiers: dict[str, Any] = {
        "tree": DecisionTreeClassifier(max_depth=6, random_state=0),
        "logistic": LogisticRegression(max_iter=1_000),
        "forest": RandomForestClassifier(20, max_depth=5, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
        "network": MLPClassifier((8,), max_iter=30, random_state=0),
    }
    models: dict[str, tuple[Any, Any]] = {}
    for name, classifier in classifiers.items():
        pipeline = make_pipeline(encode(name in ("logistic", "network")), classifier)
        models[name] = pipeline.fit(table, wanted), table
        another = clone(classifier)
        scaled = make_pipeline(StandardScaler(), another) if name in ("logistic", "network") else another
        models[f"{name}, whole numbers"] = scaled.fit(whole, whole_wanted), whole
    for name, classifier in {
        "histogram boosting": HistGradientBoostingClassifier(max_iter=20),
        "xgboost": XGBClassifier(n_estimators=30, max_depth=4, n_jobs=1),
        "lightgbm": LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1),
    }.items():
        models[name] = classifier.fit(numbers, wanted), numbers
    features, labels = load_german()
    names = [name for name in features.columns if features[name].dtype.kind not in "if"]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), names), remainder="passthrough")
    tree = DecisionTreeClassifier(max_depth=5, min_samples_leaf=20, random_state=0)
    models["credit"] = make_pipeline(encoder, tree).fit(features, labels == "good"), features
    return models


def _decide(rows: Any) -> Any:
    return rows["income"] - rows["debt"] + 3 * rows["owner"] > 45


def _decide_by_sum(rows: Any) -> Any:
    return rows["age"] + 5 * rows["accounts"] > 75


def _use_explainer(explainer: Any) -> None:
    """The calls that a first session with an explainer is likely to have."""
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    explanation = explainer.explain(row)
    explainer.judge(row, explanation, budget=5)
    explainer.counterfactuals(row, k=2, budget=5)
    explainer.counterfactuals(row, k=1, cost="l1", budget=5)
    explainer.ladder(row, most=4, budget=5)
    explainer.explain(row, "greedy_cf", budget=5)


def run_recipes() -> None:
    """Explain a row of every model, and run the demo."""
    from ironrule import Explainer
    from ironrule.cli import main as run_command

    for name, (model, table) in _build_models().items():
        print(name, flush=True)
        _use_explainer(Explainer(model, table, desired=model.classes_[1]))
    for decide in (_decide, _decide_by_sum):
        _use_explainer(Explainer(decide, _build_table()))
    for model in ("boosting", "tree"):
        run_command(["demo", "--model", model])


def main() -> None:
    """Run the recipes and write the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a network has not converged
        run_recipes()
    used = list_used_signatures()
    write_signatures(used)
    print(f"{len(used)} kernels, {sum(map(len, used.values()))} signatures: {FILE}")


if __name__ == "__main__":
    main()
