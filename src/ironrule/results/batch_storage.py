"""What a batch keeps of every row, as one flat row, in memory or as Parquet.

``StoredRow`` is what every kind of batch keeps: of explanations ``BatchRow``, of counterfactuals
:class:`~ironrule.results.counterfactuals_batch.CounterfactualsRow`.

``BatchRow`` is one row of a batch of explanations. ``document`` is the explanation as JSON, certificate included, and
``digest`` the hash that it carries; both are None where documents were not wanted. Boxes are codes, for every feature
the first and the last; only proven rules have them, so that nothing unproven can be taken for a cover of anything.
:mod:`ironrule.results.batch_folder` keeps rows in a folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from ironrule.errors import InputError, MissingExtraError
from ironrule.results.explanation import Explanation, RankedRule
from ironrule.results.ladder import Ladder
from ironrule.verdict.digest import DIGEST_FIELD
from ironrule.verdict.verdict import Proven

CodeTuple = tuple[int, ...]


class StoredRow(Protocol):
    """A row of any kind of batch: a frozen dataclass whose fields are the columns of its table."""

    @property
    def row(self) -> int:
        """The number of the row."""

    @property
    def seconds(self) -> float:
        """What the work took."""

    def copy_to(self, row: int) -> Self:
        """The same for an equal row, which took no time."""

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> Self:
        """The row with these values by column, as they were stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """The explanation of one row. ``same_as`` is the row that was explained: an equal one, or the row itself;
    ``covered_by`` is the row that was searched for, where its rule covers this one too.
    """

    row: int
    same_as: int
    covered_by: int | None
    verdict: str
    rule: str
    cardinality: int
    weight: float
    lower_bound: float
    minimum: bool
    coverage: int
    wider: str | None
    wider_coverage: int | None
    wider_is_maximal: bool
    seconds: float
    stopped: str | None
    space: str
    model: str
    digest: str | None
    point: CodeTuple
    low: CodeTuple | None
    high: CodeTuple | None
    wider_low: CodeTuple | None
    wider_high: CodeTuple | None
    document: str | None
    ladder_document: str | None = None  # the ladder without its explanation, which is the document

    @property
    def has_own_proof(self) -> bool:
        """Whether its rule is proven, and was found by a search for this row."""
        return self.low is not None and self.covered_by is None and self.same_as == self.row

    def copy_to(self, row: int) -> BatchRow:
        """The same for an equal row, which took no time."""
        return replace(self, row=row, seconds=0.0)

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> BatchRow:
        """The row with these values by column, as they were stored."""
        codes = {name: None if values[name] is None else tuple(values[name]) for name in CODE_COLUMNS}
        return cls(**(dict(values) | codes))

    def explanation(self) -> Explanation:
        """The explanation itself; raises InputError if the batch was made without documents."""
        if self.document is None:
            statement = f"the explanation of row {self.row} was not kept: the batch was made without documents"
            hint = "explain the row again, or make the batch with documents=True"
            raise InputError(statement, hint=hint, code="batch-without-documents")
        return Explanation.from_json(self.document)

    def ladder(self) -> Ladder:
        """The ladder; raises InputError if the batch was made without ladders."""
        if self.ladder_document is None or self.document is None:
            statement = f"row {self.row} has no ladder: the batch was made without ladders"
            raise InputError(statement, hint="make the batch again, with ladders", code="batch-without-ladders")
        return Ladder.from_dict(json.loads(self.ladder_document) | {"explanation": json.loads(self.document)})


COLUMNS = tuple(field.name for field in fields(BatchRow))


def build_batch_row(row: int, point: CodeTuple, explanation: Explanation, documents: bool) -> BatchRow:
    """An explanation as a row of a batch."""
    document: dict[str, Any] | None = explanation.to_dict() if documents else None
    wider = explanation.wider
    low, high = _find_proven_box(explanation.ranked[0])
    wider_low, wider_high = _find_proven_box(wider)
    return BatchRow(
        row=row,
        same_as=row,
        covered_by=None,
        verdict=type(explanation.verdict).__name__.lower(),
        rule=str(explanation.rule),
        cardinality=explanation.cardinality,
        weight=float(explanation.weight),
        lower_bound=float(explanation.lower_bound),
        minimum=explanation.minimum,
        coverage=explanation.coverage,
        wider=None if wider is None else str(wider.rule),
        wider_coverage=None if wider is None else wider.coverage,
        wider_is_maximal=explanation.wider_is_maximal,
        seconds=explanation.statistics.seconds,
        stopped=explanation.statistics.stopped,
        space=explanation.space,
        model=explanation.model,
        digest=None if document is None else document[DIGEST_FIELD],
        point=point,
        low=low,
        high=high,
        wider_low=wider_low,
        wider_high=wider_high,
        document=None if document is None else json.dumps(document, ensure_ascii=False),
    )


def build_ladder_row(row: int, point: CodeTuple, ladder: Ladder) -> BatchRow:
    """A ladder as a row of a batch, beside its explanation."""
    document = {name: part for name, part in ladder.to_dict().items() if name != "explanation"}
    stored = build_batch_row(row, point, ladder.explanation, documents=True)
    return replace(stored, ladder_document=json.dumps(document, ensure_ascii=False))


def _find_proven_box(ranked: RankedRule | None) -> tuple[CodeTuple | None, CodeTuple | None]:
    """The box that a proof speaks about; nothing where there is no proof."""
    if ranked is None or not isinstance(ranked.verdict, Proven):
        return None, None
    return ranked.verdict.certificate.low, ranked.verdict.certificate.high


ROWS_PER_GROUP = 64  # rows that are read together
CODE_COLUMNS = ("point", "low", "high", "wider_low", "wider_high")


def require_parquet() -> Any:
    """Arrow's module for Parquet; raises MissingExtraError now, not after the work."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "writing a batch") from None
    return pq


def encode_parquet(rows: Iterable[StoredRow], row_type: Any) -> bytes:
    """The bytes of a Parquet file with these rows of one kind."""
    import pyarrow as pa

    text, whole, codes = pa.string(), pa.int64(), pa.list_(pa.int32())
    kinds = {
        "row": whole, "same_as": whole, "covered_by": whole, "cardinality": pa.int32(), "weight": pa.float64(),
        "lower_bound": pa.float64(), "minimum": pa.bool_(), "coverage": whole, "wider_coverage": whole,
        "wider_is_maximal": pa.bool_(), "seconds": pa.float64(), **dict.fromkeys(CODE_COLUMNS, codes),
        "found": whole, "changes": whole, "proven": pa.bool_(), "resolution": pa.float64(),
    }  # fmt: skip
    items = list(rows)
    columns = [column.name for column in fields(row_type)]
    schema = pa.schema([(name, kinds.get(name, text)) for name in columns])
    table = pa.table({name: [getattr(row, name) for row in items] for name in columns}, schema=schema)
    target = pa.BufferOutputStream()
    require_parquet().write_table(table, target, compression="zstd", row_group_size=ROWS_PER_GROUP)
    return bytes(target.getvalue())


def read_columns(path: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Some columns of a part, as Python values."""
    table = require_parquet().read_table(path, columns=list(names), partitioning=None)
    return {name: table.column(name).to_pylist() for name in names}


def read_batch_row(path: Path, place: int) -> dict[str, Any]:
    """The columns of the row at a place of a part; only its group of rows is read."""
    with require_parquet().ParquetFile(path) as file:
        group = file.read_row_group(place // ROWS_PER_GROUP)
        row: dict[str, Any] = group.slice(place % ROWS_PER_GROUP, 1).to_pylist()[0]
        return row


def read_batch_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The columns of all rows of a part."""
    with require_parquet().ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group).to_pylist()


RowT_co = TypeVar("RowT_co", bound=StoredRow, covariant=True)


class BatchReader(Protocol[RowT_co]):
    """Finished rows of one kind, in the order of their numbers."""

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""

    def row_at(self, place: int) -> RowT_co:
        """One of them."""

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""


@dataclass(slots=True)
class InMemoryBatch:
    """Rows of one kind in memory."""

    batch_rows: list[Any] = field(default_factory=list)

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""
        return [row.row for row in self.batch_rows]

    def finished_row_numbers(self) -> set[int]:
        """The numbers of all rows that are finished."""
        return set(self.row_numbers)

    def read_rows(self) -> list[Any]:
        """The rows that are finished."""
        return self.batch_rows

    def add(self, rows: Sequence[StoredRow]) -> None:
        """Keep finished rows."""
        self.batch_rows = sorted([*self.batch_rows, *rows], key=lambda row: row.row)

    def row_at(self, place: int) -> Any:
        """One of them."""
        return self.batch_rows[place]

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""
        return {name: [getattr(row, name) for row in self.batch_rows] for name in names}
