"""Families of models that are written down or only asked: scorecards, rule books, ONNX networks, functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fuzz.data import Column, Rng, Table, Wish, draw_table
from benchmarks.fuzz.drawing import draw_change_rules, draw_space_rules
from benchmarks.fuzz.recipes import pick
from benchmarks.fuzz.subjects import Decision, NotDrawn, Rule, Subject

KINDS = Wish(kinds=("int", "float", "float32", "flag", "text"), missing=True, forms=("pandas", "polars"), one_hot=False)
NUMBERS = Wish(kinds=("int", "float", "flag"), forms=("numpy", "pandas"), one_hot=False)


def _rules(rng: Rng, table: Table) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    space = draw_space_rules(rng, table) if rng.random() < 0.2 else ()
    return space, draw_change_rules(rng, table) if rng.random() < 0.3 else ()


def _subject(rng: Rng, make: Callable[[], Any], table: Table, decision: Decision) -> Subject:
    model, other = make(), make()
    space, change = _rules(rng, table)
    others = (other,) if rng.random() < 0.1 else ()
    return Subject(model, table, decision, others, False, space, change, second=other)


def _bins(rng: Rng, column: Column) -> Any:
    from ironrule import Bins

    missing = _points(rng)
    if column.kind == "text":
        return Bins(column.name, values={value: _points(rng) for value in column.domain}, missing=missing)
    edges = sorted({float(rng.choice(np.array(column.domain, dtype=float))) for _ in range(int(rng.integers(1, 4)))})
    return Bins(column.name, edges=edges, points=[_points(rng) for _ in range(len(edges) + 1)], missing=missing)


def _points(rng: Rng) -> float:
    return float(rng.integers(-5, 15)) if rng.random() < 0.7 else float(np.round(rng.normal(0, 5), 1))


def scorecard(rng: Rng) -> Subject:
    """A scorecard of random points, its cut-off among the sums that occur."""
    from ironrule import Scorecard

    table = draw_table(rng, KINDS)

    def make() -> Any:
        parts = [_bins(rng, column) for column in table.columns]
        sums = Scorecard(parts, cutoff=0.0).points(table.native())
        return Scorecard(parts, cutoff=float(rng.choice(sums)), classes=("denied", "approved"))

    return _subject(rng, make, table, Decision(("approved",)))


def rule_classifier(rng: Rng) -> Subject:
    """A rule book of one to three random rules."""
    from ironrule import Component, Rule, RuleClassifier

    table = draw_table(rng, KINDS)

    def component(column: Column) -> Any:
        value = pick(rng, *column.domain)
        return Component(column.name, "==" if column.kind == "text" else pick(rng, "<=", ">="), value)

    def make() -> Any:
        rules = []
        for _ in range(int(rng.integers(1, 4))):
            some = rng.permutation(len(table.columns))[: int(rng.integers(1, 3))]
            rules.append(Rule(tuple(component(table.columns[place]) for place in some)))
        return RuleClassifier(rules)

    return _subject(rng, make, table, Decision((1,)))


def two_layers(rng: Rng) -> Subject:
    """Sums of points through logistic functions, added and put through another one."""
    from ironrule import Subscale, TwoLayerAdditive

    table = draw_table(rng, KINDS)

    def make() -> Any:
        cut = int(rng.integers(1, len(table.columns) + 1))
        groups = [part for part in (table.columns[:cut], table.columns[cut:]) if part]
        scales = [
            Subscale(float(rng.normal(0, 4)), float(rng.normal()), [_bins(rng, column) for column in group])
            for group in groups
        ]
        return TwoLayerAdditive(scales, bias=float(rng.normal(0, 2)), classes=("good", "bad"))

    threshold = None if rng.random() < 0.5 else float(rng.uniform(0.2, 0.8))
    return _subject(rng, make, table, Decision((pick(rng, "good", "bad"),), threshold))


def onnx_network(rng: Rng) -> Subject:
    """A small network of random weights in ONNX's format, run by onnxruntime."""
    from ironrule import OnnxNetwork

    table = draw_table(rng, NUMBERS)
    outputs = int(pick(rng, 1, 2, 3))
    classes = (0, 1) if outputs == 1 else tuple(range(outputs))

    def make() -> Any:
        return OnnxNetwork(_graph(rng, len(table.columns), outputs), classes=classes)

    threshold = float(rng.uniform(0.3, 0.7)) if outputs < 3 and rng.random() < 0.4 else None
    return _subject(rng, make, table, Decision((1,), threshold))


def _graph(rng: Rng, inputs: int, outputs: int) -> bytes:
    """Two dense layers with an activation in between, in single precision."""
    from onnx import TensorProto, helper, numpy_helper

    units = int(rng.integers(2, 5))
    shapes = {"w1": (inputs, units), "b1": (units,), "w2": (units, outputs), "b2": (outputs,)}
    numbers = [
        numpy_helper.from_array((rng.normal(0, 1, shape) * (0.3 if name == "w1" else 1)).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node(str(pick(rng, "Relu", "Tanh", "Sigmoid")), ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, inputs]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, outputs]),
    ]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def torch_network(rng: Rng) -> Subject:
    """A small torch module of random weights."""
    import torch

    from ironrule import TorchNetwork

    table = draw_table(rng, NUMBERS)

    def make() -> Any:
        torch.manual_seed(int(rng.integers(0, 2**31)))
        parts = [torch.nn.Linear(len(table.columns), 4), pick(rng, torch.nn.ReLU(), torch.nn.Tanh())]
        return TorchNetwork(torch.nn.Sequential(*parts, torch.nn.Linear(4, 1)), classes=(0, 1))

    return _subject(rng, make, table, Decision((1,)))


class Lookup:
    """A function of codes: every row's score is looked up in a random table, so nothing can be read from it."""

    def __init__(self, table: Table, seed: int, share: float) -> None:
        self.columns, self.form, self.seed, self.share = table.columns, table.form, seed, share

    def __call__(self, rows: Any) -> Any:
        """A score for every row."""
        listed = rows.tolist() if self.form == "numpy" else rows.to_numpy().tolist()
        return np.array([self._score(row) for row in listed])

    def _score(self, row: list[Any]) -> float:
        places = [self._place(column, value) for column, value in zip(self.columns, row, strict=True)]
        if places[0] == 0 and places[-1] == 0:
            return 1.0
        return float(np.random.default_rng([self.seed, *places]).random() < self.share)

    def _place(self, column: Column, value: Any) -> int:
        if value is None or value != value:
            return len(column.domain)
        return column.domain.index(value)


def black_box(rng: Rng) -> Subject:
    """A plain function."""
    table = draw_table(rng, Wish(kinds=("int", "float", "text"), missing=True, most=3, one_hot=False, large=0.0))

    def make() -> Any:
        return Lookup(table, int(rng.integers(0, 2**31)), float(rng.choice([0.02, 0.1, 0.4])))

    return _subject(rng, make, table, Decision(None, None))


def estimator_only_asked(rng: Rng) -> Subject:
    """An estimator whose structure is no sum of trees or columns: nearest neighbours."""
    from sklearn.neighbors import KNeighborsClassifier

    table = draw_table(rng, Wish(kinds=("int", "flag"), most=3, one_hot=False, large=0.0))
    target = rng.integers(0, 2, len(table))
    if len(set(target.tolist())) < 2:
        raise NotDrawn("one class alone")

    def make() -> Any:
        return KNeighborsClassifier(n_neighbors=int(rng.integers(1, 4))).fit(table.native(), target)

    return _subject(rng, make, table, Decision((1,)))


SUBJECTS: tuple[tuple[str, Callable[[Rng], Subject], tuple[str, ...]], ...] = (
    ("scorecard", scorecard, ()),
    ("rule classifier", rule_classifier, ()),
    ("two layers", two_layers, ()),
    ("onnx network", onnx_network, ("onnx", "onnxruntime")),
    ("torch network", torch_network, ("torch",)),
    ("black box", black_box, ()),
    ("neighbours", estimator_only_asked, ()),
)
"""Families that are not fitted, with the libraries they need."""
