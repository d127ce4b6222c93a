"""The explainer: made once for a model and its data, then asked about many rows.

Each public method checks its arguments (``options``) and hands them to the module that does the work: ``build``,
``judge``, ``diagnose``, ``enumerate``, ``counterfactuals``, ``recheck``, ``batch``. These modules load compiled code,
so they are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ironrule.arrays import BoolArray, Int64Array
from ironrule.explain.append import AppendedRowTable, append_rows
from ironrule.explain.context import (
    EncodedRow,
    ExplainerArguments,
    ExplainerContext,
    decide_row,
    require_model,
)
from ironrule.explain.counterfactuals.methods import CounterfactualMethods
from ironrule.explain.facts import list_facts, name_outcomes
from ironrule.explain.options import (
    DEFAULTS,
    Preference,
    SearchOptions,
    Weights,
    as_list,
    check_measure_mask,
    parse_measure,
    parse_models,
    parse_oracle,
    require_explanation,
)
from ironrule.explain.prepare.build import build_context
from ironrule.explain.prepare.derive import restrict_context
from ironrule.model.decision import DecisionTarget, read_classes
from ironrule.other_packages import EXPLAINER_HINTS, explain_wrong_arguments, get_other_attribute
from ironrule.results.diagnosis import Diagnosis
from ironrule.results.explanation import Explanation, Listing, RankedRule
from ironrule.results.judgement import Judgement, Recheck
from ironrule.rule.cost import DEFAULT_COST, Cost, parse_cost
from ironrule.space.codes import EncodedTable
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.domain import DomainMode, parse_domain
from ironrule.space.feature import Value
from ironrule.space.labels import Labels
from ironrule.space.roles import Role, RoleGuesses, parse_guesses, parse_roles
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import parse_columns
from ironrule.verdict.budget import Budget
from ironrule.wording import format_count, join_lines

if TYPE_CHECKING:
    from ironrule.explain.judge import RuleLike
    from ironrule.explain.ladder import LadderOptions
    from ironrule.explain.row_score import RowScorer
    from ironrule.oracles.protocol import UserOracle
    from ironrule.results.background import ModelFacts
    from ironrule.results.batch import Batch
    from ironrule.results.ladder import Ladder
    from ironrule.search.problem import Algorithm


class Explainer(CounterfactualMethods):
    """Explains single decisions of a classifier by rules.

    ``model`` is any function or estimator on rows like those of ``data``; ``data`` is the history: a pandas, polars or
    Arrow table, or an array; or, where it is too long for memory, the path of Parquet files or of a CSV file, an Arrow
    dataset, a DuckDB relation or a :class:`SqlQuery`, whose rows are read once and kept as codes on disk, in the folder
    ``cache`` if the next explainer is to find them. ``desired`` names the desired class or classes (or, for a function
    that answers columns, their positions); ``threshold`` turns scores into decisions: above it is desired, or below it
    with ``desired="below"``; a tie is not. ``space`` says what values
    features can take (by default those seen in the data). ``constraints`` are texts: those that speak of ``cf`` alone
    say what can occur at all; those that also speak of ``x`` say what a counterfactual may change. With a ``margin``,
    rules hold even if every score moved by that much; with further ``models``, such as other versions, they hold for
    all of them. ``domain`` says what numbers may be: by default ("auto") a numeric feature takes any value between the
    smallest and the largest of its domain (whole ones any whole value), where the model can be read so far; a feature
    where it cannot takes the values seen, and :attr:`obstacles` says why. "interval" refuses a model with such a
    feature, "seen" speaks of the values seen alone. The space has every threshold of the model in it, and of whole
    numbers that a sum speaks of (linear models) every value, if they are few. Of other numbers in sums it is not
    claimed that a rule is the widest or a counterfactual the nearest, since the decision may turn between any two
    values. With
    ``device="cuda"``, networks are bounded on a GPU through torch (``pip install 'ironrule[torch]'``); the CPU does all
    else, and all where no device is named. ``oracle`` says who looks for counterfactuals where the model cannot be
    read: a name such as ``"geco"``, or any object with the method ``find`` of
    :class:`ironrule.oracles.protocol.UserOracle` (default ``SearchThenProve()``); where the model can be read, an exact
    oracle does, and this one is asked only about change sets under constraints that are too intricate for it.
    ``roles`` says what may be done with a feature: ``{"age": "immutable", "income": Role(direction="rise")}``, on top
    of those of the space. What is declared holds for every change that is searched for. Of other features,
    ``guess_roles`` guesses from their names and from the data what an explanation had better not suggest: True, False,
    or a :class:`RoleGuesses` with lists of names of your own. ``measure`` names the rows that the rules of ladders are
    measured on: a table or source of rows like the data, best ones that the model was not trained on, or one flag per
    row of the data; by default half of the past rows, chosen by a hash. ``labels`` say how everything is shown:
    features, values, units and outcomes; :class:`Labels`, the same as a dict, or the path of a labels file. They change
    nothing that is claimed, and results carry them along.

    An explainer is never changed by explaining, and may be used from several threads at once.
    """

    @explain_wrong_arguments(
        "the outcomes of past rows are not needed, since the model's own decisions are explained; pass all else by "
        "name, such as desired=..."
    )
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
        domain: DomainMode = "auto",
        progress: bool | None = None,
        device: str | None = None,
        cache: str | Path | None = None,
        oracle: str | UserOracle | None = None,
        roles: Mapping[str, Role | str] | None = None,
        guess_roles: bool | RoleGuesses = True,
        measure: Any = None,
        labels: Labels | Mapping[str, Any] | str | Path | None = None,
    ) -> None:
        target = DecisionTarget.from_arguments(desired, threshold, margin, model)
        shown_as = Labels.parse(labels)
        for each in (shown_as, *([space.labels] if isinstance(space, Space) else [])):
            each.check_outcomes(read_classes(model) or None)
        arguments = ExplainerArguments(
            models=(model, *parse_models(models)),
            target=target,
            space=space,
            constraints=tuple(as_list(constraints)),
            columns=None if columns is None else parse_columns(columns),
            domain=parse_domain(domain),
            device=device,
            oracle=parse_oracle(oracle),
            roles=parse_roles({} if roles is None else roles),
            role_guesses=parse_guesses(guess_roles),
            labels=shown_as,
            measure=parse_measure(measure),
        )
        self._context = build_context(arguments, data, progress, cache)
        check_measure_mask(arguments.measure, self._context.row_count)

    @classmethod
    def _from_context(cls, context: ExplainerContext) -> Explainer:
        explainer = cls.__new__(cls)
        explainer._context = context
        return explainer

    def save(self, path: str | Path, *, history: bool = True, overwrite: bool = False) -> Path:
        """Write this explainer to one file, which opens without the model and its library; the file's path.

        ``history=False`` leaves all past rows out. A file of a model that could not be read opens with the model alone.
        """
        from ironrule.explain.saved.save import save_explainer

        return save_explainer(self._context, path, history, overwrite)

    @classmethod
    def load(
        cls, path: str | Path, *, model: Any = None, device: str | None = None, progress: bool | None = None
    ) -> Explainer:
        """The explainer in a file; with ``model``, the user's own one, which must be the one that was saved. A list has
        all models of an explainer of several.

        Opening a file runs no code of it. Without the model, the reading of it decides (see :attr:`confirmed`).
        """
        from ironrule.explain.saved.load import load_explainer

        return cls._from_context(load_explainer(path, model, device, progress))

    @property
    def confirmed(self) -> bool:
        """Whether the user's own model confirms what is found; not where the explainer was loaded without it."""
        return self._context.is_confirmed

    @property
    def space(self) -> Space:
        """The space that rules speak about."""
        return self._context.space

    @property
    def labels(self) -> Labels:
        """How features, values and outcomes are shown."""
        return self._context.space.labels

    @property
    def outcome_names(self) -> tuple[str, str]:
        """What people call the desired and the undesired outcome: by their labels, else by the classes where these have
        names, else "desired" and "undesired".
        """
        return name_outcomes(self._context)

    @property
    def unreadable_reason(self) -> str | None:
        """Why the model can only be asked; None where it could be read, so that rules can be proven."""
        return self._context.unreadable_reason

    @property
    def obstacles(self) -> Mapping[str, str]:
        """By the names of numeric features of which only the values seen are spoken of, why that is so."""
        return self._context.obstacles

    @property
    def breakpoints(self) -> Mapping[str, tuple[Value, ...]]:
        """By the names of intervals, the numbers in their domains that no past row has: where the model turns."""
        return self._context.breakpoints or {}

    @property
    def unused_features(self) -> tuple[str, ...]:
        """The features that the model never uses, so that no shortest rule speaks of them; none if it cannot be read.
        Features with a single value are among them.
        """
        return self._context.unused_features

    @property
    def outcomes(self) -> BoolArray:
        """Which past rows have the desired outcome; rows that break a constraint on the space are left out."""
        return self._context.outcomes

    @property
    def fingerprint(self) -> str:
        """The model's fingerprint, which certificates name; of a model that can only be asked, that of its answers."""
        return self._context.fingerprint

    @property
    def codes(self) -> EncodedTable:
        """The past rows as codes, in the order of ``outcomes``."""
        return self._context.history.codes

    @property
    def row_numbers(self) -> Int64Array:
        """The row numbers in the data of the past rows, in the same order."""
        rows = self._context.row_numbers
        return np.arange(len(self.outcomes), dtype=np.int64) if rows is None else rows

    def is_desired(self, row: Any) -> bool:
        """Whether the model gives a row, in any of the forms that ``explain`` takes, the desired outcome."""
        from ironrule.explain.extend import extend_to_row

        return decide_row(*extend_to_row(self._context, row))[1]

    def describe_model(self, row: Any) -> ModelFacts:
        """What a validator's report says of the model: its type, its library, and the score of a row."""
        from ironrule.explain.extend import extend_to_row
        from ironrule.explain.model_facts import describe_model

        context, given = extend_to_row(self._context, row)
        return describe_model(context, decide_row(context, given)[0])

    def build_row_scorer(self) -> RowScorer | None:
        """What gives the score of a past or another row, the threshold, and the distance to it; None for a model that
        gives labels alone. Asks the model about all past rows once.
        """
        from ironrule.explain.row_score import build_row_scorer

        return build_row_scorer(self._context)

    if not TYPE_CHECKING:  # type checkers are to go on refusing names that do not exist

        def __getattr__(self, name: str) -> Any:
            return get_other_attribute(self, name, EXPLAINER_HINTS)

    def __repr__(self) -> str:
        rows = f"{format_count(len(self.outcomes), 'past row')}, {int(self.outcomes.sum()):,} desired"
        unused = f"; {format_count(len(self.unused_features), 'feature')} unused" if self.unused_features else ""
        proofs = "rules can be proven" if self.unreadable_reason is None else "rules cannot be proven"
        alone = "" if self.confirmed else "; loaded without its model"
        return f"<Explainer: {self.space!r}; {rows}{unused}; {proofs}{alone}>"

    def __str__(self) -> str:
        return join_lines(f"{name}: {text}" for name, text in list_facts(self._context))

    def _repr_html_(self) -> str:
        from ironrule.report.html import render_explainer

        return render_explainer(list_facts(self._context), self.unreadable_reason is None)

    def with_more_rows(self, rows: Any, *, progress: bool | None = None) -> Explainer:
        """An explainer with more past rows: a table or a source like the data. What is known of the old rows stays.

        It is the explainer that all rows together would give. Values that are new extend the domains, unless these
        were declared by a ``space``. The model is asked about the new rows alone.
        """
        require_model(self._context, "adding past rows")
        arguments = self._context.arguments
        past = append_rows(self._context, rows, arguments.space is None, progress)
        encoded = AppendedRowTable(past.table, past.temp_dir)  # the old rows themselves are not needed any more
        return Explainer._from_context(replace(build_context(arguments, past, progress), row_store=encoded))

    def where(self, constraints: str | Constraint | Sequence[str | Constraint]) -> Explainer:
        """An explainer of the part of the space where further constraints hold, such as ``"cf.age >= 60"``.

        Its rules speak of that part alone. It is the explainer that these constraints would give together with its
        own; what is known of the data stays, and the model is not asked about past rows again.
        """
        more = tuple(map(as_constraint, as_list(constraints)))
        return Explainer._from_context(restrict_context(self._context, more))

    @explain_wrong_arguments()
    def explain(
        self,
        row: Any,
        algorithm: str | Algorithm = DEFAULTS.algorithm,
        *,
        k: int = DEFAULTS.k,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        require: Sequence[str] = DEFAULTS.require,
        forbid: Sequence[str] = DEFAULTS.forbid,
        weights: Weights = DEFAULTS.weights,
        widen: bool = DEFAULTS.widen,
        prefer: Preference = DEFAULTS.prefer,
        change_cost: Cost | str = DEFAULTS.change_cost,
        progress: bool | None = None,
    ) -> Explanation:
        """The shortest rule found for a row with the undesired outcome, with what is known of it.

        ``row`` is a dictionary, a pandas Series, a table of one row, or a row number of the data. ``require`` and
        ``forbid`` name features, or components such as ``"age <="``, that the rule must or must not use; ``weights``
        says what such a feature or component counts (by default 1; ``"paper"`` counts a nominal equality as 2; 0.1
        means one tenth exactly). With ``widen``, the bounds of a rule that was proven by reading the model are moved as
        far as they can go (``wider`` in the explanation). Same seed and same budget in evaluations: same answer.

        With ``prefer="coverage"``, of the proven rules that are at most two components longer than the shortest, one
        that covers most past rows is taken; the shortest comes next in ``ranked``. ``change_cost`` says what nearest
        means for suggested changes (``explanation.changes``), as ``cost`` of :meth:`counterfactuals` does.

        ``budget`` is a number of seconds, a :class:`Budget`, or None for no limit; by default a search that takes 30 s
        is ended with the best that it has, and the explanation says so. After a second, what the search is doing is
        shown on standard error, where that is a terminal or a notebook, or as ``progress`` says.
        """
        from ironrule.explain.build import explain_row

        options = SearchOptions(
            algorithm=algorithm,
            k=k,
            budget=budget,
            seed=seed,
            require=require,
            forbid=forbid,
            weights=weights,
            widen=widen,
            prefer=prefer,
            change_cost=change_cost,
        )
        self._check_change_cost(options)
        explanation = explain_row(self._context, row, options, progress)
        return explanation if isinstance(row, EncodedRow) else self._add_first_changes(explanation, options)

    def _check_change_cost(self, options: SearchOptions) -> None:
        """Raise SpaceError, before any work, if the cost of changes names a feature that is not there."""
        from ironrule.explain.counterfactuals.costs.row_cost import check_cost_names

        cost = parse_cost(options.change_cost)
        if cost.names:
            check_cost_names(self.space, cost)

    def _add_first_changes(self, explanation: Explanation, options: SearchOptions) -> Explanation:
        """The explanation with suggested changes; as it is where the user has interrupted the search."""
        if explanation.statistics.stopped_by == "interrupted":
            return explanation
        return self.add_changes(explanation, options.k, budget=options.budget, cost=options.change_cost)

    @explain_wrong_arguments()
    def ladder(
        self,
        row: Any,
        most: int = 6,
        *,
        nested: bool = True,
        at_least: float | None = None,
        confidence: float = 0.95,
        short_enough: int = 0,
        algorithm: str | Algorithm = DEFAULTS.algorithm,
        k: int = DEFAULTS.k,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        require: Sequence[str] = DEFAULTS.require,
        forbid: Sequence[str] = DEFAULTS.forbid,
        weights: Weights = DEFAULTS.weights,
        widen: bool = DEFAULTS.widen,
        prefer: Preference = DEFAULTS.prefer,
        change_cost: Cost | str = DEFAULTS.change_cost,
        progress: bool | None = None,
    ) -> Ladder:
        """The decision of a row explained by 1, 2, ... up to ``most`` components, and by the rule of ``explain``.

        The short rungs have bounds on their share of exceptions, measured on rows that no search looked at (see
        ``measure`` of the explainer); all of them hold together at ``confidence``. The last rung is the rule that
        ``explain`` gives when it looks at the other past rows alone, with the same options: proven where the model can
        be read. ``nested``: every rung has the conditions of the one before it, and all are of components of the last;
        otherwise each has the best rule of its length. With ``at_least``, such as 0.99, ``short`` of the ladder is the
        shortest rung that holds for this share of people. A proven rule of at most ``short_enough`` components gets no
        shorter rungs.
        """
        from ironrule.explain.ladder import LadderOptions, build_ladder

        chosen = LadderOptions(
            most=most, nested=nested, at_least=at_least, confidence=confidence, short_enough=short_enough
        )
        options = SearchOptions(
            algorithm=algorithm,
            k=k,
            budget=budget,
            seed=seed,
            require=require,
            forbid=forbid,
            weights=weights,
            widen=widen,
            prefer=prefer,
            change_cost=change_cost,
        )
        self._check_change_cost(options)
        ladder = build_ladder(self._context, row, options, chosen, progress)
        if isinstance(row, EncodedRow):
            return ladder
        return replace(ladder, explanation=self._add_first_changes(ladder.explanation, options))

    @explain_wrong_arguments()
    def explain_many(
        self,
        rows: Any = None,
        algorithm: str | Algorithm = DEFAULTS.algorithm,
        *,
        output: str | Path | None = None,
        workers: int | None = None,
        engine: Literal["local", "ray"] = "local",
        address: str | None = None,
        documents: bool = True,
        reuse: bool = False,
        changes: bool = False,
        ladders: bool | LadderOptions = False,
        progress: bool | None = None,
        k: int = DEFAULTS.k,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        require: Sequence[str] = DEFAULTS.require,
        forbid: Sequence[str] = DEFAULTS.forbid,
        weights: Weights = DEFAULTS.weights,
        widen: bool = DEFAULTS.widen,
        prefer: Preference = DEFAULTS.prefer,
        change_cost: Cost | str = DEFAULTS.change_cost,
    ) -> Batch:
        """An explanation of every undesired row: of a table, of the past rows with given numbers, or of all past rows.

        Each is what ``explain`` gives for that row alone (times aside), on all processors or as many ``workers``. With
        ``reuse``, a row that a proven rule of an earlier row covers is not searched for and gets that rule instead: it
        is proven, but a shorter one may hold. With ``output``, a folder, finished rows are written there as Parquet;
        whatever ends the work, the same call goes on where it ended. Values of a table that no past row has join the
        domains, for all its rows. ``engine="ray"`` works on the Ray cluster at an
        ``address``, or on one started here (``pip install 'ironrule[ray]'``). Without ``documents`` the explanations
        themselves, proofs included, are not kept, only what ``to_frame`` shows. With ``changes``, the documents hold
        the nearest changes that respect the roles of features too, as letters to persons need them; to find these often
        takes longer than to explain. ``change_cost`` says what nearest means for them, as for :meth:`explain`.

        With ``ladders``, True or a :class:`LadderOptions`, every row gets its :meth:`ladder` too, as notices need it
        (``batch.ladders()``), and the explanation of a row is that of the ladder: the search for it looks at the past
        rows alone that no bound is measured on.
        """
        from ironrule.explain.batch.rows import extend_to_rows
        from ironrule.explain.batch.run import BatchOptions, choose_pool, run_batch
        from ironrule.explain.ladder import parse_ladders

        pool = choose_pool(engine, workers, address)
        options = SearchOptions(
            algorithm=algorithm,
            k=k,
            budget=budget,
            seed=seed,
            require=require,
            forbid=forbid,
            weights=weights,
            widen=widen,
            prefer=prefer,
            change_cost=change_cost,
        )
        kept = BatchOptions(output, documents, reuse, changes, ladder=parse_ladders(ladders))
        kept.check_change_cost(options)
        self._check_change_cost(options)
        context = extend_to_rows(self._context, rows)
        explainer = self if context is self._context else Explainer._from_context(context)
        return run_batch(explainer, context, rows, options, output=kept, pool=pool, progress=progress)

    def rules(
        self,
        row: Any,
        *,
        minimum_only: bool = False,
        limit: int | None = None,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        require: Sequence[str] = DEFAULTS.require,
        forbid: Sequence[str] = DEFAULTS.forbid,
        weights: Weights = DEFAULTS.weights,
        progress: bool | None = None,
    ) -> Listing[RankedRule]:
        """All rules for a row that have nothing redundant, shortest first, or the minimum ones alone; found as you ask.

        Rules of one cardinality come together, those with most coverage first. However the iteration ends, every rule
        that is shorter than the last one has come; ``complete`` of what is returned says whether all have, ``stopped``
        what ended it early. Of the last cardinality some may then be missing, and its order is that of those found.
        """
        from ironrule.explain.enumerate import list_rules

        options = SearchOptions(budget=budget, seed=seed, require=require, forbid=forbid, weights=weights)
        return list_rules(self._context, row, options, minimum_only, limit=limit, progress=progress)

    @overload
    def judge(
        self,
        row: Any,
        rule: RuleLike,
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        weights: Weights = DEFAULTS.weights,
        progress: bool | None = None,
    ) -> Judgement: ...

    @overload
    def judge(
        self,
        row: Any,
        rule: Sequence[RuleLike],
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        weights: Weights = DEFAULTS.weights,
        progress: bool | None = None,
    ) -> list[Judgement]: ...

    def judge(
        self,
        row: Any,
        rule: RuleLike | Sequence[RuleLike],
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        weights: Weights = DEFAULTS.weights,
        progress: bool | None = None,
    ) -> Judgement | list[Judgement]:
        """How good any rule for a row is, by proof; of several rules a list, which shares the work.

        ``rule`` is a Rule, an explanation, or a list of conditions such as ``["age <= 30", "job = cook"]``; its bounds
        need not be the row's own values, but the row must satisfy it. ``weights`` are those of ``explain``. What cannot
        be proven within the budget, which several rules share, is not judged.
        """
        from ironrule.explain.judge import judge_rules

        options = SearchOptions(k=1, budget=budget, seed=seed, weights=weights)
        return judge_rules(self._context, row, rule, options, progress)

    def diagnose(
        self,
        explanation: Explanation,
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
    ) -> Diagnosis:
        """Why a rule is long: which outliers, rare categories and turns of the model cost components.

        ``explanation`` is one of this explainer; raises InputError if it was made with another model or space. Each
        restriction of the space that may shorten its rule (without the values of the few rows at one end of a feature,
        without a rare category, without a place where the model turns back) is searched over; what is reported to save
        components is proven. The budget is that of all these searches together. Where the model cannot be read, only
        the places are named at which it is not monotone.
        """
        from ironrule.explain.diagnose import diagnose_explanation

        options = SearchOptions(k=1, budget=budget, seed=seed)
        return diagnose_explanation(self._context, require_explanation(explanation), options, progress)

    def recheck(
        self,
        explanations: Any,
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
    ) -> Recheck:
        """Which stored explanations hold for this explainer's model, such as a new version, and what breaks the others.

        ``explanations`` is a batch, or a list or a mapping of explanations; the budget is that of each.
        """
        from ironrule.explain.recheck import recheck_explanations

        return recheck_explanations(self._context, explanations, SearchOptions(k=1, budget=budget, seed=seed), progress)

    def attach(self, explanation: Explanation) -> Explanation:
        """The same explanation with this explainer's past rows and their outcomes attached again, for plots and reports
        of one that was read back, and with suggested changes where it has none; raises InputError if it was made with
        another model, space or history.
        """
        attached = require_explanation(explanation).with_history(self)
        return attached if attached.lazy_changes is not None else self.add_changes(attached)

    def add_changes(
        self,
        explanation: Explanation,
        k: int = DEFAULTS.k,
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        cost: Cost | str = DEFAULT_COST,
    ) -> Explanation:
        """The same explanation with up to k suggested changes, found when they are first read, within the seconds of
        the budget and 10 at most. With a ``cost``, as for :meth:`counterfactuals`, they are the cheapest by that.
        """
        from ironrule.explain.counterfactuals.suggest import add_changes

        return add_changes(self._context, explanation, k, budget, parse_cost(cost))
