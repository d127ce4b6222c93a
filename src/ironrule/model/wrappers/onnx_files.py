"""ONNX files: load one, cut out a part of its graph, and run it.

onnxruntime runs models on one core of the CPU, since small ones are run many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ironrule.errors import InputError, MissingExtraError
from ironrule.model.wrappers.pretrained import require_model_path

ONNX_THREADS = 1


def load_onnx_file(source: str | Path | bytes) -> Any:
    """The model in a file or in its bytes, as onnx has it, functions of its own put in their places."""
    try:
        import onnx
        from onnx import inliner
    except ImportError:
        raise MissingExtraError("onnx", "onnx", "an ONNX model") from None
    if not isinstance(source, bytes):
        path = require_model_path(source, "an ONNX model")
        try:
            model = onnx.load(str(path))
        except Exception as error:  # likewise
            cause = str(error).strip().partition("\n")[0]
            raise InputError(f"cannot load the model in {path.name}: {type(error).__name__}: {cause}") from error
    else:
        try:
            model = onnx.load_model_from_string(source)
        except Exception as error:  # of the parser, which has no class of its own
            raise InputError(f"these bytes are not an ONNX model: {error}") from error
    return inliner.inline_local_functions(model) if model.functions else model


def open_onnx_session(source: bytes) -> Any:
    """A session of onnxruntime that runs a model."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "running an ONNX model") from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = ONNX_THREADS
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def read_attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node, texts decoded."""
    from onnx.helper import get_attribute_value

    return {attribute.name: _decode(get_attribute_value(attribute)) for attribute in node.attribute}


def _decode(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_decode(one) for one in value] if isinstance(value, list) else value


def map_makers(graph: Any) -> dict[str, Any]:
    """For every value that a node makes, that node."""
    return {name: node for node in graph.node for name in node.output if name}


def has_inner_graphs(graph: Any) -> bool:
    """Whether a node runs a graph of its own, as conditions and loops do."""
    return any(attribute.HasField("g") or len(attribute.graphs) for node in graph.node for attribute in node.attribute)


def iterate_needed_nodes(graph: Any, outputs: Iterable[str], given: Iterable[str] = ()) -> Iterator[Any]:
    """The nodes that some values are computed by, in their order, where others are given."""
    makers, known = map_makers(graph), set(given)
    waiting, needed = list(outputs), set[tuple[str, ...]]()
    while waiting:  # names of values that must be computed
        name = waiting.pop()
        node = None if name in known else makers.get(name)
        known.add(name)
        if node is not None:
            needed.add(tuple(node.output))
            waiting.extend(node.input)
    return (node for node in graph.node if tuple(node.output) in needed)


def cut_model(model: Any, inputs: list[Any], outputs: list[Any]) -> Any:
    """The part of a model that makes outputs of inputs; both as onnx describes values."""
    from onnx import ModelProto

    graph = model.graph
    nodes = list(iterate_needed_nodes(graph, [value.name for value in outputs], [value.name for value in inputs]))
    used = {name for node in nodes for name in node.input}
    part = ModelProto()
    part.CopyFrom(model)
    for field in ("node", "input", "output", "initializer", "value_info"):
        part.graph.ClearField(field)
    part.graph.node.extend(nodes)
    part.graph.input.extend(value for value in inputs if value.name in used or len(inputs) == 1)
    part.graph.output.extend(outputs)
    part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in used)
    return part
