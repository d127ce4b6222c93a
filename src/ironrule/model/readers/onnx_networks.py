"""ONNX networks: a chain of matrix products, sums, activations and batch normalisation from the input to an output.

The graph is walked from its input on. What depends on constants alone is computed (only moves of numbers and
operations that are rounded once, so that every library gets the same). What depends on the input must be a chain of
steps, each a row at a time: every node takes a chain and constants and gives a longer chain, or is refused because it
would mix rows, bring two chains together, or do what no layer does. A probability p with 1 - p put beside it, as
exporters of scikit-learn write it, counts as the one probability that it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.decision import list_labels
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, Activation, Network
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.network_steps import (
    Affine,
    LibraryNetwork,
    OutputKind,
    Step,
    find_width,
    make_dense,
    make_leaky_relu,
    make_normalisation,
    make_unitwise,
    read_outputs,
    strip_final_logistic,
)
from ironrule.model.wrappers.networks import OnnxNetwork


@dataclass(frozen=True, slots=True, eq=False)
class StepChain:
    """What was done to the rows of the input so far; ``is_flat``: they have become single numbers."""

    steps: tuple[Step, ...]
    width: int | None
    dtype: np.dtype[Any]
    roundoff: float
    is_flat: bool = False
    output_kind: OutputKind | None = None

    def append(self, step: Step) -> StepChain:
        """One step more."""
        require_readable(self.output_kind is None, "its Softmax must come last")
        width = len(step.bias) if isinstance(step, Affine) else self.width
        return replace(self, steps=(*self.steps, step), width=width)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNode:
    """A node of the graph with the values that go into it."""

    op: str
    inputs: tuple[StepChain | AnyArray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def chain(self) -> StepChain:
        """The value that depends on the input; raises Unreadable unless it is the first one."""
        first = self.inputs[0]
        if not isinstance(first, StepChain):
            raise Unreadable(f"its {self.op} must have constants on the right")
        return first

    def constant(self, place: int) -> AnyArray | None:
        """The constant at a place, None where none is given; raises Unreadable if it depends on the input."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if isinstance(value, StepChain):
            raise Unreadable(f"its {self.op} brings together two values that depend on the input")
        return value

    def require_constant(self, place: int) -> AnyArray:
        """The constant at a place."""
        value = self.constant(place)
        if value is None:
            raise Unreadable(f"its {self.op} lacks its input number {place + 1}")
        return value


def find_roundoff(kind: np.dtype[Any]) -> float:
    """The unit roundoff of a type."""
    return SINGLE_ROUNDOFF if kind == np.dtype(np.float32) else DOUBLE_ROUNDOFF


def _to_floats(constant: AnyArray) -> Float64Array:
    return np.asarray(constant, dtype=np.float64)


def _broadcast_per_unit(node: OnnxNode, chain: StepChain, constant: AnyArray) -> Float64Array:
    """A constant as one number per unit of a row."""
    most = 1 if chain.is_flat else 2
    row = constant if constant.ndim < 2 else constant[0]
    rows_alike = constant.ndim < 2 or (constant.ndim == 2 and len(constant) == 1)
    if chain.width is None or not rows_alike or constant.ndim > most or row.size not in (1, chain.width):
        raise Unreadable(f"its {node.op} meets {chain.width} units with a constant of shape {constant.shape}")
    return np.broadcast_to(_to_floats(row).ravel(), chain.width)


def _require_matrix(node: OnnxNode, constant: AnyArray) -> Float64Array:
    chain = node.chain
    if constant.ndim != 2 or chain.is_flat or chain.width not in (None, len(constant)):
        raise Unreadable(f"its {node.op} meets {chain.width} units with weights of shape {constant.shape}")
    return _to_floats(constant)


def _gemm(node: OnnxNode) -> StepChain:
    alpha, beta = (float(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    require_readable(not node.attributes.get("transA", 0), "its Gemm turns its input")
    weights = node.require_constant(1).T if node.attributes.get("transB", 0) else node.require_constant(1)
    chain = node.chain.append(make_dense(_require_matrix(node, weights)))
    bias = node.constant(2)
    if alpha != 1.0:
        chain = chain.append(make_unitwise(np.full(chain.width or 0, alpha), np.zeros(1), 1))
    if bias is None:
        return chain
    shift = beta * _broadcast_per_unit(node, chain, bias)
    return chain.append(make_unitwise(np.ones(1), shift, 3 if beta != 1.0 else 1))


def _add(node: OnnxNode) -> StepChain:
    chain, constant = _split_operands(node)
    return chain.append(make_unitwise(np.ones(1), _broadcast_per_unit(node, chain, constant), 1))


def _sub(node: OnnxNode) -> StepChain:
    chain, constant = _split_operands(node)
    shift = _broadcast_per_unit(node, chain, constant)
    if isinstance(node.inputs[0], StepChain):
        return chain.append(make_unitwise(np.ones(1), -shift, 1))
    return chain.append(make_unitwise(-np.ones(1), shift, 1))


def _mul(node: OnnxNode) -> StepChain:
    chain, constant = _split_operands(node)
    return chain.append(make_unitwise(_broadcast_per_unit(node, chain, constant), np.zeros(1), 1))


def _div(node: OnnxNode) -> StepChain:
    chain, constant = node.chain, node.require_constant(1)
    with np.errstate(divide="ignore"):
        factor = 1.0 / _broadcast_per_unit(node, chain, constant)
    return chain.append(make_unitwise(factor, np.zeros(1), 3))


def _split_operands(node: OnnxNode) -> tuple[StepChain, AnyArray]:
    """The value that depends on the input and the constant, in whichever order they come."""
    first, second = node.inputs
    if isinstance(first, StepChain):
        return first, node.require_constant(1)
    assert isinstance(second, StepChain)
    return second, node.require_constant(0)


def _batch_normalisation(node: OnnxNode) -> StepChain:
    if node.attributes.get("training_mode", 0) or node.chain.is_flat:
        raise Unreadable("its BatchNormalization is in training mode, or comes after the rows were taken apart")
    factor, shift, mean, variance = (_to_floats(node.require_constant(place)) for place in (1, 2, 3, 4))
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return node.chain.append(make_normalisation(mean, variance, factor, shift, epsilon))


def _scaler(node: OnnxNode) -> StepChain:
    """``(inputs - offset) * scale``, as ONNX has it for scikit-learn; its numbers come out in single precision."""
    offset, scale = (np.asarray(node.attributes.get(name, default)) for name, default in (("offset", 0), ("scale", 1)))
    chain = node.chain
    require_readable(chain.dtype == np.dtype(np.float32), "its Scaler gets numbers that are not float32")
    moved = chain.append(make_unitwise(np.ones(1), -_broadcast_per_unit(node, chain, offset), 1))
    return moved.append(make_unitwise(_broadcast_per_unit(node, chain, scale), np.zeros(1), 1))


def _make_activation(activation: Activation) -> Callable[[OnnxNode], StepChain]:
    return lambda node: node.chain.append(activation)


def _make_softmax(ending: OutputKind) -> Callable[[OnnxNode], StepChain]:
    def step(node: OnnxNode) -> StepChain:
        if node.chain.is_flat or node.chain.output_kind is not None or node.attributes.get("axis", -1) not in (1, -1):
            raise Unreadable(f"its {node.op} must be over the outputs of a row")
        return replace(node.chain, output_kind=ending)

    return step


def _dropout(node: OnnxNode) -> StepChain:
    training = node.constant(2)
    if training is not None and bool(training):
        raise Unreadable("its Dropout is in training mode")
    return node.chain


def _cast(node: OnnxNode) -> StepChain:
    from onnx.helper import tensor_dtype_to_np_dtype

    chain, kind = node.chain, np.dtype(tensor_dtype_to_np_dtype(node.attributes["to"]))
    require_readable(kind in (np.dtype(np.float32), np.dtype(np.float64)), f"its Cast makes {kind} of the numbers")
    cast = replace(chain, dtype=kind, roundoff=max(chain.roundoff, find_roundoff(kind)))
    if kind == chain.dtype or kind == np.dtype(np.float64):
        return cast
    if chain.width is None or chain.output_kind is not None:
        raise Unreadable("its Cast makes numbers less precise where that cannot be followed")
    return cast.append(make_unitwise(np.ones(chain.width), np.zeros(1), 1))


def _flatten(node: OnnxNode) -> StepChain:
    if node.chain.is_flat or node.attributes.get("axis", 1) not in (1, -1):
        raise Unreadable("its Flatten mixes rows")
    return node.chain


def _reshape(node: OnnxNode) -> StepChain:
    chain, shape = node.chain, [int(size) for size in node.require_constant(1)]
    if chain.width == 1 and shape == [-1]:
        return replace(chain, is_flat=True)
    if chain.width == 1 and shape == [-1, 1]:
        return replace(chain, is_flat=False)
    same = len(shape) == 2 and shape[0] in (-1, 0) and shape[1] in (-1, 0, chain.width) and shape != [-1, -1]
    if not same or chain.is_flat or node.attributes.get("allowzero", 0) or (shape[0] == -1 and chain.width is None):
        raise Unreadable(f"its Reshape to {shape} may mix rows")
    return chain


def _squeeze(node: OnnxNode) -> StepChain:
    chain, axes = node.chain, node.constant(1)
    named = node.attributes.get("axes") if axes is None else [int(axis) for axis in axes]
    if chain.width != 1 or chain.is_flat or named not in (None, [1], [-1]):
        raise Unreadable("its Squeeze takes more away than the one column of its output")
    return replace(chain, is_flat=True)


def _concat(node: OnnxNode) -> StepChain:
    """Columns put side by side that are made by factors and shifts of the same values."""
    chains = [value for value in node.inputs if isinstance(value, StepChain)]
    shared = min(len(chain.steps) for chain in chains)
    base = replace(chains[0], steps=chains[0].steps[:shared], width=find_width(chains[0].steps[:shared]))
    if len(chains) < len(node.inputs) or node.attributes["axis"] not in (1, -1) or base.width is None:
        raise Unreadable("its Concat brings together what does not come from the same values")
    parts = [_find_unitwise_steps(base, chain) for chain in chains]
    matrix = np.hstack([part.matrix for part in parts])
    bias, sizes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("bias", "bias_sizes"))
    return base.append(Affine(matrix, bias, sizes, max(part.roundings for part in parts) + 1))


def _find_unitwise_steps(base: StepChain, chain: StepChain) -> Affine:
    """What makes a chain of its first steps: factors and shifts."""
    if any(step is not other for step, other in zip(base.steps, chain.steps, strict=False)) or chain.is_flat:
        raise Unreadable("its Concat brings together what does not come from the same values")
    whole = make_unitwise(np.ones(base.width or 0), np.zeros(1), 0)
    for step in chain.steps[len(base.steps) :]:
        if not isinstance(step, Affine) or not step.is_unitwise:
            raise Unreadable("its Concat brings together more than factors and shifts of the same values")
        whole = whole.compose(step)
    return whole


ONNX_STEPS: dict[str, Callable[[OnnxNode], StepChain]] = {
    "MatMul": lambda node: node.chain.append(make_dense(_require_matrix(node, node.require_constant(1)))),
    "Gemm": _gemm,
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Neg": lambda node: node.chain.append(make_unitwise(np.full(node.chain.width or 0, -1.0), np.zeros(1), 0)),
    "BatchNormalization": _batch_normalisation,
    "Scaler": _scaler,
    "Relu": _make_activation(Activation("relu")),
    "LeakyRelu": lambda node: node.chain.append(make_leaky_relu(float(node.attributes.get("alpha", 0.01)))),
    "Tanh": _make_activation(Activation("tanh")),
    "Sigmoid": _make_activation(Activation("logistic")),
    "Softmax": _make_softmax(OutputKind.SOFTMAX),
    "LogSoftmax": _make_softmax(OutputKind.LOG_SOFTMAX),
    "Identity": lambda node: node.chain,
    "Dropout": _dropout,
    "Cast": _cast,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Concat": _concat,
}

# that move numbers, or round once: what they give for constants is the same in every library
CONSTANT_OPERATIONS = frozenset(
    {"Constant", "Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Concat", "Slice", "Gather"}
    | {"ConstantOfShape", "Shape", "Expand", "Flatten", "Add", "Sub", "Mul", "Div", "Neg"}
)

OPERATION_DOMAINS = {"Scaler": "ai.onnx.ml"}  # where it is not ONNX itself


def read_onnx(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """The normal form of an OnnxNetwork; None for anything else."""
    if not isinstance(estimator, OnnxNetwork):
        return None
    require_own_methods(estimator)
    classes = None if estimator.classes is None else list_labels(estimator.classes_)
    return read_outputs(_describe_network(estimator), classes, desired, threshold)


def _describe_network(estimator: OnnxNetwork) -> LibraryNetwork:
    chain = _walk_graph(estimator)
    if chain.output_kind is not None:
        return LibraryNetwork(chain.steps, chain.output_kind, chain.roundoff)
    ending = OutputKind.PROBABILITIES if estimator.gives_probabilities else OutputKind.SCORES
    return strip_final_logistic(chain.steps, ending, chain.roundoff)


def _walk_graph(estimator: OnnxNetwork) -> StepChain:
    from onnx import numpy_helper

    model, signature = estimator.model, estimator.signature
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    values: dict[str, StepChain | AnyArray | None] = {"": None}
    values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values[signature.input] = StepChain((), signature.columns, signature.dtype, find_roundoff(signature.dtype))
    # ONNX lists nodes in an order in which every value is there before it is used.
    for node in _list_needed_nodes(model.graph, signature.output):
        values[node.output[0]] = _evaluate_node(node, tuple(values[name] for name in node.input), opsets)
    result = values[signature.output]
    if not isinstance(result, StepChain):
        raise Unreadable("its output does not depend on its input")
    return result


def _list_needed_nodes(graph: Any, output: str) -> list[Any]:
    """The nodes that an output depends on, in order."""
    wanted, needed = {output}, []
    # From the last node back: one is needed if a later one wants what it gives, and then its inputs are wanted too.
    for node in reversed(graph.node):
        if wanted & set(node.output):
            if node.output[0] not in wanted or wanted & set(node.output[1:]):
                raise Unreadable(f"the second output of its {node.op_type} is used")
            wanted |= set(node.input)
            needed.append(node)
    return needed[::-1]


def _evaluate_node(
    node: Any, inputs: tuple[StepChain | AnyArray | None, ...], opsets: dict[str, int]
) -> StepChain | AnyArray:
    from onnx.helper import get_attribute_value

    if node.domain not in (OPERATION_DOMAINS.get(node.op_type, ""), "ai.onnx"):
        raise Unreadable(f"its {node.op_type} of {node.domain!r} is not among the steps that can be read")
    if not any(isinstance(value, StepChain) for value in inputs):
        return _evaluate_constant(node, inputs, opsets)
    if node.op_type not in ONNX_STEPS:
        raise Unreadable(f"its {node.op_type} is not among the steps that can be read: {', '.join(sorted(ONNX_STEPS))}")
    attributes = {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}
    return ONNX_STEPS[node.op_type](OnnxNode(node.op_type, inputs, attributes))


def _evaluate_constant(node: Any, inputs: tuple[Any, ...], opsets: dict[str, int]) -> AnyArray:
    """The value of a node whose inputs are all constants."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type not in CONSTANT_OPERATIONS:
        raise Unreadable(f"its {node.op_type} of constants is not among those that can be computed here")
    feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    return np.asarray(ReferenceEvaluator(node, opsets=opsets).run(None, feeds)[0])
