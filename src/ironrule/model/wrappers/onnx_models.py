"""ONNX models that answer by themselves what they decide: forests, boosted trees and linear models of converters.

skl2onnx, onnxmltools and others write a fitted model, with the preprocessing before it, as a graph whose last step is
a ``TreeEnsembleClassifier``, ``TreeEnsembleRegressor``, ``TreeEnsemble`` (which an ``ArgMax`` may follow that finds the
class), ``LinearClassifier`` or ``LinearRegressor``. Such a file says
what its columns and its classes are, and answers labels; so :class:`OnnxModel` needs nothing but the file. Its graph
is taken apart (:func:`_find_last_step`): what prepares the columns is run as it is (:class:`OnnxPreparation`), and the
last step is what readers read. A graph with another last step that answers labels or one number is asked.

A network, which answers scores and no labels, is an :class:`~ironrule.model.wrappers.networks.OnnxNetwork`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, Float64Array
from ironrule.errors import InputError, ModelError, describe_value
from ironrule.model.model_input import as_matrix, read_columns
from ironrule.model.wrappers.onnx_files import (
    cut_model,
    has_inner_graphs,
    load_onnx_file,
    map_makers,
    open_onnx_session,
    read_attributes,
)
from ironrule.model.wrappers.pretrained import ModelPreparation, ModelWithPreparation, require_distinct_classes
from ironrule.space.feature import is_missing
from ironrule.wording import format_count

LAST_STEPS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "LinearClassifier", "LinearRegressor", "TreeEnsemble")
LABEL_PASS_THROUGH = ("Identity", "Cast", "Reshape", "Squeeze", "Flatten")  # behind the labels of the last step
NUMBER_PASS_THROUGH = ("Identity", "Reshape", "Squeeze", "Flatten")
PROBABILITY_PASS_THROUGH = ("Identity", "Normalizer", "ZipMap")

# steps that keep the order of numbers: they move them, or round one sum, difference, product or quotient of each with
# a constant
ORDER_KEEPING_STEPS = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "ArrayFeatureExtractor", "Gather", "Slice", "Split"}
    | {"Scaler", "Binarizer"}
)  # of their first input; the others say where numbers are moved to
JOINING_STEPS = ("Concat", "FeatureVectorizer")


@dataclass(frozen=True, slots=True)
class OnnxColumns:
    """An input of the graph: its values' type, its rows if they are fixed, and its columns if that is known."""

    name: str
    dtype: np.dtype[Any]  # of objects where they are texts
    rows: int | None
    width: int | None


@dataclass(frozen=True, slots=True)
class OnnxLastStep:
    """The node that a reader reads, with its attributes, and how its answer reaches the model's.

    ``normalized``: a Normalizer (L1) comes between. ``labels``: an ArgMax behind it finds the largest of its numbers,
    which stand for these; None where the node answers labels itself, or the model none.
    """

    op: str
    input: str
    attributes: dict[str, Any]
    normalized: bool
    labels: tuple[Any, ...] | None = None


@dataclass(eq=False)
class OnnxModel(ModelWithPreparation):
    """An ONNX model that answers labels, or one number for a regression, by its path or its bytes.

    Inputs are one matrix of numbers, a row per instance, or one input per column, which are then its columns' names.
    ``classes`` are the labels in the order of the probabilities, where the file does not say them.

    >>> model = OnnxModel("forest.onnx")                                                   # doctest: +SKIP
    >>> model.classes_, model.predict(table)                                               # doctest: +SKIP
    """

    source: str | Path | bytes = field(repr=False)
    classes: Sequence[Any] | None = None
    last_step: OnnxLastStep | None = field(init=False, repr=False)
    inputs: tuple[OnnxColumns, ...] = field(init=False, repr=False)
    _label_output: str | None = field(init=False, repr=False)
    _number_output: str | None = field(init=False, repr=False)
    _sessions: dict[str, Any] = field(init=False, repr=False)  # made when they are first needed
    _parts: list[Any] = field(init=False, repr=False)  # the preparation and the last step, likewise

    def __post_init__(self) -> None:
        model = load_onnx_file(self.source)
        self.source = model.SerializeToString()
        self.inputs = _read_inputs(model.graph)
        self._label_output, self._number_output = _choose_outputs(model.graph)
        self.last_step = _find_last_step(model.graph, self._label_output, self._number_output)
        self._sessions, self._parts = {}, []
        self._require_columns(self.inputs[0].width)
        if self._label_output is None and self.classes is not None:
            raise InputError(
                "the model answers numbers and no labels",
                hint="for a network, use OnnxNetwork(path, classes=...)",
                code="onnx-without-labels",
            )
        if self._label_output is not None and self.classes is None:
            step = self.last_step
            self.classes = _find_classes(model.graph) if step is None or step.labels is None else list(step.labels)
        require_distinct_classes(self.classes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.classes)

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels; numbers otherwise."""
        return self._label_output is not None

    @property
    def model(self) -> Any:
        """The model as onnx has it."""
        return load_onnx_file(self.source)

    @property
    def classes_(self) -> AnyArray:
        """The labels."""
        if self.classes is None:
            raise AttributeError("a regression has no classes")
        return np.array(self.classes)

    def _require_columns(self, width: int | None) -> None:
        """Raise InputError if the trees look at columns that are not there: onnxruntime does not check that."""
        step = self.last_step
        if step is None or width is None or not self._takes_matrix or step.input != self.inputs[0].name:
            return
        places = [int(place) for place in step.attributes.get("nodes_featureids", ())]
        if any(not 0 <= place < width for place in places):
            raise InputError(
                expected=f"the trees of the model must look at its {format_count(width, 'column')}",
                got=f"column {max(places)}" if max(places) >= width else f"column {min(places)}",
            )

    @property
    def _takes_matrix(self) -> bool:
        return len(self.inputs) == 1 and self.inputs[0].width != 1

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of its columns, where each is an input of its own."""
        if self._takes_matrix:
            raise AttributeError("the model takes a matrix, and does not name its columns")
        return np.array([one.name for one in self.inputs], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns it takes, where it says so."""
        width = self.inputs[0].width if self._takes_matrix else len(self.inputs)
        if width is None:
            raise AttributeError("the model does not say how many columns it takes")
        return width

    def predict(self, table: Any) -> AnyArray:
        """The label of every row, or its number."""
        wanted = self._label_output or self._number_output
        assert wanted is not None
        answers = self._run(table, wanted)
        if self.is_classifier:
            return np.array(answers.ravel().tolist()) if answers.dtype == object else answers.ravel()
        return _require_finite(answers.astype(np.float64)).ravel()

    @property
    def predict_proba(self) -> Callable[[Any], Float64Array]:
        """The probabilities of all classes, for a table."""
        if not self.is_classifier or self._number_output is None:
            raise AttributeError("the model answers no probabilities")
        return self._compute_probabilities

    def _compute_probabilities(self, table: Any) -> Float64Array:
        assert self._number_output is not None
        return _require_finite(self._run(table, self._number_output).astype(np.float64))

    def _run(self, table: Any, output: str) -> AnyArray:
        """An output for a table; where the model takes a fixed number of rows, the last one fills up."""
        session = self._sessions.get(output)
        if session is None:
            session = self._sessions[output] = open_onnx_session(_ask_for(self.model, output).SerializeToString())
        feeds = self._build_feeds(table)
        count = len(next(iter(feeds.values())))
        size = next((one.rows for one in self.inputs if one.rows), None) or max(count, 1)
        parts = []
        for start in range(0, count, size):
            chosen = np.minimum(np.arange(start, start + size), count - 1)
            answer = np.asarray(session.run([output], {name: values[chosen] for name, values in feeds.items()})[0])
            parts.append(answer.reshape(size, -1)[: count - start])
        return np.concatenate(parts) if parts else np.empty((0, 1))

    def _build_feeds(self, table: Any) -> dict[str, AnyArray]:
        if self._takes_matrix:
            only = self.inputs[0]
            matrix = np.asarray(as_matrix(table))
            self._require_columns(matrix.shape[1])
            return {only.name: _convert(matrix, only)}
        columns = read_columns(table, [one.name for one in self.inputs])
        return {one.name: _convert(columns[one.name], one)[:, None] for one in self.inputs}

    @property
    def preparation(self) -> OnnxPreparation | None:
        """What comes before the last step; None if that sees the input itself, or if no step is read."""
        before: OnnxPreparation | None = self._split()[0]
        return before

    @property
    def final(self) -> OnnxModel:
        """The last step with what comes after it."""
        last: OnnxModel = self._split()[1]
        return last

    def _split(self) -> list[Any]:
        """The preparation and the last step."""
        if not self._parts:
            step, only = self.last_step, self.inputs[0]
            direct = step is None or (self._takes_matrix and step.input == only.name and only.dtype.kind == "f")
            self._parts = [None, self] if direct else [OnnxPreparation(self), self._cut_last_step()]
        return self._parts

    def _cut_last_step(self) -> OnnxModel:
        from onnx import TensorProto
        from onnx.helper import make_tensor_value_info

        assert self.last_step is not None
        model, name = self.model, self.last_step.input
        seen = open_onnx_session(_ask_for(model, name).SerializeToString()).get_outputs()[0]
        kinds = {"tensor(float)": TensorProto.FLOAT, "tensor(double)": TensorProto.DOUBLE}
        kind = kinds.get(seen.type, TensorProto.INT64)
        width = seen.shape[1] if len(seen.shape) == 2 and isinstance(seen.shape[1], int) else None
        outputs = [] if self._label_output is None else [_describe_output(model, self._label_output)]
        if self._number_output is not None:
            known = {value.name: value for value in model.graph.output}
            single = make_tensor_value_info(self._number_output, TensorProto.FLOAT, None)  # as a ZipMap takes it
            outputs.append(known.get(self._number_output, single))
        part = cut_model(model, [make_tensor_value_info(name, kind, [None, width or "columns"])], outputs)
        return OnnxModel(part.SerializeToString(), self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxPreparation(ModelPreparation):
    """The steps of an ONNX model before its last one."""

    model: OnnxModel

    def transform(self, table: Any) -> AnyArray:
        """What the last step sees."""
        assert self.model.last_step is not None
        return self.model._run(table, self.model.last_step.input)

    def find_unordered(self, width: int) -> dict[int, str]:
        """The columns that reach a step which may not keep the order of their numbers."""
        graph = self.model.model.graph
        if self.model._takes_matrix:
            reason = find_unordered_step(graph, self.model.inputs[0].name)
            return {} if reason is None else dict.fromkeys(range(width), reason)
        found = {place: find_unordered_step(graph, one.name) for place, one in enumerate(self.model.inputs)}
        return {place: reason for place, reason in found.items() if reason is not None}


def find_unordered_step(graph: Any, name: str) -> str | None:
    """Why the numbers of an input may not rise or fall all the way, None if they do."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    reached = {name}
    for node in graph.node:
        if node.op_type in LAST_STEPS or not reached & set(node.input):
            continue
        if not _keeps_order(node, reached, constants):
            return f"its {node.op_type} may tell single numbers apart"
        reached |= set(node.output)
    return None


def _keeps_order(node: Any, reached: set[str], constants: set[str]) -> bool:
    """Whether what a step makes of numbers rises or falls with them."""
    attributes, inputs = read_attributes(node), list(node.input)
    if node.op_type in JOINING_STEPS:
        return True
    if node.op_type in ("Add", "Sub", "Mul"):
        return any(one in constants for one in inputs)
    if any(one in reached for one in inputs[1:]):
        return False
    if node.op_type == "Div":
        return inputs[1] in constants
    if node.op_type == "Imputer":
        replaced = attributes.get("replaced_value_float", 0.0)
        return bool(np.isnan(replaced)) and "imputed_value_int64s" not in attributes
    if node.op_type == "Cast":
        return attributes["to"] in (1, 11)  # to single or double precision
    return node.op_type in ORDER_KEEPING_STEPS


def _list_types() -> dict[int, np.dtype[Any]]:
    from onnx import TensorProto

    return {
        TensorProto.FLOAT: np.dtype(np.float32),
        TensorProto.DOUBLE: np.dtype(np.float64),
        TensorProto.INT64: np.dtype(np.int64),
        TensorProto.INT32: np.dtype(np.int32),
        TensorProto.BOOL: np.dtype(np.bool_),
        TensorProto.STRING: np.dtype(object),
    }


def _read_inputs(graph: Any) -> tuple[OnnxColumns, ...]:
    constants = {tensor.name for tensor in graph.initializer}
    found, types = [], _list_types()
    for value in graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        dims = [dim.dim_value or None for dim in kind.shape.dim]
        if kind.elem_type not in types or len(dims) not in (1, 2):
            raise InputError(
                expected="each input of the model must be a column or a matrix of numbers or texts, a row per instance",
                got=f"{value.name!r} with {format_count(len(dims), 'dimension')}",
            )
        found.append(OnnxColumns(value.name, types[kind.elem_type], dims[0], dims[1] if len(dims) == 2 else 1))
    wide = [one.name for one in found if one.width != 1]
    if not found or (len(found) > 1 and wide):
        got = f"{format_count(len(found), 'input')}" + (f", of which {wide[0]!r} is no single column" if wide else "")
        raise InputError(expected="the model must take one matrix, or several single columns", got=got)
    if wide and found[0].dtype == object:
        raise InputError(expected="a matrix that the model takes must hold numbers", got="texts")
    return tuple(found)


def _choose_outputs(graph: Any) -> tuple[str | None, str | None]:
    """The names of the labels and of the probabilities or numbers; what a ZipMap makes is taken before it is made."""
    from onnx import TensorProto

    makers = map_makers(graph)
    labels, numbers = [], []
    for value in graph.output:
        maker = makers.get(value.name)
        if maker is not None and maker.op_type == "ZipMap":
            numbers.append(str(maker.input[0]))
        elif value.type.tensor_type.elem_type in (TensorProto.INT64, TensorProto.STRING):
            labels.append(str(value.name))
        elif value.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.DOUBLE):
            numbers.append(str(value.name))
    if len(labels) > 1 or len(numbers) > 1 or not (labels or numbers):
        raise InputError(
            expected="the model must answer labels, probabilities or both, or one number",
            got=f"{format_count(len(labels), 'output')} of labels and {len(numbers)} of numbers",
            code="output-required",
        )
    return (labels[0] if labels else None), (numbers[0] if numbers else None)


def ends_in_read_step(model: Any) -> bool:
    """Whether the last step of a model is one of those that readers read."""
    try:
        return _find_last_step(model.graph, *_choose_outputs(model.graph)) is not None
    except InputError:
        return False


def _find_last_step(graph: Any, labels: str | None, numbers: str | None) -> OnnxLastStep | None:
    """The step that both outputs come from, with nothing in between but what leaves the answer as it is."""
    if has_inner_graphs(graph):
        return None
    makers, normalized = map_makers(graph), False
    largest = _find_argmax(graph, labels)
    if largest is not None:
        step = _find_last_step(graph, None, largest[0])
        own = numbers is None or _find_last_step(graph, None, numbers) == step
        return replace(step, labels=largest[1]) if step is not None and own and step.op == "TreeEnsemble" else None
    passing = NUMBER_PASS_THROUGH if labels is None else PROBABILITY_PASS_THROUGH
    found: list[Any] = []
    for name, passed in ((labels, LABEL_PASS_THROUGH), (numbers, passing)):
        node = None if name is None else makers.get(name)
        while node is not None and (node.op_type in passed or _multiplies_by_one(node, graph)):
            if node.op_type == "Normalizer":
                normalized = True
                if read_attributes(node).get("norm", "MAX") != "L1":
                    return None
            if node.op_type == "Cast" and read_attributes(node)["to"] != 7:  # whole labels stay what they are
                return None
            name, node = node.input[0], makers.get(node.input[0])
        if name is not None:
            if node is None or node.op_type not in LAST_STEPS or name != node.output[len(found) if labels else 0]:
                return None
            found.append(node)
    if not found or any(list(node.output) != list(found[0].output) for node in found):
        return None
    node = found[0]
    return OnnxLastStep(node.op_type, str(node.input[0]), read_attributes(node), normalized)


def _find_argmax(graph: Any, labels: str | None) -> tuple[str, tuple[Any, ...]] | None:
    """The numbers of which labels are the place of the largest, and the labels by place; None if they are not."""
    from onnx import numpy_helper

    makers, known = map_makers(graph), {tensor.name: tensor for tensor in graph.initializer}
    listed: tuple[Any, ...] | None = None
    node = None if labels is None else makers.get(labels)
    while node is not None:
        name = node.input[0]
        if node.op_type in ("ArrayFeatureExtractor", "Gather") and name in known and listed is None:
            values = numpy_helper.to_array(known[name]).ravel().tolist()
            listed, name = tuple(one.decode() if isinstance(one, bytes) else one for one in values), node.input[1]
        elif node.op_type == "ArgMax":
            attributes = read_attributes(node)
            by_row = attributes.get("axis", 0) in (1, -1) and not attributes.get("select_last_index", 0)
            maker = makers.get(name)
            count = 0 if maker is None else int(read_attributes(maker).get("n_targets", 1))
            listed = tuple(range(count)) if listed is None else listed
            return (name, listed) if by_row and len(listed) == count else None
        elif (
            node.op_type not in LABEL_PASS_THROUGH
            or (node.op_type == "Cast" and listed is not None)
            or (node.op_type == "Cast" and read_attributes(node)["to"] not in (6, 7))
        ):
            return None
        node = makers.get(name)
    return None


def _multiplies_by_one(node: Any, graph: Any) -> bool:
    """Whether a node multiplies by the constant 1, as onnxmltools has it where there is no ZipMap."""
    from onnx import numpy_helper

    constants = [tensor for tensor in graph.initializer if tensor.name == node.input[-1]]
    return node.op_type == "Mul" and bool(constants) and bool((numpy_helper.to_array(constants[0]) == 1).all())


def _find_classes(graph: Any) -> list[Any] | None:
    """The labels that a step of the graph lists."""
    for node in reversed(graph.node):
        attributes = read_attributes(node)
        for name in ("classlabels_int64s", "classlabels_ints", "classlabels_strings"):
            if attributes.get(name):
                return list(attributes[name])
    raise InputError(
        expected="the model must say its classes",
        got="no step that lists them",
        hint="pass classes=[...]",
        code="onnx-classes",
    )


def _describe_output(model: Any, name: str) -> Any:
    from onnx import ValueInfoProto

    known = next((value for value in model.graph.output if value.name == name), None)
    return ValueInfoProto(name=name) if known is None else known


def _ask_for(model: Any, name: str) -> Any:
    """The model with a single output."""
    initial = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initial]
    output = _describe_output(model, name)
    if has_inner_graphs(model.graph):  # whose inner graphs may need more than can be seen
        model.graph.ClearField("output")
        model.graph.output.append(output)
        return model
    part = cut_model(model, inputs, [output])
    part.graph.ClearField("input")
    part.graph.input.extend(inputs)  # all of them, so that every column may be passed
    return part


def _convert(values: AnyArray, wanted: OnnxColumns) -> AnyArray:
    """Values in the type that the model takes; raises ModelError for those that do not fit."""
    if wanted.dtype == object:
        wrong = [value for value in values.tolist() if not isinstance(value, str)]
        if wrong:
            got = "a missing value" if is_missing(wrong[0]) else describe_value(wrong[0])
            raise ModelError(expected=f"the model takes texts in column {wanted.name!r}", got=got)
        return values.astype(object)
    try:
        numbers = np.asarray(values, dtype=np.float64) if values.dtype != object else _to_numbers(values)
    except (TypeError, ValueError):
        odd = next(value for value in _iterate_cells(values) if isinstance(value, str))
        raise ModelError(expected=f"the model takes numbers in {wanted.name!r}", got=describe_value(odd)) from None
    if wanted.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return numbers.astype(wanted.dtype)
    limits = (0, 1) if wanted.dtype == np.bool_ else (np.iinfo(wanted.dtype).min, np.iinfo(wanted.dtype).max)
    fits = (numbers == np.floor(numbers)) & (numbers >= limits[0]) & (numbers <= limits[1]) & (abs(numbers) <= 2**53)
    if not fits.all():
        odd = numbers[~fits].ravel()[0]
        raise ModelError(
            expected=f"the model takes whole numbers ({wanted.dtype}) in {wanted.name!r}", got=repr(float(odd))
        )
    return np.asarray(numbers.astype(wanted.dtype))


def _iterate_cells(values: AnyArray) -> Iterator[Any]:
    yield from values.ravel().tolist()


def _to_numbers(values: AnyArray) -> Float64Array:
    plain = [np.nan if is_missing(value) else float(value) for value in _iterate_cells(values)]
    return np.array(plain, dtype=np.float64).reshape(values.shape)


def _require_finite(answers: Float64Array) -> Float64Array:
    if not np.isfinite(answers).all():
        wrong = int((~np.isfinite(answers)).any(axis=-1).sum())
        raise ModelError(
            expected="the model's answers must be finite",
            got=f"NaN or infinity for {wrong} of {format_count(len(answers), 'row')}",
            hint="missing values reach a step that has no answer for them",
        )
    return answers
