"""A batch: the explanations of many rows, read from storage when they are needed.

Every proven rule of a batch holds for everybody, so it covers all rows that satisfy it, whichever row it was found for.
The fewest of them that together cover all rows (``RuleCover``) summarise the model; :mod:`ironrule.search.rule_cover`
finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.errors import MissingExtraError
from ironrule.results.audience import LadderAudience
from ironrule.results.batch_folder import EXPLANATIONS, StoredBatch
from ironrule.results.batch_storage import CODE_COLUMNS, COLUMNS, BatchRow
from ironrule.results.display import (
    describe_rule_cover,
    format_batch,
    format_rule_cover,
    plot_batch,
    render_batch,
    render_rule_cover,
    write_batch_report,
    write_ladder_batch_report,
    write_pdf,
)
from ironrule.results.explanation import Explanation
from ironrule.results.ladder import Ladder
from ironrule.results.notice import NoticeOptions
from ironrule.results.report_options import ReportOptions
from ironrule.search.rule_cover import find_covered_points, find_minimum_rule_cover
from ironrule.wording import escape_controls, format_count, format_repr, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ironrule.results.comparison import BatchComparison
    from ironrule.results.judgement import Recheck


OWN_COLUMNS = ("rule", "low", "high")  # the columns of a rule with its row's own values


@dataclass(frozen=True, slots=True)
class CoveringRule:
    """A proven rule, the row that it was found for, and how many rows of the batch it covers."""

    rule: str
    row: int
    covered_rows: int

    def __str__(self) -> str:
        return f"{escape_controls(self.rule)} Proven; covers {format_count(self.covered_rows, 'row')} of the batch."

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self)


@dataclass(frozen=True, slots=True)
class RuleCover:
    """Proven rules that together cover all rows with a proven rule, those that cover most first.

    ``minimum`` says it is proven that no fewer of the batch's rules do; else ``lower_bound`` of them are needed.
    ``uncovered`` rows have no proven rule.
    """

    rules: tuple[CoveringRule, ...]
    lower_bound: int
    covered: int
    uncovered: int

    @property
    def minimum(self) -> bool:
        """Whether no fewer rules of the batch cover as much."""
        return len(self.rules) <= self.lower_bound

    def __len__(self) -> int:
        return len(self.rules)

    def __str__(self) -> str:
        return format_rule_cover(self)

    def __repr__(self) -> str:
        return f"<RuleCover: {describe_rule_cover(self)}>"

    def _repr_html_(self) -> str:
        return render_rule_cover(self)


def find_rule_cover(read: Mapping[str, list[Any]], wider: bool, seconds: float) -> RuleCover:
    """The fewest proven rules of a batch, given by columns, that cover all rows with a proven rule."""
    rows = len(read["row"])
    candidates = _collect_candidates(read, wider)
    points = [point for point, low in zip(read["point"], read["low"], strict=True) if low is not None]
    if not points:
        return RuleCover((), 0, 0, rows)
    distinct, counts = np.unique(np.array(points, dtype=np.int64), axis=0, return_counts=True)
    boxes = np.array(list(candidates), dtype=np.int64)
    flags = find_covered_points(distinct, boxes[:, 0], boxes[:, 1])
    chosen, found_for = find_minimum_rule_cover(flags, seconds), list(candidates.values())
    rules = [CoveringRule(*found_for[place], int(counts[flags[place]].sum())) for place in chosen.positions]
    ranked = tuple(sorted(rules, key=lambda rule: (-rule.covered_rows, rule.row)))
    return RuleCover(ranked, chosen.lower_bound, len(points), rows - len(points))


def _collect_candidates(read: Mapping[str, list[Any]], wider: bool) -> dict[Any, tuple[str, int]]:
    """Every distinct box of a proven rule, with the rule's text and the first row that it was found for."""
    candidates: dict[Any, tuple[str, int]] = {}
    for place, row in enumerate(read["row"]):
        names = ("wider", "wider_low", "wider_high") if wider and read["wider_low"][place] is not None else OWN_COLUMNS
        text, low, high = (read[name][place] for name in names)
        if low is not None:
            candidates.setdefault((tuple(low), tuple(high)), (text, row))
    return candidates


COVER_SECONDS = 10.0

FRAME_COLUMNS = tuple(name for name in COLUMNS if name not in ("document", "ladder_document", *CODE_COLUMNS))


class Batch(StoredBatch[Explanation, BatchRow]):
    """The explanations of the undesired rows of a table, in the order of their rows.

    ``counts`` says how many rows there are ``to_explain``, how many are ``desired`` and needed no explanation, and how
    many are ``not_robust``: undesired, but not with the margin or for all models. Make one by
    ``Explainer.explain_many``; read one by ``Batch.open``.
    """

    KIND = EXPLANATIONS
    ROW_TYPE = BatchRow
    COUNTED = ("to_explain", "desired", "not_robust")
    ITEM, MISSING = "explanation", "does not explain"

    def _read_item(self, stored: BatchRow) -> Explanation:
        return stored.explanation()

    @property
    def has_ladders(self) -> bool:
        """Whether the batch was made with ladders."""
        return len(self) > 0 and self.storage.row_at(0).ladder_document is not None

    def get_explanation(self, row: int) -> Explanation:
        """The explanation of the row with a number."""
        return self.get_batch_row(row).explanation()

    def ladders(self) -> Iterator[Ladder]:
        """The ladders of all rows, in order; raises InputError if the batch was made without ladders."""
        return (self.storage.row_at(place).ladder() for place in range(len(self)))

    def get_ladder(self, row: int) -> Ladder:
        """The ladder of the row with a number."""
        return self.get_batch_row(row).ladder()

    def columns(self, *names: str) -> dict[str, list[Any]]:
        """Some columns, as :class:`BatchRow` names them."""
        return self.storage.columns(names)

    def to_frame(self) -> Any:
        """A pandas table with one row per explained row: its rule, its verdict, its bounds and so on."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a batch as a table") from None
        return pd.DataFrame(self.columns(*FRAME_COLUMNS))

    @property
    def verdicts(self) -> Counter[str]:
        """How many rows have which verdict."""
        return Counter(self.columns("verdict")["verdict"])

    def find_rule_cover(self, *, wider: bool = True, seconds: float = COVER_SECONDS) -> RuleCover:
        """The fewest proven rules of the batch that together cover all rows that have one.

        With ``wider``, rules may have their bounds as far out as is proven. Exact, or said not to be, within a time.
        """
        names = ("row", "point", "rule", "low", "high", "wider", "wider_low", "wider_high")
        return find_rule_cover(self.columns(*names), wider, seconds)

    def compare(self, other: Batch, *, recheck: Recheck | None = None) -> BatchComparison:
        """How explanations changed from this batch to another one, such as that of a new model, or of the next month.

        Which rules of this batch still hold is said as far as the other one shows it; a ``recheck`` of this batch by
        the new model (``explainer.recheck(batch)``) says it of all.
        """
        from ironrule.results.comparison import compare_batches

        return compare_batches(self, other, recheck)

    def plot(self, ax: Axes | None = None) -> Axes:
        """A plot on matplotlib's axes: what share is proven, how long rules are, which features they name."""
        return plot_batch(self, ax)

    def to_html(
        self,
        audience: LadderAudience = "validator",
        path: str | Path | None = None,
        *,
        history: Any = None,
        notice: NoticeOptions | None = None,
        report: ReportOptions | None = None,
    ) -> str:
        """A report as one HTML page, also written to ``path``: an account for the validator, or a letter per person.

        Letters show past rows, and call features by their labels, where ``history`` gives the explainer or the data. A
        batch that was made with ladders also gives a notice per row, written as ``notice`` says, and its letters lead
        with the short rule. ``report`` has the language and the letterhead of letters.
        """
        if audience == "notice" or (audience == "person" and self.has_ladders):
            return write_ladder_batch_report(self, audience, path, notice=notice, report=report, history=history)
        return write_batch_report(self, audience, path, report=report, history=history)

    def to_pdf(
        self,
        audience: LadderAudience = "validator",
        path: str | Path | None = None,
        *,
        history: Any = None,
        notice: NoticeOptions | None = None,
        report: ReportOptions | None = None,
    ) -> bytes:
        """The same report as PDF (``pip install 'ironrule[pdf]'``)."""
        return write_pdf(self.to_html(audience, history=history, notice=notice, report=report), path)

    def __str__(self) -> str:
        return format_batch(self)

    def __repr__(self) -> str:
        total = format_count(self.counts["to_explain"], "row")
        rows = total if self.complete else f"{len(self):,} of {total}"
        words = ", ".join(f"{count} {word}" for word, count in sorted(self.verdicts.items()))
        return f"<Batch: {rows} explained; {words or 'none'}>"

    def _repr_html_(self) -> str:
        return render_batch(self)
