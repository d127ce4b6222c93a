"""ONNX networks: a chain of matrix products, sums, activations and batch normalisation from the input to an output.

The graph is walked from its input on. What depends on constants alone is computed (only moves of numbers and operations
that are rounded once, so that everybody gets the same); what depends on the input must be a chain of steps, each a row
at a time (:mod:`ironrule.model.readers.onnx_steps`). Anything else is named and refused. A probability p with 1 - p put
beside it, as exporters of scikit-learn write it, counts as the one probability that it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.model.network import Network
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.network_outputs import Described, Ending, described, read_outputs
from ironrule.model.readers.onnx_steps import STEPS, Array, Chain, Node, unit_of
from ironrule.model.reading import Unreadable
from ironrule.model.written.onnx_network import OnnxNetwork
from ironrule.space.table import as_python

MOVED = ("Constant", "Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather")
COMPUTED = frozenset((*MOVED, "ConstantOfShape", "Shape", "Expand", "Flatten", "Add", "Sub", "Mul", "Div", "Neg"))
DOMAINS = {"Scaler": "ai.onnx.ml"}  # where it is not ONNX itself


def read_onnx(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """Read an OnnxNetwork; None for anything else."""
    if not isinstance(estimator, OnnxNetwork):
        return None
    require_own_methods(estimator)
    classes = None if estimator.classes is None else [as_python(label) for label in estimator.classes_]
    return read_outputs(_described(estimator), classes, desired, threshold)


def _described(estimator: OnnxNetwork) -> Described:
    chain = _walk(estimator)
    if chain.ending is not None:
        return Described(chain.steps, chain.ending, chain.unit)
    ending = Ending.PROBABILITIES if estimator.gives_probabilities else Ending.SCORES
    return described(chain.steps, ending, chain.unit)


def _walk(estimator: OnnxNetwork) -> Chain:
    from onnx import numpy_helper

    model, face = estimator.model, estimator.face
    opsets = {one.domain: one.version for one in model.opset_import}
    values: dict[str, Chain | Array | None] = {"": None}
    values |= {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values[face.input] = Chain((), face.columns, face.kind, unit_of(face.kind))
    for node in _needed(model.graph, face.output):
        values[node.output[0]] = _value(node, tuple(values[name] for name in node.input), opsets)
    found = values[face.output]
    if not isinstance(found, Chain):
        raise Unreadable("its output does not depend on its input")
    return found


def _needed(graph: Any, output: str) -> list[Any]:
    """The nodes that an output depends on, in order."""
    wanted, needed = {output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            if node.output[0] not in wanted or wanted & set(node.output[1:]):
                raise Unreadable(f"the second output of its {node.op_type} is used")
            wanted |= set(node.input)
            needed.append(node)
    return needed[::-1]


def _value(node: Any, inputs: tuple[Chain | Array | None, ...], opsets: dict[str, int]) -> Chain | Array:
    from onnx.helper import get_attribute_value

    if node.domain not in (DOMAINS.get(node.op_type, ""), "ai.onnx"):
        raise Unreadable(f"its {node.op_type} of {node.domain!r} is not among the steps that can be read")
    if not any(isinstance(value, Chain) for value in inputs):
        return _computed(node, inputs, opsets)
    if node.op_type not in STEPS:
        raise Unreadable(f"its {node.op_type} is not among the steps that can be read: {', '.join(sorted(STEPS))}")
    attributes = {one.name: get_attribute_value(one) for one in node.attribute}
    return STEPS[node.op_type](Node(node.op_type, inputs, attributes))


def _computed(node: Any, inputs: tuple[Any, ...], opsets: dict[str, int]) -> Array:
    """The value of a node whose inputs are all constants."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type not in COMPUTED:
        raise Unreadable(f"its {node.op_type} of constants is not among those that can be computed here")
    feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    return np.asarray(ReferenceEvaluator(node, opsets=opsets).run(None, feeds)[0])
