"""Everything that a request for counterfactuals may ask for, as one document for the audit log.

The document is that of the counterfactuals (:meth:`ironrule.results.counterfactuals.Counterfactuals.to_dict`), which
still reads it, with more fields under the same digest: ``asked`` (what could change), ``measures`` (cost and distances
of each), ``region`` (ranges around the first), ``menu`` (all minimal sets of features), ``infeasibility`` (which
restrictions forbid every counterfactual, where there is provably none), and ``unfinished``, the names of those of them
that were wanted and for which no time was left. All searches of a request share its seconds, and each may use the
evaluations that the first one left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from ironrule.explain.counterfactuals.options import ChangeOptions
from ironrule.explain.explainer import Explainer
from ironrule.explain.options import SearchOptions
from ironrule.model.target import Target
from ironrule.results.counterfactuals import Counterfactuals
from ironrule.rule.cost import Cost
from ironrule.server.served_model import RowInput
from ironrule.space.feature import value_from_json, value_to_json
from ironrule.verdict.budget import Budget, BudgetExhausted
from ironrule.verdict.digest import add_digest


@dataclass(frozen=True, slots=True)
class CounterfactualsRequest:
    """A row, the features that may change, how many counterfactuals are wanted, and what beside them."""

    row: RowInput
    options: SearchOptions = field(default_factory=SearchOptions)  # k, seed and budget count
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    region: bool = False
    menu: bool = False

    @classmethod
    def from_document(cls, row: RowInput, document: Mapping[str, Any]) -> CounterfactualsRequest:
        """The request that a recorded document answers."""
        asked = document["asked"]
        ranges = {name: [value_from_json(one) for one in values] for name, values in asked["permitted_range"].items()}
        return cls(
            row,
            SearchOptions(k=asked["k"], seed=document["seed"]),
            ChangeOptions(
                algorithm=asked["algorithm"],
                features_to_vary=asked["features_to_vary"],
                permitted_range=ranges,
                constraints=asked["constraints"],
                cost=Cost.from_dict(document.get("cost", {})),
                target=Target.from_dict(document["target"]) if "target" in document else None,
                margin=document.get("margin", 0.0),
            ),
            region="region" in document or "region" in document["unfinished"],
            menu="menu" in document or "menu" in document["unfinished"],
        )

    def describe(self) -> dict[str, Any]:
        """What could change, as plain data."""
        names, ranges = self.changes.names, self.changes.permitted_range or {}
        return {
            "algorithm": self.changes.algorithm,
            "k": self.options.k,
            "features_to_vary": "all" if names is None else list(names),
            "permitted_range": {name: [value_to_json(one) for one in values] for name, values in ranges.items()},
            "constraints": [str(one) for one in self.changes.constraints],
        }


class PlainResult(Protocol):
    """A result that can be written as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""


@dataclass(frozen=True, slots=True)
class RecordedCounterfactuals:
    """Counterfactuals, and the whole document of them."""

    found: Counterfactuals
    document: Mapping[str, Any]


def find_recorded_counterfactuals(
    explainer: Explainer, request: CounterfactualsRequest, budget: Budget
) -> RecordedCounterfactuals:
    """Counterfactuals and what else a request asks for, within one budget."""
    started, options, changes = time.monotonic(), request.options, request.changes
    found = explainer.counterfactuals(
        request.row, options.k, budget=budget, seed=options.seed, progress=False, **changes.to_kwargs()
    )
    asked = ("features_to_vary", "permitted_range", "constraints", "cost", "target", "margin", "models")
    reached = {name: getattr(changes, name) for name in asked}
    goal = {name: reached[name] for name in ("target", "margin", "models")}
    searches: dict[str, Callable[[Budget], PlainResult]] = {}
    if request.region and found.items:
        searches["region"] = lambda left: explainer.counterfactual_region(
            found.items[0], budget=left, seed=options.seed, progress=False, **goal
        )
    if request.menu:
        searches["menu"] = lambda left: explainer.change_menu(
            request.row, budget=left, seed=options.seed, progress=False, **reached
        )
    if found.proven and not found.items:
        searches["infeasibility"] = lambda left: explainer.find_forbidding_restrictions(
            request.row, budget=left, seed=options.seed, progress=False, **reached
        )
    more: dict[str, Any] = {"asked": request.describe(), "measures": [asdict(one) for one in found.measure()]}
    unfinished = []
    for name, search in searches.items():
        result = _search_within(search, _find_rest(budget, found, started))
        if result is None:
            unfinished.append(name)
        else:
            more[name] = result.to_dict()
    return RecordedCounterfactuals(found, add_digest(found.to_dict() | more | {"unfinished": unfinished}))


def _find_rest(budget: Budget, found: Counterfactuals, started: float) -> Budget | None:
    """What is left of a budget after a search; None if that is nothing."""
    seconds, evaluations = budget.seconds, budget.evaluations
    if seconds is not None:
        seconds -= time.monotonic() - started
    if evaluations is not None:
        evaluations -= found.statistics.evaluations
    if (seconds is not None and seconds <= 0) or (evaluations is not None and evaluations <= 0):
        return None
    return replace(budget, seconds=seconds, evaluations=evaluations)


def _search_within(search: Callable[[Budget], PlainResult], rest: Budget | None) -> PlainResult | None:
    """A result; None if there is no time for it, or the job was cancelled before there was any."""
    if rest is None:
        return None
    try:
        return search(rest)
    except (BudgetExhausted, KeyboardInterrupt):
        return None
