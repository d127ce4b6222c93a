"""Networks that were trained elsewhere, with the methods of a scikit-learn estimator: torch modules and ONNX models.

A network answers a row of numbers with one or several outputs. With classes these are scores or probabilities:

- one output for two classes: a score decides by its sign for the second class, a probability by being above one half;
- one output per class: the largest wins, the first one in a tie.

Probabilities of scores are their logistic function or their softmax, computed in double precision. Without classes
the network is a regression, and its output is the prediction.

``nn.Sequential`` modules of torch and ONNX graphs that are a chain of layers can be read and proven about; any other
network is asked. ONNX is what torch, Keras and many more export to; onnxruntime runs it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.errors import InputError, MissingExtraError, ModelError, describe_value
from ironrule.model.model_input import as_matrix
from ironrule.model.wrappers.onnx_files import load_onnx_file, open_onnx_session
from ironrule.model.wrappers.pretrained import PretrainedModel, require_distinct_classes
from ironrule.wording import format_count


class TrainedNetwork(PretrainedModel):
    """A network with the methods of a fitted estimator; not frozen, because scikit-learn sets its attributes."""

    classes: Sequence[Any] | None

    @property
    @abstractmethod
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""

    @abstractmethod
    def run(self, rows: Float64Array) -> AnyArray:
        """The network's outputs for rows of numbers, in its own arithmetic."""

    def outputs(self, table: Any) -> Float64Array:
        """What the network answers, a row of outputs per row of the table, in double precision."""
        rows = np.array(as_matrix(table), dtype=np.float64)
        answers = np.asarray(self.run(rows), dtype=np.float64).reshape(len(rows), -1)
        if not np.isfinite(answers).all():
            wrong = int((~np.isfinite(answers)).any(axis=1).sum())
            raise ModelError(
                expected="the network's outputs must be finite",
                got=f"NaN or infinity for {wrong} of {format_count(len(rows), 'row')}",
                hint="check its weights and its inputs",
            )
        return answers

    @property
    def classes_(self) -> AnyArray:
        """The labels."""
        if self.classes is None:
            raise AttributeError("a network without classes predicts numbers")
        return np.array(self.classes)

    @property
    def predict_proba(self) -> Callable[[Any], Float64Array]:
        """The probabilities of all classes, for a table."""
        if self.classes is None:
            raise AttributeError("a network without classes predicts numbers, not probabilities")
        return self._compute_probabilities

    def _compute_probabilities(self, table: Any) -> Float64Array:
        answers = self._require_output_count(self.outputs(table))
        if not self.gives_probabilities:
            return _compute_two_probabilities(answers[:, 0]) if answers.shape[1] == 1 else _compute_softmax(answers)
        return np.hstack([1.0 - answers, answers]) if answers.shape[1] == 1 else answers

    def predict(self, table: Any) -> AnyArray:
        """The class of every row, or its number."""
        answers = self.outputs(table)
        if self.classes is None:
            return answers[:, 0] if answers.shape[1] == 1 else answers
        answers = self._require_output_count(answers)
        if answers.shape[1] > 1:
            return np.asarray(self.classes_[answers.argmax(axis=1)])
        second = answers[:, 0] > (0.5 if self.gives_probabilities else 0.0)
        return np.asarray(self.classes_[second.astype(np.intp)])

    def _require_output_count(self, answers: Float64Array) -> Float64Array:
        """The answers, if they are as many as the classes ask for."""
        count = 0 if self.classes is None else len(self.classes)
        if answers.shape[1] != count and not (answers.shape[1] == 1 and count == 2):
            raise InputError(
                expected="the network must have one output per class, or one for two classes",
                got=f"{format_count(answers.shape[1], 'output')} for {count} classes",
                hint="pass classes=[...]",
                code="network-classes",
            )
        return answers

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels; numbers otherwise."""
        return self.classes is not None


def raise_unknown_outputs(network: str) -> NoReturn:
    """Raise InputError about a network whose last step does not say what its outputs are."""
    raise InputError(
        f"cannot tell whether the outputs of {network} are probabilities: its last step is not known",
        hint="pass probabilities=True, or False for scores (logits)",
        code="probabilities-required",
    )


def _compute_two_probabilities(scores: Float64Array) -> Float64Array:
    with np.errstate(over="ignore"):
        return np.stack([1.0 / (1.0 + np.exp(scores)), 1.0 / (1.0 + np.exp(-scores))], axis=1)


def _compute_softmax(scores: Float64Array) -> Float64Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


# what does nothing to a row when it is evaluated
TORCH_PASS_THROUGH = ("Identity", "Dropout", "AlphaDropout", "Flatten")
TORCH_PROBABILITIES = ("Sigmoid", "Softmax")
TORCH_SCORES = ("Linear", "BatchNorm1d", "ReLU", "LeakyReLU", "Tanh", "LogSoftmax")


@dataclass(eq=False)
class TorchNetwork(TrainedNetwork):
    """A trained torch module: ``classes`` in the order of its outputs, None for a regression.

    The module is run as it is, in evaluation mode, on its own device and in its own precision. Whether its outputs are
    probabilities or scores (logits) is seen from its last step; a module with a ``forward`` of its own must say so:
    ``probabilities=True`` or ``False``.

    >>> from torch import nn                                                            # doctest: +SKIP
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))                # doctest: +SKIP
    >>> model = make_pipeline(StandardScaler().fit(table), TorchNetwork(net))           # doctest: +SKIP
    """

    module: Any
    classes: Sequence[Any] | None = (0, 1)
    probabilities: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.module, _import_torch().nn.Module):
            raise InputError(expected="module must be a torch.nn.Module", got=type(self.module).__name__)
        require_distinct_classes(self.classes)
        end = self._last_step
        if self.probabilities is None and end is None and self.classes is not None:
            raise_unknown_outputs(type(self.module).__name__)
        if self.probabilities is not None and end in (*TORCH_PROBABILITIES, "LogSoftmax"):
            statement = f"the network ends in {end}, which says what its outputs are"
            raise InputError(statement, hint="leave probabilities= out")

    @property
    def _last_step(self) -> str | None:
        """The last step that does something, None if it is not known."""
        names = [get_torch_class_name(leaf) for leaf in iterate_torch_modules(self.module)]
        return next((name for name in reversed(names) if name not in TORCH_PASS_THROUGH), None)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""
        return self._last_step in TORCH_PROBABILITIES if self.probabilities is None else self.probabilities

    @property
    def n_features_in_(self) -> int:
        """How many columns the network takes, where its first layer says so."""
        for leaf in iterate_torch_modules(self.module):
            if get_torch_class_name(leaf) in ("Linear", "BatchNorm1d"):
                return int(leaf.in_features if get_torch_class_name(leaf) == "Linear" else leaf.num_features)
        raise AttributeError("the network does not say how many columns it takes")

    def run(self, rows: Float64Array) -> AnyArray:
        """The module's outputs for rows of numbers, in its own arithmetic."""
        torch = _import_torch()
        like = next((tensor for tensor in iterate_tensors(self.module) if tensor.is_floating_point()), torch.zeros(()))
        with _use_evaluation_mode(self.module), torch.no_grad(), torch.autocast(like.device.type, enabled=False):
            answers = self.module(torch.from_numpy(rows).to(like.device, like.dtype))
        return np.asarray(answers.to("cpu", torch.float64).numpy())


def iterate_torch_modules(module: Any) -> Iterator[Any]:
    """The modules that a Sequential runs one after the other, those of inner Sequentials in their place."""
    kind = _import_torch().nn.Sequential
    if isinstance(module, kind) and _is_run_as(module, kind) and not has_torch_hooks(module):
        for child in module:
            yield from iterate_torch_modules(child)
    else:
        yield module


def get_torch_class_name(leaf: Any) -> str | None:
    """The name of the torch class that a module runs as, None for one with a ``forward`` of its own."""
    nn = _import_torch().nn
    names = TORCH_PASS_THROUGH + TORCH_PROBABILITIES + TORCH_SCORES
    return next((name for name in names if _is_run_as(leaf, getattr(nn, name))), None)


def has_torch_hooks(module: Any) -> bool:
    """Whether something is called around the module's own computation, or around that of every module."""
    everywhere = _import_torch().nn.modules.module
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or getattr(everywhere, "_global_forward_hooks", None)
        or getattr(everywhere, "_global_forward_pre_hooks", None)
    )


def iterate_tensors(module: Any) -> Iterator[Any]:
    """The parameters and the buffers."""
    yield from module.parameters()
    yield from module.buffers()


def _is_run_as(module: Any, kind: Any) -> bool:
    if not isinstance(module, kind) or type(module).forward is not kind.forward or "forward" in vars(module):
        return False
    defined = getattr(kind.forward, "__globals__", {}).get("__name__", "")  # elsewhere if the class was changed
    return type(module).__call__ is kind.__call__ and str(defined).startswith("torch.")


@contextmanager
def _use_evaluation_mode(module: Any) -> Iterator[None]:
    """Evaluation mode; what was in training mode is so again afterwards."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch", "a TorchNetwork") from None
    return torch


ONNX_PASS_THROUGH = frozenset(("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze"))
ONNX_UNITWISE = frozenset(("Add", "Sub", "Mul", "Div", "Neg", "Concat"))  # a concatenation is of 1 - p and p

ONNX_SCORES = frozenset(
    ("Gemm", "MatMul", "BatchNormalization", "Scaler", "Constant", "Relu", "LeakyRelu", "Tanh", "LogSoftmax")
)

ONNX_PROBABILITIES = frozenset(("Sigmoid", "Softmax"))


@dataclass(frozen=True, slots=True)
class OnnxSignature:
    """What goes into a graph and comes out: the input, its numbers' type, its rows and columns if they are fixed."""

    input: str
    dtype: np.dtype[Any]
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
    signature: OnnxSignature = field(init=False, repr=False)
    _session: list[Any] = field(init=False, repr=False)  # made when it is first needed

    def __post_init__(self) -> None:
        require_distinct_classes(self.classes)
        model = load_onnx_file(self.source)
        self.source = model.SerializeToString()
        self.signature = _read_signature(model.graph, self.output)
        self._session = []
        self._resolve_output_kind(_find_last_operations(model.graph, self.signature.output))

    def _resolve_output_kind(self, ends: set[str]) -> None:
        said = _are_probabilities(ends)
        if self.probabilities is None and said is None and self.classes is not None:
            raise_unknown_outputs("the model")
        if self.probabilities is not None and (said or "LogSoftmax" in ends):
            raise InputError("the end of the model says what its outputs are", hint="leave probabilities= out")
        if self.probabilities is None:
            self.probabilities = said

    def __getstate__(self) -> tuple[Any, ...]:
        return self.source, self.classes, self.probabilities, self.output, self.signature

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names = ("source", "classes", "probabilities", "output", "signature", "_session")
        for name, value in zip(names, (*state, []), strict=True):
            object.__setattr__(self, name, value)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""
        return bool(self.probabilities)

    @property
    def model(self) -> Any:
        """The model as onnx has it, functions of its own put in their places."""
        return load_onnx_file(self.source)

    @property
    def n_features_in_(self) -> int:
        """How many columns the network takes, where it says so."""
        if self.signature.columns is None:
            raise AttributeError("the model does not say how many columns it takes")
        return self.signature.columns

    def run(self, rows: Float64Array) -> AnyArray:
        """The model's outputs for rows of numbers, by onnxruntime on the CPU."""
        with np.errstate(over="ignore"):
            numbers = rows.astype(self.signature.dtype)
        size = self.signature.rows or len(numbers)
        parts = [self._run(numbers[start : start + size], size) for start in range(0, len(numbers), size)]
        return np.concatenate(parts)

    def _run(self, numbers: AnyArray, size: int) -> AnyArray:
        """The outputs of some rows; where the model takes a fixed number of them, the last one fills up."""
        if not self._session:
            self._session.append(open_onnx_session(self.model.SerializeToString()))
        filled = np.concatenate([numbers, np.repeat(numbers[-1:], size - len(numbers), axis=0)])
        answers = self._session[0].run([self.signature.output], {self.signature.input: filled})[0]
        return np.asarray(answers).reshape(size, -1)[: len(numbers)]


def _read_signature(graph: Any, output: str | None) -> OnnxSignature:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [tensor for tensor in graph.input if tensor.name not in constants]
    if len(inputs) != 1:
        rule = "the model must take one input, a matrix of all columns"
        raise InputError(expected=rule, got=format_count(len(inputs), "input"))
    kind = inputs[0].type.tensor_type
    numbers = _list_float_types().get(kind.elem_type)
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    if numbers is None or len(dims) != 2:
        raise InputError(
            expected="the model's input must be a matrix of floating-point numbers, a row per instance",
            got=f"{format_count(len(dims), 'dimension')} of {'other values' if numbers is None else numbers}",
        )
    return OnnxSignature(inputs[0].name, numbers, dims[0] or None, dims[1] or None, _choose_output(graph, output))


def _choose_output(graph: Any, wanted: str | None) -> str:
    """The output to look at: the wanted one, or the only one that is a tensor of floating-point numbers."""
    names = [tensor.name for tensor in graph.output if tensor.type.tensor_type.elem_type in _list_float_types()]
    if wanted is not None and wanted not in names:
        raise InputError(expected=f"output must be one of {names}", got=describe_value(wanted))
    if wanted is None and len(names) != 1:
        zipped = any(node.op_type == "ZipMap" for node in graph.node)
        hint = "export it without its ZipMap (options={'zipmap': False})" if zipped else "name one: output=..."
        raise InputError(
            expected="the model must have one output of floating-point numbers",
            got=describe_value(names) if names else "none",
            hint=hint if names or zipped else None,
            code="output-required" if names and not zipped else None,
        )
    return wanted or str(names[0])


def _list_float_types() -> dict[int, np.dtype[Any]]:
    from onnx import TensorProto

    return {TensorProto.FLOAT: np.dtype(np.float32), TensorProto.DOUBLE: np.dtype(np.float64)}


def _find_last_operations(graph: Any, output: str) -> set[str]:
    """The steps that an output comes out of, as far back as factors and shifts go."""
    makers = {name: node for node in graph.node for name in node.output}
    waiting, seen = [output], set[str]()
    while waiting:  # names of values; back through steps that leave probabilities what they are
        node = makers.get(waiting.pop())
        if node is not None:
            seen.add(node.op_type)
            if node.op_type in ONNX_UNITWISE:
                waiting.extend(node.input)
            elif node.op_type in ONNX_PASS_THROUGH:
                waiting.extend(node.input[:1])
    return seen


def _are_probabilities(ends: set[str]) -> bool | None:
    """Whether what comes out of these is probabilities, None if that cannot be seen."""
    if ends & ONNX_PROBABILITIES:
        return True if "Concat" in ends or not ends & ONNX_UNITWISE else None
    return False if ends <= ONNX_SCORES | ONNX_PASS_THROUGH | ONNX_UNITWISE else None
