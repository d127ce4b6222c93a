"""Second reading of ONNX networks (``ironrule.OnnxNetwork``), from the ONNX operator specification.

The graph must be a chain of steps from its one input to the output that the estimator looks at: every step takes what
the step before gave, and constants. What each does is in :mod:`~ironrule.checker.readings.onnx_steps`.

What ``predict`` and ``predict_proba`` make of the outputs (the estimator's documentation): one output for two classes
speaks for the second one, a score by its sign, a probability by being above one half; with an output per class the
first of the largest wins. Scores become probabilities by a logistic function or a softmax, in double precision;
probabilities stay as they are. Without classes the one output is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.checker.readings.library_class import name_in
from ironrule.checker.readings.network_decisions import (
    decide_logistic,
    decide_number,
    decide_own_probabilities,
    decide_own_probability,
    decide_softmax,
)
from ironrule.checker.readings.network_form import DOUBLE, SINGLE, Layer, NetworkReading
from ironrule.checker.readings.normal_form import Question, Unreadable
from ironrule.checker.readings.onnx_steps import STEPS, Chain, Step, product_weights, read_step

ATTRIBUTES = {"source", "classes", "probabilities", "output", "face", "_session"}  # those of an unchanged OnnxNetwork


def read_onnx(estimator: Any, question: Question) -> NetworkReading | None:
    """Read an OnnxNetwork; None for anything else, Unreadable for what has no reading."""
    own = type(estimator).__module__.startswith("ironrule.model.written.")
    if not own or name_in("ironrule", estimator) != "OnnxNetwork":
        return None
    replaced = sorted(set(vars(estimator)) - ATTRIBUTES)
    if replaced:
        raise Unreadable(f"the {replaced[0]} of this OnnxNetwork was replaced")
    face = estimator.face
    steps = _collect_steps(_load_graph(estimator.source), face.input, face.output)
    width = face.columns or next((len(product_weights(step)) for step in steps if step.name in ("Gemm", "MatMul")), 0)
    chain = Chain(width, DOUBLE if face.kind == np.dtype(np.float64) else SINGLE, face.rows)
    for step in steps:
        read_step(step, chain)
    if not chain.layers:
        chain.append(np.eye(width), np.zeros(width))
    return _decide(chain, estimator, question)


def _decide(chain: Chain, estimator: Any, question: Question) -> NetworkReading:
    layers, unit, probabilities = tuple(chain.layers), chain.unit, bool(estimator.gives_probabilities)
    if estimator.classes is None:
        if chain.width != 1 or chain.end or question.threshold is None:
            raise Unreadable("a regression must have one output, of numbers, and a threshold")
        return decide_number(layers, question.threshold, unit)
    classes = len(estimator.classes)
    if chain.end and probabilities == (chain.end == "LogSoftmax"):
        raise Unreadable(f"the model ends in {chain.end}, but its outputs are taken for something else")
    if classes < 2 or chain.width not in ((1, 2) if classes == 2 else (classes,)):
        raise Unreadable(f"an output for each of {classes} classes is expected, got {chain.width}")
    if chain.end in ("Softmax", "LogSoftmax") or (chain.width > 1 and not probabilities):
        return decide_softmax(layers, question, unit, unit if chain.end else DOUBLE)
    if chain.width > 1:
        return decide_own_probabilities(layers, question, unit)
    if not probabilities:
        return decide_logistic(layers, question, unit, DOUBLE)
    last = layers[-1]
    if last.activation.kind == "logistic":
        return decide_logistic((*layers[:-1], Layer(last.weights, last.bias)), question, unit, unit)
    return decide_own_probability(layers, question, unit)


def _load_graph(source: bytes) -> Any:
    """The graph, with the model's own functions put in their places."""
    import onnx
    from onnx import inliner

    model = onnx.load_model_from_string(source)
    return (inliner.inline_local_functions(model) if model.functions else model).graph


def _collect_steps(graph: Any, start: str, output: str) -> list[Step]:
    """The steps from the input to an output, in order; raises Unreadable where they are no chain or not known."""
    from onnx import helper, numpy_helper

    makers = {name: node for node in graph.node for name in node.output}
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and [one.name for one in node.attribute] == ["value"]:
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    steps, wanted = list[Step](), output
    while wanted != start:
        node = makers.get(wanted)
        if node is None or wanted != node.output[0] or len(steps) > len(graph.node):
            raise Unreadable("the steps of this ONNX model are no chain from its input to its output")
        step_inputs = list(node.input)
        if node.op_type == "Concat" and len(step_inputs) == 2:
            step_inputs = _take_complement(step_inputs, makers, constants)
        varying = [place for place, name in enumerate(step_inputs) if name and name not in constants]
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        domains = ("ai.onnx.ml",) if node.op_type == "Scaler" else ("", "ai.onnx")
        step = Step(node.op_type, attributes, tuple(map(constants.get, step_inputs)), varying[0] if varying else -1)
        if node.op_type not in STEPS or node.domain not in domains or not set(attributes) <= STEPS[node.op_type][1]:
            raise step.refuse("it, or one of its attributes, is not known")
        if len(varying) != 1:
            raise step.refuse("the steps of the model are no chain of layers")
        steps.append(step)
        wanted = step_inputs[varying[0]]
    return steps[::-1]


def _take_complement(inputs: list[str], makers: dict[str, Any], constants: dict[str, Any]) -> list[str]:
    """The probability p alone if 1 - p and p are put together, as exports of two classes do."""
    node = makers.get(inputs[0])
    if node is not None and node.op_type == "Sub" and node.domain == "" and list(node.input)[1:] == inputs[1:]:
        one = constants.get(node.input[0])
        if one is not None and one.ndim <= 2 and one.size == 1 and one.item() == 1.0:
            return inputs[1:]
    return inputs
