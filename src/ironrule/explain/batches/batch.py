"""A batch: the explanations of many rows, read when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ironrule.counting import counted
from ironrule.errors import InputError, MissingExtraError
from ironrule.explain.batches.few import FewRules, few_rules
from ironrule.explain.batches.folder import Folder
from ironrule.explain.batches.keeping import InFolder, Kept
from ironrule.explain.batches.line import NAMES, Line
from ironrule.explain.explanation import Explanation
from ironrule.space import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECONDS = 10.0
SHOWN = tuple(name for name in NAMES if name not in ("document", "point", "low", "high", "wider_low", "wider_high"))


@dataclass(frozen=True)
class Batch(Sequence[Explanation]):
    """The explanations of the undesired rows of a table, in the order of their rows.

    ``about`` counts: ``total`` rows to explain, ``desired`` ones that needed no explanation, and those ``beyond`` what
    a rule can withstand (a margin, other models). Make one by ``Explainer.explain_many``; read one by ``Batch.open``.
    """

    kept: Kept = field(repr=False)
    about: Mapping[str, int]
    space: Space = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Batch:
        """The batch in a folder, finished or not."""
        found = Folder(Path(folder))
        manifest = found.manifest()
        about = {name: manifest[name] for name in ("total", "desired", "beyond")}
        return cls(InFolder(found), about, Space.from_dict(manifest["features"]))

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The numbers of the rows that are explained."""
        return tuple(self.kept.rows)

    @property
    def complete(self) -> bool:
        """Whether every row has its explanation."""
        return len(self) == self.about["total"]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"index {place} is out of range: the batch has {counted(len(self), 'explanation')}")
        return self.kept.line(place % len(self)).explanation()

    def __iter__(self) -> Iterator[Explanation]:
        return (self[place] for place in range(len(self)))

    def line(self, row: int) -> Line:
        """What is kept of the row with a number; raises InputError if it is not in the batch."""
        place = int(np.searchsorted(self.rows, row))
        if place == len(self) or self.rows[place] != row:
            raise InputError(
                f"the batch does not explain row {row}: it may have the desired outcome", code="row-not-in-batch"
            )
        return self.kept.line(place)

    def of(self, row: int) -> Explanation:
        """The explanation of the row with a number."""
        return self.line(row).explanation()

    def columns(self, *names: str) -> dict[str, list[Any]]:
        """Some columns, as :class:`Line` names them."""
        return self.kept.columns(names)

    def to_frame(self) -> Any:
        """A pandas table with a line per row: its rule, its verdict, its bounds and so on."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a batch as a table") from None
        return pd.DataFrame(self.columns(*SHOWN))

    @property
    def verdicts(self) -> Counter[str]:
        """How many rows have which verdict."""
        return Counter(self.columns("verdict")["verdict"])

    def few_rules(self, *, wider: bool = True, seconds: float = SECONDS) -> FewRules:
        """The fewest proven rules of the batch that together cover all rows that have one.

        With ``wider``, rules may have their bounds as far out as is proven. Exact, or said not to be, within a time.
        """
        read = self.columns("row", "point", "rule", "low", "high", "wider", "wider_low", "wider_high")
        return few_rules(read, wider, seconds)

    def plot(self, ax: Axes | None = None) -> Axes:
        """A picture on matplotlib's axes: what share is proven, how long rules are, which features they name."""
        from ironrule.report.pictures.plots import plot_batch

        return plot_batch(self, ax, self.space)

    def to_html(
        self,
        voice: Literal["person", "validator"] = "validator",
        path: str | Path | None = None,
        *,
        history: Any = None,
    ) -> str:
        """A report as one HTML page, also written to ``path``: an account for the validator, or a letter per person.

        Letters show past rows, and call features by their labels, where ``history`` gives the explainer or the data.
        """
        from ironrule.report.reports import batch_report, written

        told = self if history is None else [one.with_history(history, self.space) for one in self]
        return written(batch_report(told, voice, [f"row {row}" for row in self.rows], self.space), path)

    def __str__(self) -> str:
        from ironrule.report.batch_text import batch_text

        return batch_text(self)

    def __repr__(self) -> str:
        told = counted(len(self), "row") if self.complete else f"{len(self):,} of {counted(self.about['total'], 'row')}"
        words = ", ".join(f"{count} {word}" for word, count in sorted(self.verdicts.items()))
        return f"<Batch: {told} explained; {words or 'none'}>"

    def _repr_html_(self) -> str:
        from ironrule.report.batch_html import batch_html

        return batch_html(self)
