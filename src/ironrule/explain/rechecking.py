"""Explanations that were stored, put to a new model: which rules still hold, and what breaks the others.

The rule is asked about as it stands, against the explainer's model and space. Where the model can be read, the answer
is a proof or a counterfactual: somebody who satisfies the rule and gets the desired outcome now. Only that the rule
holds is checked anew; that no shorter one does was a claim about the old model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ironrule.counting import counted
from ironrule.errors import InputError
from ironrule.explain.asking import coded
from ironrule.explain.batches.batch import Batch
from ironrule.explain.explanation import Explanation
from ironrule.explain.judging import stated
from ironrule.rule import Box, Counterfactual, Rule
from ironrule.rule.stated import box_of
from ironrule.space import Points, Value
from ironrule.space.plain import to_plain
from ironrule.verdict import Proven, Refuted, Spent, Unrefuted, Verdict, verdict_to_dict

if TYPE_CHECKING:
    from ironrule.explain.prepared import Prepared
    from ironrule.search import Problem

Status = Literal["holds", "breaks", "overturned", "undecided"]
MEANINGS = {
    "holds": "the rule holds for the new model, and that is proven",
    "breaks": "somebody satisfies the rule and gets the desired outcome now",
    "overturned": "the row itself gets the desired outcome now, so there is nothing to explain",
    "undecided": "no exception was found, and none is excluded",
}


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What became of one stored explanation; ``name`` is the row of a batch or whatever it was called."""

    name: Any
    instance: Mapping[str, Value]
    rule: Rule
    status: Status
    verdict: Verdict | None = None

    @property
    def counterfactual(self) -> Counterfactual | None:
        """Who breaks the rule."""
        return self.verdict.counterfactual if isinstance(self.verdict, Refuted) else None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data; a proof is not repeated here."""
        known = self.verdict is None or isinstance(self.verdict, Proven)
        return {
            "name": to_plain(self.name),
            "status": self.status,
            "rule": str(self.rule),
            "instance": {name: to_plain(value) for name, value in self.instance.items()},
            "verdict": None if known or self.verdict is None else verdict_to_dict(self.verdict),
        }

    def __str__(self) -> str:
        broken = f": {self.counterfactual}" if self.counterfactual is not None else ""
        return f"{self.name}: {self.status}{broken}"


@dataclass(frozen=True, slots=True)
class Recheck(Sequence[Rechecked]):
    """What became of stored explanations, in their order."""

    items: tuple[Rechecked, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def __iter__(self) -> Iterator[Rechecked]:
        return iter(self.items)

    @property
    def counts(self) -> Counter[str]:
        """How many there are of every status."""
        return Counter(item.status for item in self.items)

    def of(self, status: Status) -> tuple[Rechecked, ...]:
        """Those with a status."""
        return tuple(item for item in self.items if item.status == status)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"counts": dict(self.counts), "explanations": [item.to_dict() for item in self.items]}

    def __str__(self) -> str:
        counts = self.counts
        told = [f"{counts[status]:,} {status}: {meaning}." for status, meaning in MEANINGS.items() if counts[status]]
        return "\n".join([f"{counted(len(self), 'explanation')} rechecked.", *told, *map(str, self.of("breaks"))])


def named_explanations(given: Any) -> Iterator[tuple[Any, Explanation]]:
    """Explanations with their names: of a batch by row, of a mapping by key, of anything else by place."""
    if isinstance(given, Explanation):
        yield 0, given
    elif isinstance(given, Batch):
        yield from zip(given.rows, given, strict=True)
    elif isinstance(given, Mapping):
        yield from given.items()
    elif isinstance(given, Iterable):
        yield from enumerate(given)
    else:
        raise InputError(
            expected="explanations must be a batch, an explanation, or a list or mapping of explanations",
            got=type(given).__name__,
        )


def recoded(ready: Prepared, name: Any, explanation: Explanation) -> tuple[Points, bool]:
    """The explained row as codes, and whether it has the desired outcome now; raises InputError if it does not fit."""
    try:
        return coded(ready, dict(explanation.instance))
    except InputError as error:
        raise InputError(
            f"the stored explanation {name!r} does not fit the data: {error.statement}",
            hint="use the data, the space and the constraints that it was made with, or a space that has its values",
        ) from None


def recheck_one(name: Any, explanation: Explanation, problem: Problem) -> Rechecked:
    """What the oracle says of a stored rule."""
    from ironrule.search.solve import check_afresh

    known = name, explanation.instance, explanation.rule
    try:
        box = box_of(problem.case.relevant, stated(problem.case.relevant, explanation.rule))
        verdict = _of_history(problem, box) or check_afresh(problem, box, None, 1)
    except Spent:
        return Rechecked(*known, "undecided", Unrefuted(tried=0, samples=0, confidence=0.0))
    if isinstance(verdict, Proven):
        return Rechecked(*known, "holds", verdict)
    return Rechecked(*known, "breaks" if isinstance(verdict, Refuted) else "undecided", verdict)


def _of_history(problem: Problem, box: Box) -> Refuted | None:
    """A past row that breaks the rule: nobody need be asked about it."""
    past = problem.case.history.desired
    rows = np.flatnonzero(past.inside(box.low, box.high, problem.case.space.sizes))[:1]
    return problem.case.refuted(past.points(rows)) if len(rows) else None
