"""Counterfactuals of many rows, read from storage when they are needed.

Rows are kept as those of a batch of explanations are (:mod:`.batch_storage`, :mod:`.batch_folder`): in memory, or as
Parquet in a folder that survives crashes. ``Explainer.counterfactuals_many`` makes such a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ironrule.errors import InputError
from ironrule.results.batch_folder import COUNTERFACTUALS, BatchFolder, FolderBatchReader, require_kind
from ironrule.results.changes.tables import build_batch_frame
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.space.space import Space
from ironrule.wording import format_count, render_text

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterfactualsRow:
    """The counterfactuals of one row as a batch keeps them; ``same_as`` is the row that was searched for: an equal
    one, or the row itself. ``changes`` is how many features the nearest changes; None where none was found.
    """

    row: int
    same_as: int
    found: int
    changes: int | None
    proven: bool
    resolution: float
    seconds: float
    stopped: str | None
    document: str

    @classmethod
    def from_counterfactuals(cls, row: int, found: Counterfactuals) -> CounterfactualsRow:
        """What is kept of what was found for a row."""
        return cls(
            row=row,
            same_as=row,
            found=len(found),
            changes=len(found.items[0].changes) if found.items else None,
            proven=found.proven,
            resolution=found.resolution,
            seconds=found.statistics.seconds,
            stopped=found.statistics.stopped,
            document=found.to_json(),
        )

    def copy_to(self, row: int) -> CounterfactualsRow:
        """The same for an equal row, which took no time."""
        return replace(self, row=row, seconds=0.0)

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> CounterfactualsRow:
        """The row with these values by column, as they were stored."""
        return cls(**values)

    def counterfactuals(self) -> Counterfactuals:
        """The counterfactuals themselves."""
        return Counterfactuals.from_json(self.document)


class CounterfactualsReader(Protocol):
    """Finished rows, in the order of their numbers."""

    @property
    def row_numbers(self) -> list[int]:
        """Their row numbers."""

    def row_at(self, place: int) -> CounterfactualsRow:
        """One of them."""

    def columns(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Some columns of all of them."""


@dataclass(frozen=True)
class CounterfactualsBatch(Sequence[Counterfactuals]):
    """The counterfactuals of the undesired rows of a table, in the order of their rows.

    ``counts`` says how many rows there are ``to_explain``, and how many are ``desired`` and needed none. Make one by
    ``Explainer.counterfactuals_many``; read one by ``CounterfactualsBatch.open``.
    """

    storage: CounterfactualsReader = field(repr=False)
    counts: Mapping[str, int]
    space: Space = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> CounterfactualsBatch:
        """The batch in a folder, finished or not."""
        batch_folder = BatchFolder(Path(folder), CounterfactualsRow)
        manifest = batch_folder.manifest()
        require_kind(batch_folder.path, manifest, COUNTERFACTUALS)
        counts = {name: manifest[name] for name in ("to_explain", "desired")}
        return cls(FolderBatchReader(batch_folder), counts, Space.from_dict(manifest["space"]))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The numbers of the rows that have been searched for."""
        return tuple(self.storage.row_numbers)

    @property
    def complete(self) -> bool:
        """Whether every row has been searched for."""
        return len(self) == self.counts["to_explain"]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"index {place} is out of range: the batch has {format_count(len(self), 'row')}")
        return self.storage.row_at(place % len(self)).counterfactuals()

    def __iter__(self) -> Iterator[Counterfactuals]:
        return (self[place] for place in range(len(self)))

    def get_counterfactuals(self, row: int) -> Counterfactuals:
        """The counterfactuals of the row with a number; raises InputError if it is not in the batch."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self) or self.rows[place] != row:
            statement = f"the batch has no counterfactuals of row {row}: it may have the desired outcome"
            raise InputError(statement, code="row-not-in-batch")
        return self.storage.row_at(place).counterfactuals()

    def to_frame(self, only_changes: bool = False) -> DataFrame:
        """A pandas table with one row per counterfactual, by the number of its row and its own; with ``only_changes``,
        "-" where a value stays as it is. A row for which none was found is not in it.
        """
        return build_batch_frame(self.space.names, dict(zip(self.rows, self, strict=True)), only_changes)

    def summarize(self) -> dict[str, int]:
        """How many rows there are, in how many something was found, and of how many the answer is proven."""
        columns = self.storage.columns(("found", "proven"))
        found, proven = (np.array(columns[name], dtype=np.int64) for name in ("found", "proven"))
        return {
            "searched": len(self),
            **self.counts,
            "with_counterfactuals": int((found > 0).sum()),
            "counterfactuals": int(found.sum()),
            "proven": int(proven.sum()),
            "proven_to_have_none": int(((found == 0) & (proven > 0)).sum()),
        }

    def to_dict(self) -> dict[str, Any]:
        """The summary, and the documents of all rows."""
        rows = [{"row": row} | found.to_dict() for row, found in zip(self.rows, self, strict=True)]
        return self.summarize() | {"rows": rows}

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def _repr_html_(self) -> str:
        return render_text(self)

    def __str__(self) -> str:
        facts = self.summarize()
        text = (
            f"Counterfactuals of {format_count(facts['searched'], 'row')} with the undesired outcome: "
            f"{format_count(facts['counterfactuals'], 'counterfactual')} of "
            f"{format_count(facts['with_counterfactuals'], 'row')}; proven for {facts['proven']:,}"
        )
        if facts["proven_to_have_none"]:
            text += f", of which {facts['proven_to_have_none']:,} have none"
        if not self.complete:
            text += f"; {facts['to_explain'] - facts['searched']:,} are still to be searched for"
        return f"{text}."

    def __repr__(self) -> str:
        return f"<CounterfactualsBatch: {len(self):,} of {format_count(self.counts['to_explain'], 'row')}>"
