"""What batches have found so far, for the pages: a line per row, and proven rules for the overview.

Results are kept in memory while the server runs, of the last few batches alone; every explanation is in the audit log
as well, where it stays.
"""

from __future__ import annotations

import csv
import datetime
import io
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ironrule.results.batch import RuleCover, find_rule_cover
from ironrule.results.batch_storage import build_batch_row
from ironrule.results.explanation import Explanation
from ironrule.rule.rule import Rule
from ironrule.server.audit.record import escape_formula
from ironrule.server.errors import build_not_found_error, format_brief

COVER_COLUMNS = ("row", "point", "rule", "low", "high", "wider", "wider_low", "wider_high")
COVER_SECONDS = 2.0  # for the fewest rules that cover all rows


@dataclass(eq=False)
class BatchResults:
    """One batch: which rows were asked about, by whom, and what was found so far. Only its worker adds to it."""

    title: str
    rows: Sequence[int]
    who: str
    started_at: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())
    constraints: tuple[str, ...] = ()
    lines: list[dict[str, Any]] = field(default_factory=list)
    rules: dict[int, Rule] = field(default_factory=dict)  # as they are shown, by the row that they were found for
    wide_rules: dict[int, Rule] = field(default_factory=dict)  # as they cover rows: not rounded
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COVER_COLUMNS})
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cover: tuple[int, RuleCover] | None = None

    def add(self, line: Mapping[str, Any], point: tuple[int, ...] = (), explanation: Explanation | None = None) -> None:
        """Add what is known of a row; without an explanation there is an error in its line."""
        if explanation is not None:
            stored = build_batch_row(line["row"], point, explanation, documents=False)
            with self._lock:
                wider = None if stored.wider_low is None else explanation.wider  # None: not proven
                self.rules[stored.row] = explanation.shown.rule
                self.wide_rules[stored.row] = explanation.rule if wider is None else wider.rule
                for name in COVER_COLUMNS:
                    self.columns[name].append(getattr(stored, name))
        self.lines.append(dict(line))

    @property
    def verdicts(self) -> Counter[str]:
        """How many rows have which verdict; ``failed`` where there is none."""
        return Counter(line["verdict"] or "failed" for line in list(self.lines))

    def copy_rules(self) -> dict[int, Rule]:
        """The rules found so far, by row."""
        with self._lock:
            return dict(self.rules)

    def count_features(self) -> Counter[str]:
        """In how many rows' rules every feature appears."""
        with self._lock:
            return Counter(name for rule in self.rules.values() for name in rule.features)

    def find_cover(self) -> RuleCover:
        """The fewest proven rules that cover all rows with one; computed again only after more rows."""
        with self._lock:
            known = self._cover
            columns = {name: list(values) for name, values in self.columns.items()}
        if known is None or known[0] != len(columns["row"]):
            known = len(columns["row"]), find_rule_cover(columns, wider=True, seconds=COVER_SECONDS)
            self._cover = known
        return known[1]


class BatchRegistry:
    """The last batches, by the names of their jobs; older ones are dropped."""

    def __init__(self, max_batches: int) -> None:
        self._max_batches, self._lock = max_batches, threading.Lock()
        self._batches: OrderedDict[str, BatchResults] = OrderedDict()

    def add(self, name: str, results: BatchResults) -> None:
        """Keep a batch."""
        with self._lock:
            self._batches[name] = results
            while len(self._batches) > self._max_batches:
                self._batches.popitem(last=False)

    def find(self, name: str) -> BatchResults:
        """A batch; raises a 404 if it is unknown or was dropped."""
        with self._lock:
            found = self._batches.get(name)
        if found is None:
            hint = "old batches are dropped; what they explained is at /explanations"
            raise build_not_found_error(f"batch {format_brief(name)}", hint)
        return found

    def list_newest(self) -> list[tuple[str, BatchResults]]:
        """All batches with their names, the newest first."""
        with self._lock:
            return list(reversed(self._batches.items()))


CSV_HEADER = ("applicant", "explanation", "verdict", "rule", "error")


def format_results_csv(results: BatchResults, texts: Mapping[int, str]) -> str:
    """The lines of a batch as a CSV file, safe for spreadsheets; ``texts`` are the rules in words, by row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(CSV_HEADER)
    for line in list(results.lines):
        error = "" if line["error"] is None else line["error"]["message"]
        cells = line["row"], line["explanation"], line["verdict"], texts.get(line["row"], line["rule"]), error
        writer.writerow(map(escape_formula, cells))
    return buffer.getvalue()
