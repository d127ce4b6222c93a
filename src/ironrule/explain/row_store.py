"""The past rows, in memory or on disk.

A table stays in memory. Rows of a source that is too long for memory are encoded once and kept as codes on disk;
selections and outcomes that have a cache key are used again by the next explainer.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol
from uuid import uuid4

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.errors import ConstraintError
from ironrule.model.decision import DecisionTarget
from ironrule.space.codes import EncodedTable
from ironrule.space.column_store.encode_to_disk import encode_to_disk
from ironrule.space.column_store.ingest import OpenedSource
from ironrule.space.column_store.storage import TempFolder, open_or_write_columns, select_rows
from ironrule.space.feature import Value
from ironrule.space.space import Space
from ironrule.space.table import Table


class OutcomeSource(Protocol):
    """Who says what the outcomes of past rows are."""

    def decide_rows(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """Of some rows."""

    def compute_outcomes(self, codes: EncodedTable, progress: bool | None = None) -> BoolArray:
        """Of every row of a history."""


class RowTable(Protocol):
    """Past rows that need not be encoded any more."""

    @property
    def table(self) -> Table:
        """A table of their columns: all rows, or a few with every value of every column."""


class RowStore(RowTable, Protocol):
    """Past rows."""

    def __len__(self) -> int: ...

    @property
    def row_numbers(self) -> Int64Array | None:
        """The row numbers of what ``encode`` gives; None if they count from 0."""

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """Numbers that are among the values of the table although no row has them."""

    def encode(self, space: Space, progress: bool | None) -> EncodedTable:
        """All rows as codes."""

    def take(self, codes: EncodedTable, rows: BoolArray, name: str | None, /) -> EncodedTable:
        """The chosen rows; ``name`` says which, if the same name always means the same."""

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, name: str | None, progress: bool | None, /
    ) -> BoolArray:
        """What the model says of every row; ``name`` as before."""


@dataclass(frozen=True, slots=True)
class InMemoryRows:
    """A table in memory."""

    table: Table

    def __len__(self) -> int:
        return len(self.table)

    row_numbers: ClassVar[None] = None  # rows count from 0
    breakpoints: ClassVar[Mapping[str, tuple[Value, ...]]] = {}  # the table has values of rows alone

    def encode(self, space: Space, progress: bool | None) -> EncodedTable:
        """All rows as codes."""
        return space.encode(self.table, progress=progress)

    def take(self, codes: EncodedTable, rows: BoolArray, _: str | None) -> EncodedTable:
        """The chosen rows."""
        return codes.take(rows)

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, _: str | None, progress: bool | None
    ) -> BoolArray:
        """What the model says of every row."""
        return source.compute_outcomes(codes, progress)


@dataclass(frozen=True)
class OnDiskRows:
    """Rows of a source, kept as codes on disk. What has a name is used again by the next explainer."""

    opened: OpenedSource
    temp_dir: TempFolder = field(default_factory=lambda: TempFolder.create(None), repr=False)

    @property
    def table(self) -> Table:
        """A few rows, with every value of every column."""
        return self.opened.table.sample

    def __len__(self) -> int:
        return self.opened.table.row_count

    row_numbers: ClassVar[None] = None  # rows count from 0
    breakpoints: ClassVar[Mapping[str, tuple[Value, ...]]] = {}  # the table has values of rows alone

    def encode(self, space: Space, progress: bool | None) -> EncodedTable:
        """All rows as codes."""
        return encode_to_disk(self.opened.table, space, progress)

    def take(self, codes: EncodedTable, rows: BoolArray, name: str | None) -> EncodedTable:
        """The chosen rows, on disk too."""
        return open_or_write_columns(self._build_path("rows", name), lambda: select_rows(codes.columns, rows))

    def compute_outcomes(
        self, source: OutcomeSource, codes: EncodedTable, name: str | None, progress: bool | None
    ) -> BoolArray:
        """What the model says of every row, asked once."""
        path = self._build_path("outcomes", name)
        stored = open_or_write_columns(path, lambda: iter([iter([source.compute_outcomes(codes, progress)])]))
        return np.asarray(stored.columns[0], dtype=np.bool_)

    def _build_path(self, what: str, name: str | None) -> Path:
        home = self.temp_dir.path if name is None else self.opened.table.folder
        return home / f"{what}-{name or uuid4().hex}"


def find_satisfying_rows(space: Space, codes: EncodedTable) -> BoolArray:
    """Which past rows satisfy the constraints on the space; raises ConstraintError if none does, of rows that are
    there.
    """
    kept = space.feasible.admits_rows(codes)
    if not kept.any() and len(codes):
        raise ConstraintError("no past row satisfies the constraints on the space", code="no-past-rows")
    return kept


def build_cache_key(models: Sequence[Any], fingerprint: str | None, space: Space, target: DecisionTarget) -> str | None:
    """What the outcomes of past rows depend on, as a name; None for models of which that cannot be said."""
    model_hash = _hash_models(models) if fingerprint is None else fingerprint
    if model_hash is None:
        return None
    return hashlib.sha256(repr((model_hash, space.fingerprint, target)).encode()).hexdigest()[:32]


def _hash_models(models: Sequence[Any]) -> str | None:
    """A hash of the models themselves. A function is pickled by its name, which says nothing of what it does."""
    if not all(hasattr(model, "predict") and type(model).__module__ != "__main__" for model in models):
        return None
    try:
        return hashlib.sha256(pickle.dumps(list(models))).hexdigest()
    except Exception:  # a model that cannot be pickled has no name, and is asked again
        return None
