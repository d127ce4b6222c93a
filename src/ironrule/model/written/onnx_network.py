"""An ONNX model as an estimator: networks can be read and proven about, any other model is asked.

ONNX is what torch, Keras and many more export to; onnxruntime runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.counting import counted
from ironrule.errors import InputError, MissingExtraError
from ironrule.model.written.trained import Floats, TrainedNetwork, check_classes

PASSING = frozenset(("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze"))
UNITWISE = frozenset(("Add", "Sub", "Mul", "Div", "Neg", "Concat"))  # a concatenation is of 1 - p and p
SCORES = frozenset(
    ("Gemm", "MatMul", "BatchNormalization", "Scaler", "Constant", "Relu", "LeakyRelu", "Tanh", "LogSoftmax")
)
CHANCES = frozenset(("Sigmoid", "Softmax"))
THREADS = 1  # small networks are run many times


@dataclass(frozen=True, slots=True)
class Face:
    """What goes into a graph and comes out: the input, its numbers' type, its rows and columns if they are fixed."""

    input: str
    kind: np.dtype[Any]
    rows: int | None
    columns: int | None
    output: str


@dataclass(eq=False)
class OnnxNetwork(TrainedNetwork):
    """An ONNX model, by its path or its bytes: ``classes`` in the order of its outputs, None for a regression.

    It must take one matrix, a row per instance. Whether its outputs are probabilities or scores (logits) is seen from
    its last step, where that is known; ``probabilities=True`` or ``False`` says it otherwise. ``output`` names the
    output to look at where several are numbers.

    >>> model = make_pipeline(StandardScaler().fit(table), OnnxNetwork("network.onnx"))    # doctest: +SKIP
    """

    source: str | Path | bytes = field(repr=False)
    classes: Sequence[Any] | None = (0, 1)
    probabilities: bool | None = None
    output: str | None = None
    face: Face = field(init=False, repr=False)
    _session: list[Any] = field(init=False, repr=False)  # made when it is first needed

    def __post_init__(self) -> None:
        check_classes(self.classes)
        model = _load(self.source)
        self.source = model.SerializeToString()
        self.face = _face(model.graph, self.output)
        self._session = []
        self._check_end(_ends(model.graph, self.face.output))

    def _check_end(self, ends: set[str]) -> None:
        said = _gives_probabilities(ends)
        if self.probabilities is None and said is None and self.classes is not None:
            raise InputError(
                "cannot tell whether the outputs of the model are probabilities: its last step is not known",
                hint="pass probabilities=True, or False for scores (logits)",
                code="probabilities-required",
            )
        if self.probabilities is not None and (said or "LogSoftmax" in ends):
            raise InputError("the end of the model says what its outputs are", hint="leave probabilities= out")
        if self.probabilities is None:
            self.probabilities = said

    def __getstate__(self) -> tuple[Any, ...]:
        return self.source, self.classes, self.probabilities, self.output, self.face

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names = ("source", "classes", "probabilities", "output", "face", "_session")
        for name, value in zip(names, (*state, []), strict=True):
            object.__setattr__(self, name, value)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""
        return bool(self.probabilities)

    @property
    def model(self) -> Any:
        """The model as onnx has it, functions of its own put in their places."""
        return _load(self.source)

    @property
    def n_features_in_(self) -> int:
        """How many columns the network takes, where it says so."""
        if self.face.columns is None:
            raise AttributeError("the model does not say how many columns it takes")
        return self.face.columns

    def run(self, rows: Floats) -> npt.NDArray[Any]:
        """The model's outputs for rows of numbers, by onnxruntime on the CPU."""
        with np.errstate(over="ignore"):
            numbers = rows.astype(self.face.kind)
        size = self.face.rows or len(numbers)
        parts = [self._run(numbers[start : start + size], size) for start in range(0, len(numbers), size)]
        return np.concatenate(parts)

    def _run(self, numbers: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
        """The outputs of some rows; where the model takes a fixed number of them, the last one fills up."""
        if not self._session:
            self._session.append(_open(self.source))
        filled = np.concatenate([numbers, np.repeat(numbers[-1:], size - len(numbers), axis=0)])
        answers = self._session[0].run([self.face.output], {self.face.input: filled})[0]
        return np.asarray(answers).reshape(size, -1)[: len(numbers)]


def _load(source: str | Path | bytes) -> Any:
    try:
        import onnx
        from onnx import inliner
    except ImportError:
        raise MissingExtraError("onnx", "onnx", "an OnnxNetwork") from None
    if not isinstance(source, bytes):
        model = onnx.load(str(source))
    else:
        try:
            model = onnx.load_model_from_string(source)
        except Exception as error:  # of the parser, which has no class of its own
            raise InputError(f"these bytes are not an ONNX model: {error}") from error
    return inliner.inline_local_functions(model) if model.functions else model


def _open(model: Any) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "running an OnnxNetwork") from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _face(graph: Any, output: str | None) -> Face:
    constants = {one.name for one in graph.initializer}
    inputs = [one for one in graph.input if one.name not in constants]
    if len(inputs) != 1:
        raise InputError(
            expected="the model must take one input, a matrix of all columns", got=counted(len(inputs), "input")
        )
    kind = inputs[0].type.tensor_type
    numbers = _kinds().get(kind.elem_type)
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    if numbers is None or len(dims) != 2:
        raise InputError(
            expected="the model's input must be a matrix of floating-point numbers, a row per instance",
            got=f"{counted(len(dims), 'dimension')} of {'other values' if numbers is None else numbers}",
        )
    return Face(inputs[0].name, numbers, dims[0] or None, dims[1] or None, _output(graph, output))


def _output(graph: Any, wanted: str | None) -> str:
    """The output to look at: the wanted one, or the only one that is a tensor of floating-point numbers."""
    found = [one.name for one in graph.output if one.type.tensor_type.elem_type in _kinds()]
    if wanted is not None and wanted not in found:
        raise InputError(expected=f"output must be one of {found}", got=repr(wanted))
    if wanted is None and len(found) != 1:
        zipped = any(node.op_type == "ZipMap" for node in graph.node)
        hint = "export it without its ZipMap (options={'zipmap': False})" if zipped else "name one: output=..."
        raise InputError(
            expected="the model must have one output of floating-point numbers",
            got=repr(found) if found else "none",
            hint=hint if found or zipped else None,
            code="output-required" if found and not zipped else None,
        )
    return wanted or str(found[0])


def _kinds() -> dict[int, np.dtype[Any]]:
    from onnx import TensorProto

    return {TensorProto.FLOAT: np.dtype(np.float32), TensorProto.DOUBLE: np.dtype(np.float64)}


def _ends(graph: Any, output: str) -> set[str]:
    """The steps that an output comes out of, as far back as factors and shifts go."""
    makers = {name: node for node in graph.node for name in node.output}
    waiting, seen = [output], set[str]()
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None:
            seen.add(node.op_type)
            inputs = node.input if node.op_type in UNITWISE else node.input[:1] if node.op_type in PASSING else ()
            waiting.extend(inputs)
    return seen


def _gives_probabilities(ends: set[str]) -> bool | None:
    """Whether what comes out of these is probabilities, None if that cannot be seen."""
    if ends & CHANCES:
        return True if "Concat" in ends or not ends & UNITWISE else None
    return False if ends <= SCORES | PASSING | UNITWISE else None
