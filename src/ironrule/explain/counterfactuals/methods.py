"""The methods of the explainer about counterfactuals: each checks its arguments and hands them to its module.

What counterfactuals may change and must reach is said by the same keyword arguments everywhere: they are listed once,
as ``ChangeArguments``, and explained at :meth:`CounterfactualMethods.counterfactuals`.

Rules and counterfactuals are asked about in the same way, so both are methods of one :class:`Explainer`, whose base
this is. The modules that do the work load compiled code, so they are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ironrule.explain.context import ExplainerContext
from ironrule.explain.counterfactuals.options import (
    ChangeArguments,
    ChangeOptions,
    CounterfactualAlgorithm,
    expand_options,
)
from ironrule.explain.options import DEFAULTS, SearchOptions
from ironrule.results.counterfactuals import ChangeSet, Counterfactuals
from ironrule.results.explanation import Listing
from ironrule.verdict.budget import Budget

if TYPE_CHECKING:
    from ironrule.oracles.protocol import UserOracle
    from ironrule.results.changes.infeasibility import Infeasibility
    from ironrule.results.changes.menu import ChangeMenu
    from ironrule.results.changes.region import CounterfactualRegion
    from ironrule.results.counterfactuals_batch import CounterfactualsBatch


class CounterfactualMethods:
    """What an explainer can be asked about counterfactuals."""

    _context: ExplainerContext

    @expand_options(ChangeArguments)
    def counterfactuals(
        self,
        row: Any,
        k: int = DEFAULTS.k,
        *,
        algorithm: CounterfactualAlgorithm | UserOracle = "auto",
        features_to_vary: Sequence[str] | str = "all",
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> Counterfactuals:
        """Up to k counterfactuals, nearest first: fewest changes, then least distance.

        Where the model can be read they are exact: each is proven to be the nearest that does not change all features
        of an earlier one, and if fewer than k come there is no other; ``proven`` says whether that is so, and
        ``resolution`` how far numbers were rounded to readable ones. Else GeCo finds diverse ones without useless
        changes. An oracle passed as ``algorithm``, such as ``GrowingSpheres()``, searches in its own way; nothing is
        proven then.

        ``features_to_vary`` names the features that may change; ``permitted_range`` gives lowest and highest values, or
        the list of categories, by feature; ``constraints`` come on top of the explainer's own. ``cost`` says what
        nearest means: by default ``"fewest"`` changes, then least distance. ``target`` is the outcome to reach instead
        of the desired one. With a ``margin``, each stays desired although scores move by that; further ``models`` must
        desire it as well.
        """
        from ironrule.explain.counterfactuals.find import find_counterfactuals

        search = SearchOptions(k=k, budget=budget, seed=seed)
        changes = ChangeOptions.from_arguments(features_to_vary, algorithm, **options)
        return find_counterfactuals(self._context, row, search, changes, progress)

    @expand_options(ChangeArguments)
    def counterfactuals_many(
        self,
        rows: Any = None,
        k: int = DEFAULTS.k,
        *,
        output: str | Path | None = None,
        workers: int | None = None,
        algorithm: CounterfactualAlgorithm | UserOracle = "auto",
        features_to_vary: Sequence[str] | str = "all",
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> CounterfactualsBatch:
        """The counterfactuals of every undesired row: of a table, of the past rows with given numbers, or of all past
        rows. The options are those of :meth:`counterfactuals`, which gives the same for each row alone; the budget is
        that of one row.

        Rows are shared out to all processors, or to as many ``workers``. With ``output``, a folder, finished rows are
        written there as Parquet; whatever ends the work, the same call goes on where it ended. ``to_frame`` of what is
        returned is a table of all counterfactuals.
        """
        from ironrule.explain.batch.rows import extend_to_rows
        from ironrule.explain.batch.run import choose_pool
        from ironrule.explain.counterfactuals.many import find_many_counterfactuals
        from ironrule.explain.counterfactuals.targets import build_reached_context

        changes = ChangeOptions.from_arguments(features_to_vary, algorithm, **options)
        return find_many_counterfactuals(
            extend_to_rows(build_reached_context(self._context, changes, progress), rows),
            rows,
            SearchOptions(k=k, budget=budget, seed=seed),
            changes,
            folder=output,
            pool=choose_pool("local", workers, None),
            progress=progress,
        )

    def counterfactual_region(
        self,
        counterfactual: Any,
        features: Sequence[str] | str = "changed",
        *,
        target: Any = None,
        margin: float | None = None,
        models: Sequence[Any] | None = None,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
    ) -> CounterfactualRegion:
        """A box around a counterfactual in which every point has the desired outcome, grown as far as it goes.

        ``features`` that vary are those that the counterfactual changes ("changed"), "all", or some by name; all others
        stay as they are in it. Where the model can be read this is proven, and ``maximal`` says whether no bound can
        move further; else the verdict has a bound on the share of other points. Roles and constraints on single
        features are respected. In the place of a counterfactual, any row with the desired outcome will do.

        ``target``, ``margin`` and ``models`` say what every point must reach, as in :meth:`counterfactuals`. What is
        left out is as it was when the counterfactual was found; further models must be given again.
        """
        from ironrule.explain.counterfactuals.regions import choose_goal, find_region

        search = SearchOptions(k=1, budget=budget, seed=seed)
        changes = choose_goal(counterfactual, target, margin, models)
        return find_region(self._context, counterfactual, features, search, changes=changes, progress=progress)

    @expand_options(ChangeArguments)
    def diverse_counterfactuals(
        self,
        row: Any,
        k: int = DEFAULTS.k,
        *,
        spread: float = 0.1,
        features_to_vary: Sequence[str] | str = "all",
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> Counterfactuals:
        """Up to k counterfactuals that differ in their values: each is the nearest that, of each earlier one, leaves
        some changed feature as it is, or gives it another category or a number at least ``spread`` of the range away.
        Those of :meth:`counterfactuals` differ in the features that they change. ``proven`` says whether that holds for
        all of them and, where fewer than k came, whether there is no other. The options are those of
        :meth:`counterfactuals`.
        """
        from ironrule.explain.counterfactuals.diverse import find_diverse_counterfactuals, parse_spread

        changes = ChangeOptions.from_arguments(features_to_vary, **options)
        search = SearchOptions(k=k, budget=budget, seed=seed)
        return find_diverse_counterfactuals(
            self._context, row, search, changes, spread=parse_spread(spread), progress=progress
        )

    @expand_options(ChangeArguments)
    def past_counterfactuals(
        self,
        row: Any,
        k: int = DEFAULTS.k,
        *,
        features_to_vary: Sequence[str] | str = "all",
        **options: Unpack[ChangeArguments],
    ) -> Counterfactuals:
        """The k nearest past rows with the desired outcome, as counterfactuals: least distance first. They are
        plausible, since somebody had these values, and change more than they would have to. The options are those of
        :meth:`counterfactuals`; with a ``cost``, what costs least comes first.
        """
        from ironrule.explain.counterfactuals.diverse import find_past_counterfactuals

        changes = ChangeOptions.from_arguments(features_to_vary, **options)
        return find_past_counterfactuals(self._context, row, SearchOptions(k=k), changes)

    @expand_options(ChangeArguments)
    def change_menu(
        self,
        row: Any,
        *,
        features_to_vary: Sequence[str] | str = "all",
        limit: int | None = None,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> ChangeMenu:
        """All minimal sets of features whose change can give the desired outcome (:meth:`change_sets`), each with its
        cheapest change, cheapest first: fewest features, then least distance, or by ``cost``. The options are those of
        :meth:`counterfactuals`; ``limit`` is the largest number of sets, smallest first. The budget is that of all
        searches together.
        """
        from ironrule.explain.counterfactuals.menus import build_menu

        changes = ChangeOptions.from_arguments(features_to_vary, **options)
        return build_menu(
            self._context, row, SearchOptions(budget=budget, seed=seed), changes, limit=limit, progress=progress
        )

    @expand_options(ChangeArguments)
    def group_changes(
        self,
        row: Any,
        groups: Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
        *,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> ChangeMenu:
        """The cheapest change within each of some groups of features, such as those that one person can change:
        ``{"money": ["income", "savings"], "loan": ["amount", "months"]}``. Where nothing in a group would do, its entry
        says so, proven where the model can be read.
        """
        from ironrule.explain.counterfactuals.menus import build_group_menu

        changes = ChangeOptions.from_arguments(**options)
        search = SearchOptions(k=1, budget=budget, seed=seed)
        return build_group_menu(self._context, row, groups, search, changes=changes, progress=progress)

    @expand_options(ChangeArguments)
    def find_forbidding_restrictions(
        self,
        row: Any,
        *,
        features_to_vary: Sequence[str] | str = "all",
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> Infeasibility:
        """Why a row has no counterfactual: restrictions that together forbid every one, none of which is left over.

        Restrictions are declared roles, constraints, permitted ranges, and the features that may not vary. That there
        is no counterfactual is proven by an exact oracle, and so is that each restriction is needed: the nearest one
        that there is without it is named, by ``cost``, or, where a short search does not prove that, another one. If
        there is a counterfactual after all, it is in the answer. ``target``, ``margin`` and ``models`` say what is to
        be reached, as in :meth:`counterfactuals`.
        """
        from ironrule.explain.counterfactuals.infeasible import find_forbidding_restrictions

        changes = ChangeOptions.from_arguments(features_to_vary, **options)
        search = SearchOptions(k=1, budget=budget, seed=seed)
        return find_forbidding_restrictions(self._context, row, search, changes, progress)

    @expand_options(ChangeArguments)
    def change_sets(
        self,
        row: Any,
        *,
        features_to_vary: Sequence[str] | str = "all",
        limit: int | None = None,
        budget: Budget | float | None = DEFAULTS.budget,
        seed: int = DEFAULTS.seed,
        progress: bool | None = None,
        **options: Unpack[ChangeArguments],
    ) -> Listing[ChangeSet]:
        """All minimal sets of features whose change can give the desired outcome, smallest first, each with one change
        that does, or, with a ``cost``, with the cheapest; found as you ask. ``complete`` and ``stopped`` of what is
        returned say whether these are all. The options are those of :meth:`counterfactuals`.
        """
        from ironrule.explain.counterfactuals.menus import list_change_sets

        changes = ChangeOptions.from_arguments(features_to_vary, **options)
        search = SearchOptions(budget=budget, seed=seed)
        return list_change_sets(self._context, row, search, changes, limit=limit, progress=progress)
