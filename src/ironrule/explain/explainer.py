"""The public face: an explainer for one model, made once, asked about many rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import ConstraintError, InputError, ModelError, OutcomeError, TableError
from ironrule.explain.arguments import (
    DEFAULT_ALGORITHM,
    Weights,
    as_list,
    as_mapping,
    chosen_algorithm,
    chosen_budget,
    chosen_seed,
    chosen_weights,
    positive,
)
from ironrule.explain.explanation import Counterfactuals, Explanation, RankedRule, Statistics
from ironrule.explain.listing import ChangeSet, Listing, list_changes, list_rules
from ironrule.explain.recourse import recourse_box, recourse_constraints
from ironrule.model import BlackBox, History, Readable, Unreadable, black_box, history_of, readable
from ironrule.rule import Box, Counterfactual, Relevant, relevant_to
from ironrule.space import (
    Codes,
    Constraint,
    Points,
    Space,
    Table,
    Value,
    as_constraint,
    bind,
    feasible,
    read_table,
)
from ironrule.verdict import Budget, Meter, Refuted, Spent, Verdict

if TYPE_CHECKING:
    from ironrule.oracles import Case, Oracle
    from ironrule.search import Algorithm, Findings, Problem


PAST_CHECKED = 4096


@dataclass(frozen=True, eq=False, repr=False)
class _Prepared:
    space: Space
    model: BlackBox
    history: History
    table: Table
    recourse: tuple[Constraint, ...]
    exact: Readable | str  # what the exact oracle works on, or why there is none


class Explainer:
    """Explains single decisions of a classifier by rules.

    ``model`` is any function or estimator on rows like those of ``data``; ``data`` is the history: a pandas, polars or
    Arrow table, or an array. ``desired`` names the desired class or classes (or, for a function that answers columns,
    their positions); ``threshold`` turns scores into decisions. ``space`` says what values features can take (by
    default those seen in the data). ``constraints`` are texts: those that speak of ``cf`` alone say what can occur at
    all; those that also speak of ``x`` say what a counterfactual may change.

    An explainer is never changed by explaining, and may be used from several threads at once.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        desired: Any = None,
        threshold: float | None = None,
        space: Space | None = None,
        constraints: Sequence[str | Constraint] = (),
        columns: Sequence[str] | None = None,
        progress: bool | None = None,
    ) -> None:
        if space is not None and not isinstance(space, Space):
            raise InputError(f"space must be a Space, such as Space.from_file gives, but {type(space).__name__} came")
        table = read_table(data, space.columns if space is not None and isinstance(data, np.ndarray) else None)
        texts = tuple(as_constraint(constraint) for constraint in as_list(constraints))
        on_space = tuple(constraint for constraint in texts if not constraint.mentions_instance)
        inferred = space
        if inferred is None:
            chosen = columns if columns is not None else _columns_of(model, table)
            inferred = Space.infer(table, columns=chosen, progress=progress)
        whole = replace(inferred, constraints=(*inferred.constraints, *on_space))
        recourse = tuple(constraint for constraint in texts if constraint.mentions_instance)
        for constraint in recourse:
            bind(constraint, whole.features)
        asked = black_box(model, table, whole, desired, threshold)
        codes = whole.encode(table, progress=progress)
        kept = _occurring(whole, codes)
        outcomes = asked.outcomes(kept, progress)
        history = history_of(whole, kept, outcomes)
        past = kept.points(slice(0, PAST_CHECKED))
        try:
            exact: Readable | str = readable(model, asked, whole, past, desired, threshold)
        except Unreadable as reason:
            exact = str(reason)
        self._prepared = _Prepared(whole, asked, history, table, recourse, exact)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self._prepared.space

    @property
    def unread(self) -> str | None:
        """Why the model can only be asked; None where it could be read, so that rules can be proven."""
        return self._prepared.exact if isinstance(self._prepared.exact, str) else None

    @property
    def outcomes(self) -> npt.NDArray[np.bool_]:
        """Which past rows have the desired outcome; rows that break a constraint on the space are left out."""
        return self._prepared.history.outcomes

    def __repr__(self) -> str:
        desired = int(self.outcomes.sum())
        return f"<Explainer: {self.space!r}; {len(self.outcomes)} past rows, {desired} desired>"

    def explain(
        self,
        row: Any,
        algorithm: str | Algorithm = DEFAULT_ALGORITHM,
        *,
        k: int = 5,
        budget: Budget | float | None = None,
        seed: int = 0,
        require: Sequence[str] = (),
        forbid: Sequence[str] = (),
        weights: Weights = None,
    ) -> Explanation:
        """The shortest rule found for a row with the undesired outcome, with what is known of it.

        ``row`` is a dictionary, a pandas Series, a table of one row, or a row number of the data. ``require`` and
        ``forbid`` name features, or components such as ``"age <="``, that the rule must or must not use; ``weights``
        says what such a feature or component counts (by default 1; ``"paper"`` counts a nominal equality as 2). Same
        seed and same budget in evaluations: same answer.
        """
        from ironrule.search import solve

        exact = self._prepared.exact
        if algorithm == "auto":
            algorithm = "greedy_cf" if isinstance(exact, str) else "minimum"
        chosen = chosen_algorithm(algorithm)
        meter = Meter(chosen_budget(budget))
        problem = self._problem(self._case(row), meter, k, seed, require, forbid, weights)
        findings = solve(problem, chosen)
        if problem.oracle.points is None and findings.stopped is None:  # an algorithm that never asks for any
            _find(problem.oracle, problem.case, problem.case.relevant.box(0), problem.k, meter, seed)
        statistics = _statistics(meter, type(chosen).__name__, seed, findings.stopped)
        self._confirm(problem)
        restricted = bool(as_list(require) or as_list(forbid) or weights)
        return self._explanation(problem, findings, statistics, restricted)

    def _confirm(self, problem: Problem) -> None:
        """The model's own word on every counterfactual that was found: the exact oracle reads, and must read right."""
        points = problem.oracle.points
        read = not isinstance(self._prepared.exact, str)
        if read and points is not None and not self._prepared.model.desired(points).all():
            raise ModelError("the model decides otherwise than its reading; please report this model")

    def counterfactuals(
        self,
        row: Any,
        k: int = 5,
        *,
        features_to_vary: Sequence[str] | str = "all",
        permitted_range: Mapping[str, Sequence[Value]] | None = None,
        constraints: Sequence[str | Constraint] = (),
        budget: Budget | float | None = None,
        seed: int = 0,
    ) -> Counterfactuals:
        """Up to k diverse counterfactuals without useless changes, nearest first, found by GeCo.

        ``features_to_vary`` names the features that may change; ``permitted_range`` gives lowest and highest values, or
        the list of categories; ``constraints`` come on top of the explainer's own.
        """
        from ironrule.oracles import GeCo

        extra = (*self._prepared.recourse, *map(as_constraint, as_list(constraints)))
        ranges = recourse_constraints(self.space, permitted_range or {})
        case = self._case(row, (*extra, *ranges))
        box = recourse_box(case.relevant, features_to_vary)
        meter = Meter(chosen_budget(budget))
        found, stopped = _find(GeCo(fill=True), case, box, positive(k), meter, seed)
        points = found.points if isinstance(found, Refuted) else np.empty((0, len(self.space)), dtype=np.int32)
        items = tuple(Counterfactual.between(self.space, case.instance, point) for point in points)
        return Counterfactuals(self.space.decode_row(case.instance), items, _statistics(meter, "GeCo", seed, stopped))

    def _case(self, row: Any, recourse: Sequence[Constraint] = ()) -> Case:
        from ironrule.oracles import Case

        ready = self._prepared
        given = as_mapping(row, ready.table, ready.model.layout.names)
        instance = self.space.encode_row(given, ignore=ready.table.names)
        for predicate in ready.space.feasible.predicates:
            if not predicate(instance[None, :], None)[0]:
                raise ConstraintError(f"the row must satisfy {str(predicate.constraint)!r}, but it does not")
        if ready.model.desired(instance[None, :])[0]:
            raise OutcomeError(
                "the row must have the undesired outcome, but the model already gives it the desired one"
            )
        allowed = ready.space.feasible
        if recourse:
            predicates = [*allowed.predicates, *(bind(constraint, self.space.features) for constraint in recourse)]
            allowed = feasible(self.space.features, predicates, instance)
        return Case(ready.space, ready.model, ready.history, relevant_to(ready.space, instance), allowed)

    def _problem(
        self,
        case: Case,
        meter: Meter,
        k: int,
        seed: int,
        require: Sequence[str],
        forbid: Sequence[str],
        weights: Weights,
    ) -> Problem:
        from ironrule.oracles import Ensemble, Layered, Remembering
        from ironrule.rule.duals import distinct_duals
        from ironrule.search import Problem

        relevant = case.relevant
        allowed = relevant.usable & ~relevant.select(as_list(forbid))
        required = tuple(relevant.select([name]) & allowed for name in as_list(require))
        for name, some in zip(as_list(require), required, strict=True):
            if not some:
                raise InputError(
                    f"{name!r} must be usable in a rule for this row, but it excludes nothing or is forbidden"
                )
        with meter.timed("history"):
            duals = distinct_duals(case.history.desired.columns, relevant.low, relevant.high)
        each = chosen_weights(weights, relevant)
        rng = np.random.default_rng(chosen_seed(seed))
        exact = self._prepared.exact
        oracle: Oracle = Layered() if isinstance(exact, str) else Ensemble(exact.forests)
        return Problem(case, Remembering(oracle), duals, allowed, required, each, positive(k), meter, rng)

    def _permitted(self, points: Points | None, instance: Points) -> Points | None:
        """The counterfactuals found that also satisfy the constraints on what may change."""
        if points is None:
            return None
        permitted = np.ones(len(points), dtype=np.bool_)
        for constraint in self._prepared.recourse:
            permitted &= bind(constraint, self.space.features)(points, instance)
        return points[permitted]

    def _explanation(
        self, problem: Problem, findings: Findings, statistics: Statistics, restricted: bool
    ) -> Explanation:
        case = problem.case
        relevant, history = case.relevant, case.history
        outcome = self._prepared.model.decision.undesired
        ranked = tuple(
            RankedRule(relevant.rule(rule, outcome), verdict, history.coverage(relevant.box(rule), self.space.sizes))
            for rule, verdict in zip(findings.rules, findings.verdicts, strict=True)
        )
        nearest = _nearest(self._permitted(problem.oracle.points, case.instance), relevant, problem.k)
        others = tuple(Counterfactual.between(self.space, case.instance, point) for point in nearest)
        instance = self.space.decode_row(case.instance)
        return Explanation(
            instance,
            ranked,
            others,
            statistics,
            len(history),
            self.space.fingerprint,
            problem.weight(findings.rules[0]),
            findings.lower_bound,
            restricted,
            self.unread,
        )

    def rules(
        self,
        row: Any,
        *,
        minimum_only: bool = False,
        limit: int | None = None,
        budget: Budget | float | None = None,
        seed: int = 0,
        require: Sequence[str] = (),
        forbid: Sequence[str] = (),
        weights: Weights = None,
    ) -> Listing[RankedRule]:
        """All rules for a row that have nothing redundant, shortest first, or the minimum ones alone; found as you ask.

        Rules of one cardinality come together, those with most coverage first. However the iteration ends, every rule
        that is shorter than the last one has come; ``complete`` of what is returned says whether all have, ``stopped``
        what ended it early. Of the last cardinality some may then be missing, and its order is that of those found.
        """
        meter = Meter(chosen_budget(budget))
        problem = self._problem(self._case(row), meter, 5, seed, require, forbid, weights)
        outcome = self._prepared.model.decision.undesired
        return list_rules(problem, outcome, minimum_only, limit, lambda: self._confirm(problem))

    def changes(
        self,
        row: Any,
        *,
        features_to_vary: Sequence[str] | str = "all",
        limit: int | None = None,
        budget: Budget | float | None = None,
        seed: int = 0,
    ) -> Listing[ChangeSet]:
        """All minimal sets of features whose change can give the desired outcome, smallest first, each with one change
        that does; found as you ask. ``complete`` and ``stopped`` of what is returned say whether these are all.
        """
        recourse = self._prepared.recourse
        problem = self._problem(self._case(row, recourse), Meter(chosen_budget(budget)), 5, seed, (), (), None)
        return list_changes(problem, features_to_vary, limit, bool(recourse), lambda: self._confirm(problem))


def _columns_of(model: Any, table: Table) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so; other columns, such as the target, are left alone."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    absent = [str(name) for name in names if name not in table.names]
    if absent:
        raise TableError(f"the data must have the model's column {absent[0]!r}, but it has {', '.join(table.names)}")
    return tuple(str(name) for name in names)


def _occurring(space: Space, codes: Codes) -> Codes:
    """The past rows that satisfy the constraints on the space."""
    if not space.feasible.predicates:
        return codes
    starts = range(0, len(codes), 1 << 16)
    kept = np.concatenate([space.feasible.admits(codes.points(slice(start, start + (1 << 16)))) for start in starts])
    if not kept.any():
        raise ConstraintError("some past row must satisfy the constraints on the space, but none does")
    if not kept.all():
        broken = int((~kept).sum())
        warnings.warn(
            f"{broken} of {len(kept)} past rows break the constraints on the space and are left out", stacklevel=3
        )
    return codes.take(kept)


def _find(oracle: Oracle, case: Case, box: Box, k: int, meter: Meter, seed: int) -> tuple[Verdict | None, str | None]:
    """The oracle's answer, or None, and what stopped it."""
    try:
        verdict = oracle.find(case, box, k, meter, np.random.default_rng(chosen_seed(seed)))
    except Spent:
        return None, "budget"
    except KeyboardInterrupt:
        return None, "interrupted"
    return verdict, verdict.stopped if isinstance(verdict, Refuted) else None


def _nearest(points: Points | None, relevant: Relevant, k: int) -> Points:
    """The counterfactuals that change fewest features: one of each dual, and none whose dual contains another's."""
    from ironrule.rule.duals import duals_of, minimal

    if points is None or len(points) == 0:
        return np.empty((0, len(relevant.instance)), dtype=np.int32)
    ordered: Points = points[np.argsort(np.count_nonzero(points != relevant.instance, axis=1), kind="stable")]
    duals = duals_of(ordered, relevant.low, relevant.high)
    strong = {row.tobytes() for row in minimal(duals)}
    _, first = np.unique(duals, axis=0, return_index=True)
    return ordered[[place for place in np.sort(first).tolist() if duals[place].tobytes() in strong][:k]]


def _statistics(meter: Meter, algorithm: str, seed: int, stopped: str | None) -> Statistics:
    return Statistics(
        algorithm=algorithm,
        seed=seed,
        seconds=meter.elapsed,
        generations=meter.events["generations"],
        candidates=meter.events["candidates"],
        oracle_calls=meter.events["oracle calls"],
        model_calls=meter.calls,
        evaluations=meter.evaluations,
        operators=dict(meter.seconds),
        stopped=stopped,
    )
