"""The file of a saved explainer (``explainer.save``), opened without the explainer's code: what a check needs of it.

The file holds the normal form that the explainer read from a model, what that model sees of every value, the space, the
decision and perhaps past rows. So a check against a file shows that a document is true of *the normal form in the
file*; whether that is the model's own, only the model can show. Where a point lies within rounding of the threshold the
form says nothing, and whatever depends on it stays undecided.

Whoever wrote a file may be hostile: sizes are limited before anything is unpacked, every part must have its digest,
arrays are of plain types, and every index is checked.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray, Float64Array
from ironrule.checker.checker import Checker
from ironrule.checker.document import compute_digest
from ironrule.checker.readers.network_form import NetworkForm, bound_arithmetic_errors
from ironrule.checker.readers.normal_form import EstimatorTarget, NoReading, RegressionTree, SumForm, SumMargin
from ironrule.checker.readers.registry import identify_class
from ironrule.checker.readers.saved_forms import parse_hex, parse_value, read_stored_form
from ironrule.checker.result import Check, ClaimUndecided
from ironrule.checker.space.space import CheckerSpace, space_from_json, value_from_json
from ironrule.checker.space.table import read_table, to_python_value
from ironrule.errors import InputError

KIND, FORMATS = "ironrule explainer", (1, 2)
LONGEST_LABEL = 1_000
LARGEST_PART, LARGEST_FILE, LARGEST_RATIO, FREE_BYTES = 2_000_000_000, 2_200_000_000, 1_000, 10_000_000
ARRAYS = {f"arrays/{kind}.npy": kind for kind in ("f8", "f4", "i8", "i4", "u4", "u2", "u1")}
NOTE = (
    "checked against the normal form in the saved file, as the explainer read it from the model: the original model "
    "was not asked, and whether the form is that model's was not checked"
)
DAMAGED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, eq=False)
class SavedFile:
    """What a file says: its models, the past rows (None if it has none), the space, and the decision."""

    models: tuple[SavedFileModel, ...]
    data: AnyArray | None
    space: Mapping[str, Any]
    constraints: tuple[str, ...]
    desired: tuple[Any, ...] | None
    threshold: float | None
    direction: str

    def build_row(self, document: Any) -> AnyArray:
        """A table with the row alone that a document is about, where the file has no past rows."""
        listed = json.loads(document) if isinstance(document, str) else document
        listed = listed.to_dict() if hasattr(listed, "to_dict") else listed
        inside = next((listed[key] for key in ("explanation", "counterfactual") if key in listed), listed)
        values, entries = inside.get("instance"), dict[str, Any]()
        if not isinstance(values, dict):
            raise InputError(
                expected="a saved file must have past rows for a document that names no row", got="a file without any"
            )
        space = space_from_json(self.space)
        for feature in space.features:
            value = value_from_json(values.get(feature.name))
            if feature.one_hot:
                entries |= {one: int(value == own) for one, own in zip(feature.columns, feature.values, strict=True)}
            else:
                entries[(feature.columns or (feature.name,))[0]] = value
        row = np.empty((1, len(space.columns)), dtype=object)
        row[0] = [entries[name] for name in space.columns]
        return row


class SavedFileChecker:
    """Checks documents against the file of a saved explainer, as :class:`~ironrule.Checker` does against a model.

    The result says that the normal form in the file was checked: its reading is the explainer's, so never strict.
    ``constraints`` join those of the file's space; ``desired`` and ``threshold`` say what the caller means, if not what
    the file was saved for.
    """

    def __init__(self, path: Path, constraints: Sequence[Any] = (), **given: Any) -> None:
        self.file = open_saved_file(path)
        wanted: Any = self.file.desired if self.file.direction == "above" else "below"
        self._given = {
            "space": self.file.space,
            "constraints": (*self.file.constraints, *constraints),
            "desired": wanted,
            "threshold": self.file.threshold,
            **given,
        }
        self._checker = None if self.file.data is None else self._build_checker(self.file.data)

    def _build_checker(self, data: AnyArray) -> Checker:
        first, *others = self.file.models
        return Checker(first, data, models=others, **self._given)

    def check(self, document: Any) -> Check:
        """Check every claim of a document; raises InputError for what is none."""
        checker = self._checker or self._build_checker(self.file.build_row(document))
        found = checker.check(document)
        return replace(found, reading="none" if found.reading == "none" else "shared", notes=(*found.notes, NOTE))


def open_saved_file(path: Path) -> SavedFile:
    """The file of a saved explainer; raises InputError, which says what is wrong, for one that cannot be checked."""
    try:
        document, arrays = _read_parts(path)
        return _build(document, _Arrays(arrays))
    except NoReading as reason:
        raise InputError(
            f"{path.name} cannot be checked without its model: {reason}",
            hint="check with the model and the data themselves",
            code="saved-file-not-read",
        ) from None
    except (*DAMAGED, OSError, EOFError, zipfile.BadZipFile) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"{path.name} is no file of a saved explainer: {what}", code="bad-saved-file") from None


def _read_parts(path: Path) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        known = {"manifest.json", "explainer.json", *ARRAYS}
        if len(entries) < len(archive.infolist()) or not set(entries) <= known or "explainer.json" not in entries:
            raise ValueError("its parts are not those of such a file")
        for entry in entries.values():
            packed = max(FREE_BYTES, LARGEST_RATIO * entry.compress_size)
            if entry.file_size > min(LARGEST_PART, packed) or entry.flag_bits & 1:
                raise ValueError(f"{entry.filename} is too large, or encrypted")
        if sum(entry.file_size for entry in entries.values()) > LARGEST_FILE:
            raise ValueError("it is too large")
        contents = {name: _read_entry(archive, entry) for name, entry in entries.items()}
    manifest = json.loads(contents.pop("manifest.json"))
    if manifest.get("kind") != KIND or manifest.get("format") not in FORMATS:
        raise ValueError(f"expected {KIND} of the format {' or '.join(map(str, FORMATS))}")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    if manifest.get("digest") != compute_digest(manifest) or manifest["parts"] != digests:
        raise InputError("digest mismatch: the file was modified after it was written", code="digest-mismatch")
    document = json.loads(contents.pop("explainer.json"))
    return document, {ARRAYS[name]: _read_array(ARRAYS[name], part) for name, part in contents.items()}


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A part, no longer than the directory says."""
    with archive.open(entry) as opened:
        content = opened.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise ValueError(f"{entry.filename} is not as long as it says")
    return content


def _read_array(kind: str, content: bytes) -> AnyArray:
    buffer = io.BytesIO(content)
    np.lib.format.read_magic(buffer)
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(buffer)
    rest = content[buffer.tell() :]
    if len(shape) != 1 or in_columns or dtype != np.dtype(f"<{kind}") or len(rest) != shape[0] * dtype.itemsize:
        raise ValueError(f"the array of {kind} is of another type")
    return np.frombuffer(rest, dtype=dtype).astype(dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The numbers of a file, by type, end to end."""

    by_kind: Mapping[str, AnyArray]

    def get(self, reference: Any, kind: str, dimensions: int = 1) -> AnyArray:
        """The array that a reference stands for."""
        name, start, *shape = reference
        numbers = self.by_kind.get(kind, np.zeros(0))
        whole = all(type(one) is int and one >= 0 for one in (start, *shape))
        if name != kind or not whole or len(shape) != dimensions or start + math.prod(shape) > len(numbers):
            raise NoReading("the file names an array that is not there")
        return numbers[start : start + math.prod(shape)].reshape(shape)


def _build(document: Mapping[str, Any], arrays: _Arrays) -> SavedFile:
    if document["model"] is None:
        raise NoReading(f"it has no normal form of the model: {document['unreadable_reason']}")
    space, decision = space_from_json(document["space"]), document["decision"]
    desired = None if decision.get("desired") is None else tuple(map(value_from_json, decision["desired"]))
    if decision.get("margin"):
        raise NoReading("it was saved for a margin")
    threshold, direction = decision.get("threshold"), decision.get("direction", "above")
    models = []
    for given in (document["model"], *document.get("further_models", ())):
        answers = _list_answers(desired, threshold, direction, given["undesired_name"])
        models.append(_build_model(given, space, arrays, answers))
    return SavedFile(
        models=tuple(models),
        data=None if document["history"] is None else _read_rows(document["history"], space, arrays),
        space=document["space"],
        constraints=tuple(map(str, document["constraints"])),
        desired=desired,
        threshold=threshold,
        direction=direction,
    )


def _build_model(given: Mapping[str, Any], space: CheckerSpace, arrays: _Arrays, answers: _Answers) -> SavedFileModel:
    names = tuple(given["names"])
    if len(set(names)) < len(names) or not set(names) <= set(space.columns) or given["dtype"] not in MATRIX_TYPES:
        raise ValueError("its columns are not those of its space")
    columns = tuple(_read_column(one, arrays, len(names), given["dtype"]) for one in given["columns"])
    unordered = {int(place): str(reason) for place, reason in given["unordered"]}
    preparation = SavedFilePreparation(names, columns, given["dtype"], unordered)
    form = read_stored_form(given["form"], arrays.get, len(columns))
    return SavedFileModel(preparation, SavedFileForm(form, preparation), answers)


@dataclass(frozen=True, slots=True)
class _Answers:
    """How a model with one decision answers as the kind of model that it was read from: with labels, and maybe with
    probabilities of 0 and 1, or with a score on either side of the threshold.
    """

    labels: tuple[Any, ...] | None  # None for scores
    undesired: Any
    desired: Any


def _list_answers(desired: tuple[Any, ...] | None, threshold: float | None, direction: str, undesired: str) -> _Answers:
    """The answers; ``undesired`` is what the file calls that outcome: the label, if there is but one."""
    if threshold is not None and desired is None:
        ends = (math.nextafter(threshold, -math.inf), math.nextafter(threshold, math.inf))
        return _Answers(None, *(ends if direction == "above" else ends[::-1]))
    if desired is None:
        return _Answers((0, 1), 0, 1)
    others: tuple[Any, ...] = ("another class", "one more class")  # of several, whose names do not matter
    if threshold is None and not undesired.startswith("not ") and len(undesired) <= LONGEST_LABEL:
        others = (ast.literal_eval(undesired),)
    if set(others) & set(desired):
        raise NoReading("it has no name for the outcome that is not desired")
    return _Answers((*desired, *others), others[0], desired[0])


MATRIX_TYPES = ("object", "float64", "float32")
FORMULAS = ("identity", "shift_then_divide", "multiply_then_shift", "divide")


@dataclass(frozen=True, slots=True, eq=False)
class SeenColumn:
    """What a model sees of a column of the table: the entries of a list, and for other numbers what a formula gives.

    With ``between``, a number between two listed ones is seen as the lower of them.
    """

    source: int
    seen: AnyArray
    by_value: Mapping[Any, int]
    numbers: Float64Array  # those among the values, rising, and their places
    places: AnyArray
    formula: tuple[Any, ...] | None
    between: bool
    is_constant: bool

    def compute(self, values: AnyArray) -> AnyArray:
        """What is seen of values; raises ClaimUndecided for those that the file does not know."""
        if self.is_constant:
            return np.repeat(self.seen[:1], len(values))
        listed = [to_python_value(value) for value in values.tolist()]
        found = np.empty(len(listed), dtype=self.seen.dtype)
        for row, value in enumerate(listed):
            place = self.by_value.get(value)
            if place is not None:
                found[row] = self.seen[place]
            elif isinstance(value, (int, float)):
                found[row] = self._compute_number(float(value))
            else:
                raise ClaimUndecided(f"the saved file does not know what its model sees of {value!r}")
        return found

    def _compute_number(self, number: float) -> Any:
        at = int(np.searchsorted(self.numbers, number, "right")) - 1
        if at >= 0 and (self.numbers[at] == number or (self.between and number <= self.numbers[-1])):
            return self.seen[self.places[at]]
        if self.formula is None:
            raise ClaimUndecided(f"the saved file does not know what its model sees of {number!r}")
        kind, shift, scale, single, low, high = self.formula
        if not low <= number <= high:
            raise ClaimUndecided(f"the saved file does not know what its model sees of {number!r}")
        precision = np.float32 if single else np.float64
        value, shift, scale = (precision(one) for one in (number, shift, scale))
        with np.errstate(all="ignore"):
            match kind:
                case "shift_then_divide":
                    value = (value - shift) / scale
                case "multiply_then_shift":
                    value = value * scale + shift
                case "divide":
                    value = value / scale
        return float(value)


def _read_column(given: Mapping[str, Any], arrays: _Arrays, width: int, dtype: str) -> SeenColumn:
    values = given["values"]
    if isinstance(values, dict):
        kind = values["numbers"][0]
        if kind not in ("i8", "f8"):
            raise NoReading("the values of a column are of another type")
        listed = [*arrays.get(values["numbers"], kind).tolist(), *([None] if values["missing"] else [])]
    else:
        listed = list(map(_parse_any_value, values))
    seen = np.empty(len(listed), dtype=object) if dtype == "object" else arrays.get(given["seen"], "f8").astype(dtype)
    if dtype == "object":
        seen[:] = [_parse_any_value(one) for one in given["seen"]]
    source, formula = given["source"], given["formula"]
    if type(source) is not int or not 0 <= source < width or len(seen) != len(listed) or not listed:
        raise NoReading("a column of the file makes no sense")
    known = sorted((float(value), place) for place, value in enumerate(listed) if isinstance(value, (int, float)))
    if formula is not None:
        ends = [
            end if one is None else parse_hex(one)
            for one, end in zip(formula["ends"], (-math.inf, math.inf), strict=True)
        ]
        if formula["kind"] not in FORMULAS:
            raise NoReading("a formula of the file is not known")
        formula = (formula["kind"], *map(parse_hex, formula["numbers"]), bool(formula["single"]), *ends)
    return SeenColumn(
        source=source,
        seen=seen,
        by_value={value: place for place, value in enumerate(listed)},
        numbers=np.array([number for number, _ in known], dtype=np.float64),
        places=np.array([place for _, place in known], dtype=np.intp),
        formula=formula,
        between=bool(given["between"]),
        is_constant=bool(given["is_constant"]),
    )


def _parse_any_value(plain: Any) -> Any:
    return value_from_json(plain) if isinstance(plain, dict) and "date" in plain else parse_value(plain)


def _read_rows(history: Mapping[str, Any], space: CheckerSpace, arrays: _Arrays) -> AnyArray:
    """The past rows as a table of objects, a column for each of the space's."""
    columns: dict[str, AnyArray] = {}
    for reference, feature in zip(history["codes"], space.features, strict=True):
        codes = arrays.get(reference, reference[0])
        values = np.empty(len(feature.values) + 1, dtype=object)
        values[:] = [*feature.values, None]
        if len(codes) == 0 or codes.max() > len(feature.values) - (not feature.missing):
            raise NoReading("a past row lies beyond the space of the file")
        names = feature.columns or (feature.name,)
        if feature.one_hot:
            columns |= {name: (codes == place).astype(object) * 1 for place, name in enumerate(names)}
        else:
            columns[names[0]] = values[codes]
    rows = np.empty((len(next(iter(columns.values()))), len(space.columns)), dtype=object)
    for place, name in enumerate(space.columns):
        rows[:, place] = columns[name]
    return rows


def _clear_missing(values: AnyArray, missing: BoolArray) -> AnyArray:
    values[missing] = None
    return values


@dataclass(frozen=True, slots=True, eq=False)
class SavedFilePreparation:
    """What a model sees of a table, column by column; ``unordered`` has the columns whose order it may not keep."""

    names: tuple[str, ...]
    columns: tuple[SeenColumn, ...]
    dtype: str
    unordered: Mapping[int, str] = field(default_factory=dict)

    def transform(self, table: Any) -> AnyArray:
        """The matrix of all columns."""
        if isinstance(table, np.ndarray) and table.shape[1] == len(self.names):
            given = [table[:, place] for place in range(len(self.names))]
        else:
            known = read_table(table)
            read = [known.column(name) for name in self.names]
            given = [_clear_missing(one.values.astype(object), one.missing) for one in read]
        seen = np.empty((len(given[0]), len(self.columns)), dtype=self.dtype)
        for place, column in enumerate(self.columns):
            seen[:, place] = column.compute(given[column.source])
        return seen

    def find_unordered(self, width: int) -> dict[int, str]:  # noqa: ARG002  # it knows its own
        """The columns of the table that may not rise or fall all the way, with the reason."""
        return dict(self.unordered)


@dataclass(frozen=True, slots=True, eq=False)
class SavedFileForm:
    """The normal form, which decides rows of what the model sees."""

    form: SumForm | NetworkForm
    preparation: SavedFilePreparation

    def predict(self, seen: AnyArray) -> BoolArray:
        """Which rows are desired; raises ClaimUndecided where the form leaves one open."""
        possible, sure = self.decide(seen)
        if (possible & ~sure).any():
            raise ClaimUndecided(
                "a point lies within rounding of the threshold, where only the model itself can decide"
            )
        return sure

    def decide(self, seen: AnyArray) -> tuple[BoolArray, BoolArray]:
        """Which rows may be desired, and which surely are."""
        columns = [np.concatenate([column.seen, seen[:, k]]) for k, column in enumerate(self.preparation.columns)]
        possible, sure = np.zeros((2, len(seen)), dtype=np.bool_)
        if isinstance(self.form, NetworkForm):
            largest = np.array([np.abs(one.astype(np.float64)).max() for one in columns])
            outputs = self.form.compute_outputs(seen.astype(np.float64))
            ways: list[Any] = [
                [(outputs @ one.coefficients + one.offset, error) for one, error in zip(margins, errors, strict=True)]
                for margins, errors in zip(
                    self.form.alternatives, bound_arithmetic_errors(self.form, largest), strict=True
                )
            ]
        else:
            ways = [[_bound_margin(one, seen, columns) for one in margins] for margins in self.form.alternatives]
        for way in ways:
            possible |= np.all([total > -error for total, error in way], axis=0)
            sure |= np.all([total > error for total, error in way], axis=0)
        return possible, sure


def _bound_margin(margin: SumMargin, seen: AnyArray, known: Sequence[AnyArray]) -> tuple[Float64Array, Float64Array]:
    """A margin of rows, and how far the model, or this sum, may be from it. ``known`` has all that columns hold."""
    total, error = np.full(len(seen), margin.offset), np.full(len(seen), margin.error)
    sizes, count = abs(margin.offset), 2
    for part in margin.parts:
        values, largest = np.zeros(len(seen)), 0.0
        for tree in part.trees:
            values = values + _walk(tree, seen)
            largest += float(np.abs(tree.value).max())
        for term in part.terms:
            values = values + term.contribution(seen[:, term.column])
            largest += float(np.abs(term.contribution(known[term.column])).max())
        terms, link = len(part.trees) + len(part.terms), part.link
        own = 0.0 if terms < 2 else 2.0**-50 * (terms + 2) * largest
        sizes, count = sizes + largest, count + 1
        match link.kind:
            case "identity":
                total, error = total + values, error + own
            case "step":
                sides = [np.where(values + lean > link.shift, link.scale, 0.0) for lean in (-own, own)]
                total, error = total + sides[0], error + (sides[1] - sides[0])
            case "logistic":
                with np.errstate(over="ignore"):
                    total = total + link.scale / (1.0 + np.exp(-(link.slope * values + link.shift)))
                error = error + link.scale * (
                    link.slope * own + 2.0**-46 + 2.0**-50 * (link.slope * largest + abs(link.shift))
                )
    if len(margin.parts) > 1 or margin.error or margin.relative_error:
        error = error + 2.0**-50 * count * (sizes + sum(part.link.scale for part in margin.parts))
    return total, error + margin.relative_error * sizes


def _walk(tree: RegressionTree, seen: AnyArray) -> Float64Array:
    """The values of a tree for rows."""
    values, waiting = np.empty(len(seen)), [(0, np.arange(len(seen)))]
    while waiting:
        node, rows = waiting.pop()
        split = tree.splits[node]
        if split is None:
            values[rows] = tree.value[node]
            continue
        left = split.goes_left(seen[rows, split.column])
        sides = ((int(tree.left[node]), rows[left]), (int(tree.right[node]), rows[~left]))
        waiting += [(child, some) for child, some in sides if len(some)]
    return values


@dataclass(frozen=True, slots=True, eq=False)
class SavedFileModel:
    """The model of a file, as a check asks it."""

    preparation: SavedFilePreparation
    final: SavedFileForm
    answers: _Answers

    @property
    def feature_names_in_(self) -> AnyArray:
        """The columns that it takes."""
        return np.array(self.preparation.names, dtype=object)

    @property
    def classes_(self) -> AnyArray:
        """The labels: those that are desired, and one or more for all that is not."""
        if self.answers.labels is None:
            raise AttributeError("it answers scores")
        found = np.empty(len(self.answers.labels), dtype=object)
        found[:] = self.answers.labels
        return found

    def predict(self, table: Any) -> AnyArray:
        """An answer for every row."""
        desired = self.final.predict(self.preparation.transform(table))
        found = np.empty(len(desired), dtype=object)
        found[:] = [self.answers.desired if one else self.answers.undesired for one in desired]
        return found if self.answers.labels is not None else found.astype(np.float64)

    def predict_proba(self, table: Any) -> Float64Array:
        """1 for a desired label where the row is desired, else for the other one. A threshold lies in between."""
        desired = self.final.predict(self.preparation.transform(table))
        labels = list(self.answers.labels or (0, 1))
        places = np.where(desired, labels.index(self.answers.desired), labels.index(self.answers.undesired))
        chances = np.zeros((len(desired), len(labels)))
        chances[np.arange(len(desired)), places] = 1.0
        return chances


def read_saved_form(estimator: Any, target: EstimatorTarget) -> SumForm | NetworkForm | None:  # noqa: ARG001
    """The normal form of a file, which was saved for one decision; None for anything else."""
    return estimator.form if identify_class("ironrule", estimator) == "SavedFileForm" else None
