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
from ironrule.explain.recourse import recourse_box, recourse_constraints
from ironrule.model import BlackBox, History, Model, Readable, Unreadable, black_box, history_of, readable
from ironrule.rule import Box, Counterfactual, Deferred, Relevant, relevant_to
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
    unread: str | None  # why the model can only be asked; None if it could be read
    oracle: Oracle | None  # the exact oracle, if there is one
    word: Model  # who decides single points: the model, or its tree if the model has confirmed every leaf


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
            unread, oracle, word = None, *_exact(readable(model, asked, whole, past, desired, threshold), asked, whole)
        except Unreadable as reason:
            unread, oracle, word = str(reason), None, asked
        self._prepared = _Prepared(whole, asked, history, table, recourse, unread, oracle, word)

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self._prepared.space

    @property
    def unread(self) -> str | None:
        """Why the model can only be asked; None where it could be read, so that rules can be proven."""
        return self._prepared.unread

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
        from ironrule.search.solve import solve

        if algorithm == "auto":
            algorithm = "greedy_cf" if self._prepared.oracle is None else "minimum"
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
        points, ready = problem.oracle.points, self._prepared
        read = ready.oracle is not None and ready.word is ready.model  # else every leaf was confirmed beforehand
        if read and points is not None and not ready.model.desired(points).all():
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
        from ironrule.oracles.protocol import Case

        ready = self._prepared
        instance, desired = self._coded(row)
        if desired:
            raise OutcomeError(
                "the row must have the undesired outcome, but the model already gives it the desired one"
            )
        allowed = ready.space.feasible
        if recourse:
            predicates = [*allowed.predicates, *(bind(constraint, self.space.features) for constraint in recourse)]
            allowed = feasible(self.space.features, predicates, instance)
        return Case(ready.space, ready.model, ready.history, relevant_to(ready.space, instance), allowed)

    def _coded(self, row: Any) -> tuple[Points, bool]:
        """A row as codes, and whether its outcome is the desired one; of a past row both are known."""
        ready = self._prepared
        past = isinstance(row, (int, np.integer)) and len(ready.history) == len(ready.table)
        if past and not isinstance(row, bool) and -len(ready.table) <= row < len(ready.table):
            return ready.history.codes.row(row), bool(ready.history.outcomes[row])
        given = as_mapping(row, ready.table, ready.model.layout.names)
        instance = self.space.encode_row(given, ignore=ready.table.names)
        for predicate in ready.space.feasible.predicates:
            if not predicate(instance[None, :], None)[0]:
                raise ConstraintError(f"the row must satisfy {str(predicate.constraint)!r}, but it does not")
        return instance, bool(ready.word.desired(instance[None, :])[0])

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
        from ironrule.oracles.layered import Layered
        from ironrule.oracles.memory import Remembering
        from ironrule.rule.duals import DistinctDuals, PastDuals, distinct_duals
        from ironrule.search.problem import Problem

        relevant = case.relevant
        allowed = relevant.usable & ~relevant.select(as_list(forbid))
        required = tuple(relevant.select([name]) & allowed for name in as_list(require))
        for name, some in zip(as_list(require), required, strict=True):
            if not some:
                raise InputError(
                    f"{name!r} must be usable in a rule for this row, but it excludes nothing or is forbidden"
                )

        def count() -> DistinctDuals:
            with meter.timed("history"):
                return distinct_duals(case.history.desired.columns, relevant.low, relevant.high)

        each = chosen_weights(weights, relevant)
        rng = np.random.default_rng(chosen_seed(seed))
        oracle = Remembering(self._prepared.oracle or Layered())
        return Problem(case, oracle, PastDuals(count), allowed, required, each, positive(k), meter, rng)

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
        points, k, recourse = problem.oracle.points, problem.k, self._prepared.recourse
        return Explanation(
            self.space.decode_row(case.instance),
            ranked,
            Deferred(lambda: _nearby(points, relevant, recourse, k)),
            statistics,
            len(history),
            self.space.fingerprint,
            problem.weight(findings.rules[0]),
            findings.lower_bound,
            restricted,
            self.unread,
        )


def _exact(read: Readable, model: BlackBox, space: Space) -> tuple[Oracle, Model]:
    """The exact oracle, and who decides single points."""
    from ironrule.oracles import Leaves, exact_oracle

    oracle = exact_oracle(read, model, space)
    return oracle, oracle if isinstance(oracle, Leaves) else model


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


def _nearby(
    points: Points | None, relevant: Relevant, recourse: Sequence[Constraint], k: int
) -> tuple[Counterfactual, ...]:
    """The nearest counterfactuals that also satisfy the constraints on what may change."""
    if points is None:
        return ()
    for constraint in recourse:
        points = points[bind(constraint, relevant.space.features)(points, relevant.instance)]
    chosen = _nearest(points, relevant, k)
    return tuple(Counterfactual.between(relevant.space, relevant.instance, point) for point in chosen)


def _nearest(points: Points, relevant: Relevant, k: int) -> Points:
    """The counterfactuals that change fewest features: one of each dual, and none whose dual contains another's."""
    from ironrule.rule.bits import popcount, unpack
    from ironrule.rule.duals import duals_of

    duals = duals_of(points, relevant.low, relevant.high)
    order = np.lexsort((popcount(duals), (points != relevant.instance).sum(axis=1)))
    chosen: dict[int, int] = {}
    for place, dual in zip(order.tolist(), unpack(duals[order]), strict=True):  # a dual comes after those it contains
        if len(chosen) < k and not any(other & dual == other for other in chosen):
            chosen[dual] = place
    return points[list(chosen.values())]


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
