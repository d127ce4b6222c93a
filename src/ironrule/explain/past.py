"""The past rows, wherever they are: in memory, or in a source too long for it, with their codes on disk."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ironrule.model import Readable, Wanted
from ironrule.space import Codes, Space, Table, Value
from ironrule.space.streamed import Opened, codes_on_disk
from ironrule.space.streamed.disk import chosen_rows, kept_on_disk
from ironrule.space.streamed.scratch import Scratch

Mask = npt.NDArray[np.bool_]


class Asked(Protocol):
    """Who says what the outcomes of past rows are."""

    def outcomes(self, codes: Codes, progress: bool | None = None) -> Mask:
        """Of every row."""
        ...


class Counted(Protocol):
    """Past rows that need not be encoded any more."""

    @property
    def table(self) -> Table:
        """A table of their columns: all rows, or a few with every value of every column."""
        ...

    def __len__(self) -> int: ...


class Past(Counted, Protocol):
    """Past rows."""

    @property
    def numbers(self) -> npt.NDArray[np.int64] | None:
        """The row numbers of what ``encode`` gives; None if they count from 0."""
        ...

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """Numbers that are among the values of the table although no row has them."""
        ...

    def encode(self, space: Space, progress: bool | None) -> Codes:
        """All rows as codes."""
        ...

    def take(self, codes: Codes, rows: Mask, name: str | None) -> Codes:
        """The chosen rows; ``name`` says which, if the same name always means the same."""
        ...

    def outcomes(self, asked: Asked, codes: Codes, name: str | None, progress: bool | None) -> Mask:
        """What the model says of every row; ``name`` as before."""
        ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """A table in memory."""

    table: Table

    def __len__(self) -> int:
        return len(self.table)

    @property
    def numbers(self) -> None:
        """They count from 0."""
        return

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """None: the table has values of rows alone."""
        return {}

    def encode(self, space: Space, progress: bool | None) -> Codes:
        """All rows as codes."""
        return space.encode(self.table, progress=progress)

    def take(self, codes: Codes, rows: Mask, name: str | None) -> Codes:  # noqa: ARG002  # made anew every time
        """The chosen rows."""
        return codes.take(rows)

    def outcomes(self, asked: Asked, codes: Codes, name: str | None, progress: bool | None) -> Mask:  # noqa: ARG002
        """What the model says of every row."""
        return asked.outcomes(codes, progress)


@dataclass(frozen=True)
class OnDisk:
    """Rows of a source, kept as codes on disk. What has a name is used again by the next explainer."""

    opened: Opened
    own: Scratch = field(default_factory=lambda: Scratch.new(None), repr=False)

    @property
    def table(self) -> Table:
        """A few rows, with every value of every column."""
        return self.opened.gathered.like

    def __len__(self) -> int:
        return self.opened.gathered.rows

    @property
    def numbers(self) -> None:
        """They count from 0."""
        return

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """None: the table has values of rows alone."""
        return {}

    def encode(self, space: Space, progress: bool | None) -> Codes:
        """All rows as codes."""
        return codes_on_disk(self.opened.gathered, space, progress)

    def take(self, codes: Codes, rows: Mask, name: str | None) -> Codes:
        """The chosen rows, on disk too."""
        return kept_on_disk(self._place("rows", name), lambda: chosen_rows(codes.columns, rows))

    def outcomes(self, asked: Asked, codes: Codes, name: str | None, progress: bool | None) -> Mask:
        """What the model says of every row, asked once."""
        found = kept_on_disk(self._place("outcomes", name), lambda: iter([iter([asked.outcomes(codes, progress)])]))
        return np.asarray(found.columns[0], dtype=np.bool_)

    def _place(self, what: str, name: str | None) -> Path:
        home = self.own.path if name is None else self.opened.gathered.folder
        return home / f"{what}-{name or uuid4().hex}"


def name_of(models: Sequence[Any], exact: Readable | str, space: Space, wanted: Wanted) -> str | None:
    """What the outcomes of past rows depend on, as a name; None for models of which that cannot be said."""
    known = exact.fingerprint if isinstance(exact, Readable) else _pickled(models)
    if known is None:
        return None
    return hashlib.sha256(repr((known, space.fingerprint, wanted)).encode()).hexdigest()[:32]


def _pickled(models: Sequence[Any]) -> str | None:
    """A hash of the models themselves. A function is pickled by its name, which says nothing of what it does."""
    if not all(hasattr(model, "predict") and type(model).__module__ != "__main__" for model in models):
        return None
    try:
        return hashlib.sha256(pickle.dumps(list(models))).hexdigest()
    except Exception:  # a model that cannot be pickled has no name, and is asked again
        return None
