"""The public face: an explainer for one model, made once, asked about many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ironrule.counting import counted
from ironrule.errors import InputError
from ironrule.explain.arguments import (
    DEFAULT_ALGORITHM,
    Weights,
    as_list,
    chosen_algorithm,
    chosen_budget,
    chosen_seed,
    kept_weights,
    positive,
)
from ironrule.explain.asking import case_of, coded
from ironrule.explain.assembled import Assembly, statistics_of
from ironrule.explain.confirming import Unconfirmed
from ironrule.explain.explanation import Counterfactuals, Explanation, Permitted, RankedRule
from ironrule.explain.judgement import Judgement
from ironrule.explain.judging import Statement, judged, one_or_several, stated
from ironrule.explain.listing import ChangeSet, Listing, list_changes, list_rules
from ironrule.explain.posing import posed
from ironrule.explain.prepared import Given
from ironrule.explain.question import KnownPoint, Question
from ironrule.explain.recourse import (
    asked_for,
    chosen_reading,
    found_counterfactuals,
    proven_between,
    recourse_box,
    recourse_constraints,
)
from ironrule.explain.wider import widened
from ironrule.model import Wanted
from ironrule.progress import track
from ironrule.space import (
    Codes,
    Constraint,
    Space,
    Value,
    as_constraint,
)
from ironrule.verdict import Budget, Meter

if TYPE_CHECKING:
    from ironrule.explain.batches import Batch
    from ironrule.explain.rechecking import Recheck
    from ironrule.search import Algorithm, Problem


class Explainer:
    """Explains single decisions of a classifier by rules.

    ``model`` is any function or estimator on rows like those of ``data``; ``data`` is the history: a pandas, polars or
    Arrow table, or an array; or, where it is too long for memory, the path of Parquet files or of a CSV file, an Arrow
    dataset, a DuckDB relation or a :class:`SqlQuery`, whose rows are read once and kept as codes on disk, in the folder
    ``cache`` if the next explainer is to find them. ``desired`` names the desired class or classes (or, for a function
    that answers columns, their positions); ``threshold`` turns scores into decisions. ``space`` says what values
    features can take (by default those seen in the data). ``constraints`` are texts: those that speak of ``cf`` alone
    say what can occur at all; those that also speak of ``x`` say what a counterfactual may change. With a ``margin``,
    rules hold even if every score moved by that much; with further ``models``, such as other versions, they hold for
    all of them. With ``intervals``, numbers may take any value between the smallest and the largest of their domain
    (whole ones any whole value): the space then has every threshold of the model in it, and of whole numbers that a sum
    speaks of (linear models) every value, if they are few. Of other numbers in sums it is not claimed that a rule is
    the widest or a counterfactual the nearest, since the decision may turn between any two values. With
    ``device="cuda"``, networks are bounded on a GPU through torch (``pip install 'ironrule[torch]'``); the CPU does all
    else, and all where no device is named.

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
        margin: float = 0.0,
        models: Sequence[Any] = (),
        intervals: bool = False,
        progress: bool | None = None,
        device: str | None = None,
        cache: str | Path | None = None,
    ) -> None:
        wanted = Wanted.of(desired, threshold, margin)
        self._given = Given((model, *models), wanted, space, tuple(as_list(constraints)), columns, intervals, device)
        self._prepared = self._given.prepared(data, progress, cache)

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
        return self._prepared.outcomes

    @property
    def fingerprint(self) -> str:
        """The model's fingerprint, which certificates name; of a model that can only be asked, that of its answers."""
        return self._prepared.fingerprint

    @property
    def codes(self) -> Codes:
        """The past rows as codes, in the order of ``outcomes``."""
        return self._prepared.history.codes

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The row numbers in the data of the past rows, in the same order."""
        rows = self._prepared.rows
        return np.arange(len(self.outcomes), dtype=np.int64) if rows is None else rows

    def desired(self, row: Any) -> bool:
        """Whether the model gives a row, in any of the forms that ``explain`` takes, the desired outcome."""
        return coded(self._prepared, row)[1]

    def __repr__(self) -> str:
        desired = int(self.outcomes.sum())
        return f"<Explainer: {self.space!r}; {counted(len(self.outcomes), 'past row')}, {desired} desired>"

    def appended(self, rows: Any, *, progress: bool | None = None) -> Explainer:
        """An explainer with more past rows: a table or a source like the data. What is known of the old rows stays.

        It is the explainer that all rows together would give. Values that are new extend the domains, unless these
        were declared by a ``space``. The model is asked about the new rows alone.
        """
        from ironrule.explain.grown import grown

        if self._given.intervals:
            raise InputError("rows can only be appended where domains are values, not whole intervals")
        longer = Explainer.__new__(Explainer)
        longer._given = self._given
        past = grown(self._prepared, rows, self._given.space is None, progress)
        longer._prepared = replace(self._given.prepared(past, progress, None), past=past.settled())
        return longer

    def where(self, constraints: str | Constraint | Sequence[str | Constraint]) -> Explainer:
        """An explainer of the part of the space where further constraints hold, such as ``"cf.age >= 60"``.

        Its rules speak of that part alone. It is the explainer that these constraints would give together with its
        own; what is known of the data stays, and the model is not asked about past rows again, unless there are whole
        intervals.
        """
        from ironrule.explain.narrowed import narrowed

        more = tuple(as_constraint(one) for one in as_list(constraints))
        part = Explainer.__new__(Explainer)
        part._given = replace(self._given, constraints=(*self._given.constraints, *more))
        if self._given.intervals:  # the numbers that the constraints name must join the domains
            part._prepared = part._given.prepared(self._prepared.past, False, None, quiet=True)
        else:
            part._prepared = narrowed(self._prepared, self._given.models, more)
        return part

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
        widen: bool = True,
    ) -> Explanation:
        """The shortest rule found for a row with the undesired outcome, with what is known of it.

        ``row`` is a dictionary, a pandas Series, a table of one row, or a row number of the data. ``require`` and
        ``forbid`` name features, or components such as ``"age <="``, that the rule must or must not use; ``weights``
        says what such a feature or component counts (by default 1; ``"paper"`` counts a nominal equality as 2; 0.1
        means one tenth exactly). With ``widen``, the bounds of a rule that was proven by reading the model are moved as
        far as they can go (``wider`` in the explanation). Same seed and same budget in evaluations: same answer.
        """
        from ironrule.search.solve import solve

        if algorithm == "auto":
            algorithm = "greedy_cf" if self._prepared.oracle is None else "minimum"
        chosen = chosen_algorithm(algorithm)
        meter = Meter(chosen_budget(budget))
        problem = posed(self._prepared, case_of(self._prepared, row), meter, k, seed, require, forbid, weights)
        findings = solve(problem, chosen)
        if problem.oracle.points is None and findings.stopped is None:  # an algorithm that never asks for any
            asked_for(problem.oracle, problem.case, problem.case.relevant.box(0), problem.k, meter, problem.rng)
        wider = widened(self._prepared, problem, findings) if widen else None
        if isinstance(row, KnownPoint) and row.unconfirmed is not None:
            row.unconfirmed.add(self._prepared, problem.oracle.points)
        else:
            self._confirm(problem)
        statistics = statistics_of(meter, type(chosen).__name__, seed, findings.stopped)
        permitted = Permitted(tuple(as_list(require)), tuple(as_list(forbid)), kept_weights(weights))
        return Assembly(self._prepared, problem, findings, wider).explanation(statistics, permitted, self.unread)

    def explain_many(
        self,
        rows: Any = None,
        algorithm: str | Algorithm = DEFAULT_ALGORITHM,
        *,
        output: str | Path | None = None,
        workers: int | None = None,
        engine: Literal["local", "ray"] = "local",
        address: str | None = None,
        documents: bool = True,
        reuse: bool = False,
        progress: bool | None = None,
        k: int = 5,
        budget: Budget | float | None = None,
        seed: int = 0,
        require: Sequence[str] = (),
        forbid: Sequence[str] = (),
        weights: Weights = None,
        widen: bool = True,
    ) -> Batch:
        """An explanation of every undesired row: of a table, of the past rows with given numbers, or of all past rows.

        Each is what ``explain`` gives for that row alone (times aside), on all processors or as many ``workers``. With
        ``reuse``, a row that a proven rule of an earlier row covers is not searched for and gets that rule instead: it
        is proven, but a shorter one may hold. With ``output``, a folder, finished rows are written there as Parquet;
        whatever ends the work, the same call goes on where it ended. ``engine="ray"`` works on the Ray cluster at an
        ``address``, or on one started here (``pip install 'ironrule[ray]'``). Without ``documents`` the explanations
        themselves, proofs included, are not kept, only what ``to_frame`` shows.
        """
        from ironrule.explain.batches.making import Output, chosen_crew, make_batch

        crew = chosen_crew(engine, workers, address)
        question = Question(algorithm, k, budget, seed, require, forbid, weights, widen)
        return make_batch(self, self._prepared, rows, question, Output(output, documents, reuse), crew, progress)

    def _confirm(self, problem: Problem) -> None:
        """The model's own word on every counterfactual that was found."""
        unconfirmed = Unconfirmed()
        unconfirmed.add(self._prepared, problem.oracle.points)
        unconfirmed.confirm()

    def counterfactuals(
        self,
        row: Any,
        k: int = 5,
        *,
        algorithm: Literal["auto", "exact", "geco"] = "auto",
        features_to_vary: Sequence[str] | str = "all",
        permitted_range: Mapping[str, Sequence[Value]] | None = None,
        constraints: Sequence[str | Constraint] = (),
        budget: Budget | float | None = None,
        seed: int = 0,
    ) -> Counterfactuals:
        """Up to k counterfactuals, nearest first: fewest changes, then least distance.

        Where the model can be read they are exact: each is proven to be the nearest that does not change all features
        of an earlier one, and if fewer than k come there is no other; ``proven`` says whether that is so. Else GeCo
        finds diverse ones without useless changes. ``features_to_vary`` names the features that may change;
        ``permitted_range`` gives lowest and highest values, or the list of categories; ``constraints`` come on top of
        the explainer's own.
        """
        extra = (*self._prepared.recourse, *map(as_constraint, as_list(constraints)))
        ranges = recourse_constraints(self.space, permitted_range or {})
        case = case_of(self._prepared, row, (*extra, *ranges), of_itself=True)
        box = recourse_box(case.relevant, features_to_vary)
        read = chosen_reading(algorithm, self._prepared.exact)
        meter, insisted = Meter(chosen_budget(budget)), algorithm == "exact"
        given = (positive(k), meter, chosen_seed(seed), insisted, self._prepared.engine, self._prepared.leaves)
        return proven_between(found_counterfactuals(read, case, box, *given), self._prepared.gaps, case, box)

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
        problem = posed(self._prepared, case_of(self._prepared, row), meter, 5, seed, require, forbid, weights)
        return list_rules(problem, self._prepared.model.own.decision.undesired, minimum_only, limit, self._confirm)

    @overload
    def judge(
        self,
        row: Any,
        rule: Statement,
        *,
        budget: Budget | float | None = None,
        seed: int = 0,
        weights: Weights = None,
    ) -> Judgement: ...

    @overload
    def judge(
        self,
        row: Any,
        rule: Sequence[Statement],
        *,
        budget: Budget | float | None = None,
        seed: int = 0,
        weights: Weights = None,
    ) -> list[Judgement]: ...

    def judge(
        self,
        row: Any,
        rule: Statement | Sequence[Statement],
        *,
        budget: Budget | float | None = None,
        seed: int = 0,
        weights: Weights = None,
    ) -> Judgement | list[Judgement]:
        """How good a rule for a row is, whoever found it, by proof; of several rules a list, which shares the work.

        ``rule`` is a Rule, an explanation, or a list of conditions such as ``["age <= 30", "job = cook"]``; its bounds
        need not be the row's own values, but the row must satisfy it. ``weights`` are those of ``explain``. What cannot
        be proven within the budget, which several rules share, is not judged.
        """
        meter = Meter(chosen_budget(budget))
        problem = posed(self._prepared, case_of(self._prepared, row), meter, 1, seed, (), (), weights)
        given, alone = one_or_several(rule)
        rules = [stated(problem.case.relevant, one) for one in given]
        found = judged(self._prepared, problem, rules, self.unread, self._confirm)
        return found[0] if alone else found

    def recheck(
        self, explanations: Any, *, budget: Budget | float | None = None, seed: int = 0, progress: bool | None = None
    ) -> Recheck:
        """Which stored explanations hold for this explainer's model, such as a new version, and what breaks the others.

        ``explanations`` is a batch, or a list or a mapping of explanations; the budget is that of each.
        """
        from ironrule.explain.rechecking import Recheck, Rechecked, named_explanations, recheck_one, recoded

        items: list[Rechecked] = []
        total = len(explanations) if hasattr(explanations, "__len__") else 1
        for name, explanation in track(named_explanations(explanations), "Rechecking", total, progress):
            instance, desired = recoded(self._prepared, name, explanation)
            if desired:
                items.append(Rechecked(name, explanation.instance, explanation.rule, "overturned"))
                continue
            meter = Meter(chosen_budget(budget))
            problem = posed(self._prepared, case_of(self._prepared, KnownPoint(instance)), meter, 1, seed, (), (), None)
            items.append(recheck_one(name, explanation, problem))
            self._confirm(problem)
        return Recheck(tuple(items))

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
        exact, meter = self._prepared.exact, Meter(chosen_budget(budget))
        case = case_of(self._prepared, row, self._prepared.recourse, of_itself=True)
        problem = posed(self._prepared, case, meter, 5, seed, (), (), None)
        read = None if isinstance(exact, str) else exact.own
        engine = self._prepared.engine
        gaps, predicates = self._prepared.gaps, case.feasible.predicates
        trusted = gaps is None or gaps.respected_by(predicates, case.instance)
        return list_changes(problem, read, features_to_vary, limit, self._confirm, engine, trusted)
