"""Counterfactuals of many rows, read from storage when they are needed.

Rows are kept as those of a batch of explanations are (:mod:`.batch_storage`, :mod:`.batch_folder`): in memory, or as
Parquet in a folder that survives crashes. ``Explainer.counterfactuals_many`` makes such a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.results.batch_folder import COUNTERFACTUALS, StoredBatch
from ironrule.results.changes.tables import build_batch_frame
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.verdict.digest import write_json
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


class CounterfactualsBatch(StoredBatch[Counterfactuals, CounterfactualsRow]):
    """The counterfactuals of the undesired rows of a table, in the order of their rows.

    ``counts`` says how many rows there are ``to_explain``, and how many are ``desired`` and needed none. Make one by
    ``Explainer.counterfactuals_many``; read one by ``CounterfactualsBatch.open``.
    """

    KIND = COUNTERFACTUALS
    ROW_TYPE = CounterfactualsRow
    COUNTED = ("to_explain", "desired")
    ITEM, MISSING = "row", "has no counterfactuals of"

    def _read_item(self, stored: CounterfactualsRow) -> Counterfactuals:
        return stored.counterfactuals()

    def get_counterfactuals(self, row: int) -> Counterfactuals:
        """The counterfactuals of the row with a number; raises InputError if it is not in the batch."""
        return self.get_batch_row(row).counterfactuals()

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
        return write_json(self.to_dict(), indent)

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
