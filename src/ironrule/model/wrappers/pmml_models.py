"""PMML files as estimators: scorecards, trees, regressions, and ensembles and chains of these.

The file is evaluated here, in NumPy and in double precision, by the specification of the Data Mining Group; no Java is
needed. What it does to single fields before its model (treatments of missing and invalid values, derived fields) is
its preparation (:class:`PmmlPreparation`); the model itself is what readers read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.arrays import AnyArray, Float64Array
from ironrule.errors import InputError
from ironrule.model.model_input import as_matrix, read_columns
from ironrule.model.pmml.document import parse_document, require_file_size
from ironrule.model.pmml.fields import AnswerColumn, DerivedColumn, InputColumn, RetreatedColumn
from ironrule.model.pmml.models import Answer, ScorecardModel, gives_probabilities
from ironrule.model.pmml.parsing import PmmlFile, parse_pmml
from ironrule.model.wrappers.pretrained import ModelPreparation, ModelWithPreparation, require_model_path


@dataclass(eq=False)
class PmmlModel(ModelWithPreparation):
    """A PMML model, by its path or its bytes: ``Scorecard``, ``TreeModel``, ``RegressionModel``,
    ``GeneralRegressionModel``, ``MiningModel``.

    It answers labels and probabilities if its function is classification, and numbers, which need a threshold, if that
    is regression. Scorecards answer their scores, and have reason codes (:meth:`reason_codes`).

    >>> model = PmmlModel("scorecard.pmml")                                                # doctest: +SKIP
    >>> model.predict(table), model.reason_codes(table)                                    # doctest: +SKIP
    """

    source: str | Path | bytes = field(repr=False)
    file: PmmlFile = field(init=False, repr=False)
    _final: PmmlFinalModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.source, bytes):
            path = require_model_path(self.source, "a PMML model")
            require_file_size(path.stat().st_size)
            self.source = path.read_bytes()
        try:
            self.file = parse_pmml(parse_document(self.source))
        except RecursionError:
            raise InputError("the PMML file is nested too deep") from None
        self._final = PmmlFinalModel(self.file)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source,)

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels; numbers otherwise."""
        return bool(self.file.classes)

    @property
    def classes_(self) -> AnyArray:
        """The labels, in the order of the target field."""
        return self._final.classes_

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The data fields that the model uses."""
        return np.array(self.file.inputs, dtype=object)

    @property
    def preparation(self) -> PmmlPreparation:
        """What is done to single fields before the model."""
        return PmmlPreparation(self.file)

    @property
    def final(self) -> PmmlFinalModel:
        """The model on prepared fields."""
        return self._final

    def predict(self, table: Any) -> AnyArray:
        """The label of every row, or its number; raises ModelError where the file says that there is no prediction."""
        return self._final.predict(self.preparation.transform(table))

    @property
    def predict_proba(self) -> Callable[[Any], Float64Array]:
        """The probabilities of all classes, for a table."""
        ask = self._final.predict_proba
        return lambda table: ask(self.preparation.transform(table))

    def reason_codes(self, table: Any) -> list[list[str]]:
        """Per row the reason codes of a scorecard, the one that costs the most points first."""
        model = self.file.model
        if not isinstance(model, ScorecardModel) or not model.has_reasons:
            raise InputError("the PMML model is no scorecard with reason codes")
        columns = self._final.spread(self.preparation.transform(table))
        return model.list_reasons(columns, len(columns[0]))


@dataclass(frozen=True, slots=True, eq=False)
class PmmlPreparation(ModelPreparation):
    """The fields of a PMML file before its model."""

    file: PmmlFile

    def transform(self, table: Any) -> AnyArray:
        """The prepared fields, a column each."""
        raw = read_columns(table, self.file.inputs)
        rows = len(next(iter(raw.values())))
        plan = self.file.plan
        known = plan.compute(raw, rows)
        columns = [known[place] for place in plan.prepared]
        texts = any(column.dtype == object for column in columns)
        matrix = np.empty((rows, len(columns)), dtype=object if texts else np.float64)
        for place, column in enumerate(columns):
            matrix[:, place] = column
        return matrix

    def find_unordered(self, width: int) -> dict[int, str]:  # noqa: ARG002  # it knows its own
        """The data fields that are derived from, or of which single values stand for something."""
        found: dict[int, str] = {}
        origins: list[set[str]] = []
        inputs = self.file.inputs
        for column in self.file.plan.columns:
            how = column.how
            if isinstance(how, InputColumn):
                own, odd = {how.source.name}, _tells_numbers_apart(how)
            elif isinstance(how, RetreatedColumn):
                own, odd = origins[how.column], how.treatment.outliers == "asMissingValues"
            elif isinstance(how, DerivedColumn):
                own, odd = set[str]().union(*(origins[place] for place in how.sources)), True
            else:
                assert isinstance(how, AnswerColumn)
                own, odd = set(), False
            origins.append(own)
            if odd:
                reason = "the PMML file makes other fields of it, or takes single numbers for missing or invalid"
                found |= {inputs.index(name): reason for name in own if name in inputs}
        return found


def _tells_numbers_apart(how: InputColumn) -> bool:
    source = how.source
    lists = source.valid or source.invalid or source.missing
    several = len(source.intervals) > 1
    intervals = several or (bool(source.intervals) and how.treatment.invalid != "returnInvalid")
    return bool(source.type.is_number and (lists or intervals)) or how.treatment.outliers == "asMissingValues"


def _clear_missing(column: AnyArray) -> AnyArray:
    """Texts with None where they are missing, however a table says that."""
    texts = np.empty(len(column), dtype=object)
    texts[:] = [None if value != value else value for value in column.tolist()]
    return texts


@dataclass(eq=False)
class PmmlFinalModel(ModelWithPreparation):
    """The model of a PMML file, on its prepared fields."""

    file: PmmlFile = field(repr=False)

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels; numbers otherwise."""
        return bool(self.file.classes)

    @property
    def classes_(self) -> AnyArray:
        """The labels."""
        if not self.file.classes:
            raise AttributeError("a regression has no classes")
        return np.array(self.file.classes)

    @property
    def preparation(self) -> None:
        """Nothing."""
        return

    @property
    def final(self) -> PmmlFinalModel:
        """The model itself."""
        return self

    def spread(self, seen: Any) -> list[AnyArray]:
        """The columns of the file, of a matrix of the prepared ones."""
        matrix, plan = np.asarray(as_matrix(seen)), self.file.plan
        columns: list[AnyArray] = [np.full(len(matrix), np.nan)] * len(plan.columns)
        for place, source in enumerate(plan.prepared):
            column = matrix[:, place]
            columns[source] = (
                column.astype(np.float64) if plan.columns[source].type.is_number else _clear_missing(column)
            )
        return columns

    def _evaluate(self, seen: Any) -> Answer:
        columns: Sequence[AnyArray] = self.spread(seen)
        return self.file.model.evaluate(columns, len(columns[0]))

    def predict(self, table: Any) -> AnyArray:
        """The label of every row, or its number."""
        answer = self._evaluate(table)
        if answer.numbers is not None:
            return answer.numbers
        return np.asarray(self.classes_[answer.chosen])

    @property
    def predict_proba(self) -> Callable[[Any], Float64Array]:
        """The probabilities of all classes, for a table."""
        if not self.is_classifier or not gives_probabilities(self.file.model):
            raise AttributeError("the model answers no probabilities")
        return self._compute_probabilities

    def _compute_probabilities(self, table: Any) -> Float64Array:
        probabilities = self._evaluate(table).probabilities
        assert probabilities is not None
        return probabilities
