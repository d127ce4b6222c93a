"""One row of a batch: what became of one denied row, flat, as it stands in a Parquet file.

``document`` is the explanation itself as JSON, certificate included, and ``digest`` the hash that it carries; both are
None where documents were not wanted. Boxes are codes: for every feature the first and the last; they are there for
proven rules alone, so nothing unproven can be taken for a cover of anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from ironrule.errors import InputError
from ironrule.explain.explanation import Explanation, RankedRule
from ironrule.verdict import Proven
from ironrule.verdict.digest import FIELD

Codes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """The explanation of one row. ``same_as`` is the row that was explained: an equal one, or the row itself;
    ``covered_by`` is the row that was searched for, where its rule serves this one too.
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
    widest: bool
    seconds: float
    stopped: str | None
    space: str
    model: str
    digest: str | None
    point: Codes
    low: Codes | None
    high: Codes | None
    wider_low: Codes | None
    wider_high: Codes | None
    document: str | None

    def explanation(self) -> Explanation:
        """The explanation itself; raises InputError if the batch was made without documents."""
        if self.document is None:
            raise InputError(
                f"the explanation of row {self.row} was not kept: the batch was made without documents",
                hint="explain the row again, or make the batch with documents=True",
                code="batch-without-documents",
            )
        return Explanation.from_json(self.document)

    def of_twin(self, row: int) -> Line:
        """The same for an equal row, which took no time."""
        return replace(self, row=row, seconds=0.0)


NAMES = tuple(field.name for field in fields(Line))


def line_of(row: int, point: Codes, explanation: Explanation, documents: bool) -> Line:
    """An explanation as a line."""
    document: dict[str, Any] | None = explanation.to_dict() if documents else None
    wider = explanation.wider
    return Line(
        row,
        row,
        None,
        type(explanation.verdict).__name__.lower(),
        str(explanation.rule),
        explanation.cardinality,
        float(explanation.weight),
        float(explanation.lower_bound),
        explanation.minimum,
        explanation.coverage,
        None if wider is None else str(wider.rule),
        None if wider is None else wider.coverage,
        explanation.widest,
        explanation.statistics.seconds,
        explanation.statistics.stopped,
        explanation.space,
        explanation.model,
        None if document is None else document[FIELD],
        point,
        *_box(explanation.ranked[0]),
        *_box(wider),
        None if document is None else json.dumps(document, ensure_ascii=False),
    )


def _box(ranked: RankedRule | None) -> tuple[Codes | None, Codes | None]:
    """The box that a proof speaks about; nothing where there is no proof."""
    if ranked is None or not isinstance(ranked.verdict, Proven):
        return None, None
    return ranked.verdict.certificate.low, ranked.verdict.certificate.high
