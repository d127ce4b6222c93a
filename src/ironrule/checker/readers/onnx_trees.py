"""Read ONNX ensembles of trees and linear models (``ironrule.OnnxModel``), from the ``ai.onnx.ml`` specification.

The graph must begin with one of four operators on its input, and everything behind it must hand on what it gives. What
the specification leaves open is as onnxruntime has it:

- a number goes to the true branch where the comparison holds, and a missing one (for which only ``BRANCH_NEQ`` holds)
  where ``nodes_missing_value_tracks_true`` is 1, too;
- of two classes with weights for the first id alone, the score is the second class's: it is chosen above 0.5 where no
  weight is negative, else above 0; ``LOGISTIC`` makes it a probability, and without a transform the weights are ones;
- of more classes the first of the largest scores wins.

Scores are sums in single precision, in any order. Transforms are taken to be right to 64 units of rounding of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.checker.readers import boosted_trees, decisions, normal_form
from ironrule.checker.readers.boosted_trees import InnerNode
from ironrule.checker.readers.decisions import LinearContribution, ScoreSum
from ironrule.checker.readers.normal_form import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    ColumnTerm,
    EstimatorTarget,
    NoReading,
    RegressionTree,
    SumForm,
)
from ironrule.checker.readers.registry import identify_class

COMPARISONS = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "LinearClassifier", "LinearRegressor")
HANDING_ON = ("Identity", "Reshape", "Squeeze", "Flatten", "ZipMap")
TRANSFORM_ERROR = 64 * SINGLE_ROUNDOFF
LARGEST_NUMBER = 1e30
TO_INT64 = 7  # onnx.TensorProto.INT64
TO_FLOATS = (1, 11)
MOVING_STEPS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "ArrayFeatureExtractor", "Gather")


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A comparison of a column, in single or double precision, with a number."""

    column: int
    name: str
    number: float
    missing_left: bool
    precise: bool

    @property
    def turns_once(self) -> bool:
        return self.name not in ("BRANCH_EQ", "BRANCH_NEQ")

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values go to the true branch."""
        numbers = normal_form.to_float64(values) if self.precise else normal_form.round_to_float32(values)
        holds = COMPARISONS[self.name](numbers, self.number)
        return np.asarray(holds | (np.isnan(numbers) & self.missing_left), dtype=np.bool_)


def read_onnx_trees(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """What an OnnxModel decides; None if it is none, NoReading if it cannot be read."""
    if identify_class("ironrule", estimator) != "OnnxModel":
        return None
    name, attributes, precise, is_normalized = _find_operator(estimator.model)
    transform = attributes.get("post_transform", "NONE")
    if name.endswith("Regressor"):
        if target.threshold is None or transform != "NONE":
            raise NoReading("regressions are read with a threshold, and without a transform")
        score = _read_linear(attributes, 1)[0] if name[0] == "L" else _read_regression(attributes, precise)
        return decisions.decide_number(score, target.threshold, 4 * SINGLE_ROUNDOFF)
    labels: list[Any] = next((attributes[key] for key in attributes if key.startswith("classlabels_")), [])
    if list(labels) != list(estimator.classes_.tolist()):
        raise NoReading("its operator lists other classes")
    if name == "LinearClassifier":
        scores = _read_linear(attributes, len(attributes.get("intercepts", ())))
        return _decide_linear(scores, transform, len(labels), target)
    trees = _Trees(attributes, "class", len(labels), precise)
    if len(labels) == 2:
        return _decide_two(trees, transform, target)
    return _decide_many(trees, transform, is_normalized, target)


def _find_operator(model: Any) -> tuple[str, dict[str, Any], bool, bool]:
    """The operator's name and attributes, whether its input is in double precision, and whether its scores are
    divided by their sum.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    (entry,) = (one for one in graph.input if one.name not in constants)
    first, *others = graph.node
    if first.op_type not in OPERATORS or list(first.input) != [entry.name] or first.domain != "ai.onnx.ml":
        raise NoReading(f"the step {first.op_type} of this ONNX model is not the end of a model that is read")
    kind = entry.type.tensor_type.elem_type
    if kind not in TO_FLOATS:
        raise NoReading("its input holds no floating-point numbers")
    labels = first.output[0] if first.op_type.endswith("Classifier") else None
    handed, is_normalized = set(first.output), False
    for node in others:
        named = [name for name in node.input if name not in constants]
        one = len(named) == 1 and named[0] in handed
        if node.op_type == "Normalizer" and one and _read_attributes(node).get("norm") == "L1":
            is_normalized = True
        elif node.op_type == "Cast":
            one = one and labels in named and _read_attributes(node)["to"] == TO_INT64
        elif node.op_type == "Mul":
            one = one and all(_is_one(constants[name]) for name in node.input if name in constants)
        elif node.op_type not in HANDING_ON:
            one = False
        if not one:
            raise NoReading(f"the step {node.op_type} of this ONNX model comes behind its end and changes it")
        handed |= set(node.output)
        labels = node.output[0] if labels in named else labels
    return first.op_type, _read_attributes(first), kind == TO_FLOATS[1], is_normalized


def _read_attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    def decode(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [decode(one) for one in value]
        return value.decode() if isinstance(value, bytes) else value

    return {one.name: decode(helper.get_attribute_value(one)) for one in node.attribute}


def _is_one(tensor: Any) -> bool:
    from onnx import numpy_helper

    return bool((numpy_helper.to_array(tensor) == 1).all())


def _decide_two(trees: _Trees, transform: str, target: EstimatorTarget) -> SumForm:
    if trees.ids != {0} or len(trees.bases) > 1:
        raise NoReading("two classes are read with weights for the first id alone, and one base value")
    score, first = trees.add_up(0), target.desired_classes == (0,)
    if target.threshold is None or transform == "NONE":
        if target.threshold is not None and not trees.are_positive:
            raise NoReading("its scores are no probabilities")
        level = (0.5 if trees.are_positive else 0.0) if target.threshold is None else target.threshold
        noise = 0.0 if target.threshold is None else 4 * SINGLE_ROUNDOFF
        if not first:
            return SumForm(((score.build_margin_above(level, noise),),))
        # the first class: where a label, s <= level; where a probability, 1 - s > level
        if target.threshold is not None:
            return SumForm(((score.negate().build_margin_above(level - 1.0, noise + 4 * DOUBLE_ROUNDOFF),),))
        return SumForm(((score.build_margin_above(level, noise),),)).negate()
    if transform != "LOGISTIC":
        raise NoReading(f"a probability by {transform} is not read for two classes")
    return decisions.decide_logistic(score, target.threshold, TRANSFORM_ERROR, first=first)


def _decide_many(trees: _Trees, transform: str, is_normalized: bool, target: EstimatorTarget) -> SumForm:
    count = trees.classes
    if len(trees.bases) not in (0, count) or not (trees.bases or trees.are_complete):
        raise NoReading("a class may have no score")
    scores = [trees.add_up(place) for place in range(count)]
    if target.threshold is None:
        return decisions.decide_largest(scores, target.desired_classes, 0.0)
    if transform == "SOFTMAX":
        shifted = [replace(one, error=one.error + 2 * SINGLE_ROUNDOFF * one.size_bound) for one in scores]
        return decisions.decide_softmax(
            shifted, target.desired_classes, target.threshold, (count + 2) * TRANSFORM_ERROR
        )
    if transform != "NONE" or is_normalized:
        raise NoReading(f"a sum of probabilities by {transform} is not read")
    chosen = [scores[place] for place in target.desired_classes]
    total = ScoreSum(
        sum(one.offset for one in chosen),
        tuple(tree for one in chosen for tree in one.trees),
        error=sum(one.error for one in chosen) + 4 * SINGLE_ROUNDOFF,
    )
    return decisions.decide_number(total, target.threshold, 4 * count * DOUBLE_ROUNDOFF)


def _read_regression(attributes: dict[str, Any], precise: bool) -> ScoreSum:
    if int(attributes.get("n_targets", 1)) != 1:
        raise NoReading("it predicts several numbers")
    trees = _Trees(attributes, "target", 1, precise)
    how = attributes.get("aggregate_function", "SUM")
    if how not in ("SUM", "AVERAGE") or len(trees.bases) > 1:
        raise NoReading(f"trees that are put together by {how} with {len(trees.bases)} base values are not read")
    return trees.add_up(0, len(trees.roots) if how == "AVERAGE" else 1)


class _Trees:
    """The trees in an operator's attributes."""

    def __init__(self, attributes: dict[str, Any], prefix: str, classes: int, precise: bool) -> None:
        self.classes, self.precise = classes, precise
        self.bases = _read_numbers(attributes, "base_values")
        lists = [attributes[f"nodes_{key}"] for key in ("treeids", "nodeids", "featureids", "modes")]
        lists += [_read_numbers(attributes, "nodes_values")]
        lists += [attributes[f"nodes_{key}"] for key in ("truenodeids", "falsenodeids")]
        tracks = attributes.get("nodes_missing_value_tracks_true") or [0] * len(lists[0])
        try:
            rows = list(zip(*lists, tracks, strict=True))
        except ValueError:
            raise NoReading("the lists of its nodes are not of one length") from None
        self.nodes = {(row[0], row[1]): row[2:] for row in rows}
        self.roots: dict[int, int] = {}
        for tree, node, *_ in rows:
            self.roots.setdefault(tree, node)
        tree_order = [row[0] for row in rows]
        together = sum(a != b for a, b in pairwise(tree_order)) + 1 == len(self.roots)
        if len(self.nodes) != len(rows) or not together:
            raise NoReading("two of its nodes have one number, or its trees are mixed")
        self.weights: dict[tuple[int, int], dict[int, float]] = {}
        ids = [attributes[f"{prefix}_{key}"] for key in ("treeids", "nodeids", "ids")]
        for tree, node, place, weight in zip(*ids, _read_numbers(attributes, f"{prefix}_weights"), strict=True):
            given = self.weights.setdefault((tree, node), {})
            if place in given:
                raise NoReading("a leaf has two weights for one class")
            given[place] = weight
        self.ids = {place for given in self.weights.values() for place in given}
        self.are_positive = all(weight >= 0 for given in self.weights.values() for weight in given.values())
        self._require_trees()

    def _require_trees(self) -> None:
        """Raise NoReading unless the nodes below each root are all nodes of its tree, each reached once."""
        reached: set[tuple[int, int]] = set()
        leaves: set[tuple[int, int]] = set()
        waiting = list(self.roots.items())
        while waiting:
            node = waiting.pop()
            if node in reached or node not in self.nodes:
                raise NoReading("a node has two parents, or a child that does not exist")
            reached.add(node)
            _, mode, number, *children = self.nodes[node][:5]
            if mode == "LEAF":
                leaves.add(node)
            elif mode not in COMPARISONS or not np.isfinite(number):
                raise NoReading(f"a node with the mode {mode} and the number {number} is not read")
            else:
                waiting += [(node[0], child) for child in children]
        if len(reached) != len(self.nodes) or leaves != self.weights.keys() or not self.ids <= set(range(self.classes)):
            raise NoReading("a node is in no tree, or weights are not those of the leaves and classes")

    @property
    def are_complete(self) -> bool:
        """Whether each class has, in some tree, a weight at all leaves."""
        by_tree: dict[int, set[int]] = {}
        for (tree, _), given in self.weights.items():
            by_tree[tree] = by_tree.get(tree, set(given)) & set(given)
        return set().union(*by_tree.values()) == set(range(self.classes))

    def add_up(self, place: int, divisor: int = 1) -> ScoreSum:
        """The score of one class, its trees divided by a number."""
        base = self.bases[place] if self.bases else 0.0
        trees = [self._build(tree, root, place).scale(1.0 / divisor) for tree, root in self.roots.items()]
        size = abs(base) + sum(map(decisions.measure_tree, trees))
        if not size < LARGEST_NUMBER:
            raise NoReading("its scores may leave the range of single precision")
        error = (len(trees) + 4) * 1.05 * SINGLE_ROUNDOFF * size + 1e-37  # in any order, with a base and a quotient
        return ScoreSum(base, tuple(trees), error=error, size_bound=size + error)

    def _build(self, tree: int, root: int, place: int) -> RegressionTree:
        def look(node: int) -> InnerNode[int] | float:
            column, mode, number, true, false, tracks = self.nodes[tree, node]
            if mode == "LEAF":
                return self.weights[tree, node].get(place, 0.0)
            return _Comparison(column, mode, float(number), tracks == 1, self.precise), true, false

        return boosted_trees.build_tree(root, look)


def _read_numbers(attributes: dict[str, Any], name: str) -> list[float]:
    """Numbers that are given as a list or as a tensor; all must be finite."""
    from onnx import numpy_helper

    found = attributes.get(name) or []
    if f"{name}_as_tensor" in attributes:
        tensor = numpy_helper.to_array(attributes[f"{name}_as_tensor"])
        if tensor.dtype != np.float32:
            raise NoReading(f"{name} in double precision are not read")
        found = tensor.ravel().tolist()
    if not np.isfinite(np.array(found, dtype=np.float64)).all():
        raise NoReading(f"one of its {name} is not finite")
    return [float(one) for one in found]


def _read_linear(attributes: dict[str, Any], count: int) -> list[ScoreSum]:
    """The linear scores, products and sums in single precision in any order."""
    weights = np.array(attributes["coefficients"], dtype=np.float64)
    starts = list(attributes.get("intercepts") or [0.0] * count)
    if not count or len(starts) != count or len(weights) % count or int(attributes.get("targets", 1)) != 1:
        raise NoReading("its coefficients do not make one list for every score")
    if not (np.isfinite(weights).all() and np.isfinite(starts).all()):
        raise NoReading("a coefficient is not finite")
    rows = weights.reshape(count, -1)
    relative = (rows.shape[1] + 8) * SINGLE_ROUNDOFF  # casting the number itself included
    scores = []
    for row, start in zip(rows.tolist(), starts, strict=True):
        terms = tuple(
            ColumnTerm(k, LinearContribution(weight, LARGEST_NUMBER), monotone=True) for k, weight in enumerate(row)
        )
        scores.append(ScoreSum(float(start), (), terms, rows.shape[1] * 2.0**-125, relative))
    return scores


def _decide_linear(scores: Sequence[ScoreSum], transform: str, classes: int, target: EstimatorTarget) -> SumForm:
    """One score of two classes decides by its sign; else the first of the largest wins."""
    if len(scores) not in (1, classes) or (len(scores) == 1 and classes != 2):
        raise NoReading(f"{len(scores)} linear scores for {classes} classes are not read")
    if target.threshold is None:
        if len(scores) > 1:
            return decisions.decide_largest(scores, target.desired_classes, 0.0)
        chosen = scores[0] if target.desired_classes == (1,) else scores[0].negate()
        return SumForm(((chosen.build_margin_above(0.0, 1e-37),),))
    if classes != 2 or len(scores) != 2:
        raise NoReading("thresholds on probabilities are read for two classes with a score each")
    if transform == "SOFTMAX":
        return decisions.decide_softmax(scores, target.desired_classes, target.threshold, TRANSFORM_ERROR)
    mirrored = all(
        [one.contribution.weight for one in scores[0].terms][k] == -other.contribution.weight  # type: ignore[attr-defined]
        for k, other in enumerate(scores[1].terms)
    )
    if transform != "LOGISTIC" or not mirrored or scores[0].offset != -scores[1].offset:
        raise NoReading(f"a probability by {transform} is not read here")
    return decisions.decide_logistic(scores[target.desired_classes[0]], target.threshold, TRANSFORM_ERROR)


def list_unordered_inputs(model: Any, width: int) -> Iterator[tuple[int, str]]:
    """The columns of an OnnxModel, by position, that come to a step which may not keep the order of their numbers."""
    graph = model.model.graph
    constants = {tensor.name for tensor in graph.initializer}
    entries = [one.name for one in graph.input if one.name not in constants]
    for place, entry in enumerate(entries):
        odd = _find_disordering_step(graph, entry, constants)
        if odd is not None:
            reason = f"the step {odd} of an ONNX model may tell single numbers apart"
            yield from ((column, reason) for column in (range(width) if len(entries) == 1 else (place,)))


def _find_disordering_step(graph: Any, entry: str, constants: set[str]) -> str | None:
    carried = {entry}
    for node in graph.node:
        if not carried & set(node.input) or node.op_type in OPERATORS:
            continue
        attributes, name = _read_attributes(node), node.op_type
        first_alone = not carried & set(node.input[1:])  # the others say where to
        fine = name == "Concat" or (name in (*MOVING_STEPS, "Scaler") and first_alone)
        if name in ("Add", "Sub", "Mul"):  # a number and a constant: rounded once
            fine = any(one in constants for one in node.input)
        elif name == "Div":
            fine = node.input[1] in constants
        elif name == "Cast":
            fine = attributes["to"] in TO_FLOATS
        elif name == "Imputer":
            replaced = attributes.get("replaced_value_float", 0.0)
            fine = replaced != replaced and "imputed_value_floats" in attributes
        if not fine:
            return str(name)
        carried |= set(node.output)
    return None
