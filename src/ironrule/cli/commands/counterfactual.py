"""ironrule counterfactual: the smallest changes that would have given a row the desired outcome.

  ironrule counterfactual model.skops loans.csv --row 17 --desired paid --vary amount months --range months=6:36
  ironrule counterfactual model.skops loans.csv --row 17 --desired paid --menu
  ironrule counterfactual model.skops loans.csv --all --desired paid --output changes/

For many rows, a folder keeps what is finished: run the same command again to continue. A .csv or .json file is written
at the end.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.commands.batch import add_resume_hint, end_soon_after_signal
from ironrule.cli.files import load_model, parse_desired, read_data
from ironrule.cli.inputs import parse_row, prepare_row, read_files
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.cli.terminal import show_spinner
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.explain.counterfactuals.options import ChangeOptions
    from ironrule.explain.options import SearchOptions
    from ironrule.model.target import Target
    from ironrule.results.counterfactuals_batch import CounterfactualsBatch
    from ironrule.rule.counterfactual import Counterfactual
    from ironrule.space.space import Space

DEFAULT_SPREAD = 0.1
NAME, HELP = "counterfactual", "find the changes that would have reversed the decision"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    rows = shared.add_row_option(parser, required=False)
    rows.add_argument("--rows", metavar="FILE", type=Path, help="a file of rows: all that are denied, each by itself")
    rows.add_argument("--all", action="store_true", help="all denied rows of DATA")
    rows.add_argument("--workers", metavar="N", type=int, help="processes for many rows (default: one per processor)")
    shared.add_search_options(parser)
    group = parser.add_argument_group("changes")
    group.add_argument(
        "--algorithm",
        dest="counterfactual_algorithm",  # not one of those that search for rules
        choices=("auto", "exact", "geco"),
        default="auto",
        help="default: auto (exact for a model that can be read, geco otherwise)",
    )
    shared.add_domain_option(group)
    group.add_argument("--vary", metavar="F", **shared.MANY, help="features that may change (default: all)")
    text = 'where a feature may go: age=18:60, age=18:, job=clerk,cook, or job=["a, b"] as a JSON list'
    group.add_argument("--range", metavar="F=VALUES", **shared.MANY, default=[], help=text)
    shared.add_cost_options(parser.add_argument_group("cost"), "--cost")
    _add_target_options(parser.add_argument_group("what to reach"))
    _add_answer_options(parser.add_argument_group("more than counterfactuals, for one row"))
    shared.add_output_option(parser, "the counterfactuals (.json; of many rows also .csv, or a folder)")


def _add_target_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--reach", metavar="LABEL", **shared.MANY, help="another class than --desired, or one of several"
    )
    group.add_argument("--above", metavar="T", type=float, help="a score above T")
    group.add_argument("--at-most", metavar="T", type=float, help="a score of at most T")
    text = "reach it even if every score moves by M"
    group.add_argument("--margin", dest="reached_margin", metavar="M", type=float, default=0.0, help=text)
    text = "reach it with these models too"
    group.add_argument(
        "--models", dest="further_models", metavar="MODEL", type=Path, **shared.MANY, default=[], help=text
    )


def _add_answer_options(group: argparse._ArgumentGroup) -> None:
    one = group.add_mutually_exclusive_group()
    text = "around each, a box in which every point is desired, or reaches what is asked for"
    one.add_argument("--region", action="store_true", help=text)
    one.add_argument("--menu", action="store_true", help="all minimal sets of changes, cheapest first (--k: at most K)")
    text = "the smallest set of restrictions that forbids every counterfactual"
    one.add_argument("--why-none", action="store_true", help=text)
    text = "counterfactuals that differ in their values, numbers by SPREAD of the range (default 0.1)"
    one.add_argument("--diverse", metavar="SPREAD", type=float, nargs="?", const=DEFAULT_SPREAD, help=text)
    one.add_argument("--past", action="store_true", help="the nearest past rows with the desired outcome")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, look for counterfactuals."""
    _require_one_choice_of_rows(options)
    _require_known_answer(options)
    search = shared.build_search_options(options)
    if options.row is not None:
        return _find_for_row(options, search)
    with end_soon_after_signal():
        return _find_for_rows(options, search)


def _require_one_choice_of_rows(options: argparse.Namespace) -> None:
    """Raise InputError unless exactly one of the options says which rows are meant."""
    given = [name for name in ("row", "rows", "all") if getattr(options, name) not in (None, False)]
    if len(given) != 1:
        got = " and ".join(f"--{name}" for name in given) or "none of them"
        raise InputError(expected="one of --row, --rows and --all must be given", got=got)


def _require_known_answer(options: argparse.Namespace) -> None:
    """Raise InputError where more than counterfactuals is asked for with options that it does not have."""
    kinds = ("region", "menu", "why_none", "diverse", "past")
    chosen = next((name for name in kinds if getattr(options, name) not in (None, False)), None)
    if chosen is None:
        return
    others = {
        "--rows": options.rows is not None,
        "--all": options.all,
        "--algorithm": options.counterfactual_algorithm != "auto",
        "--constraint": chosen == "region" and options.constraint,
        "--range": chosen == "region" and options.range,
    }
    given = [name for name, value in others.items() if value]
    if given:
        option = f"--{chosen.replace('_', '-')}"
        hint = (
            "put limits for regions into the roles of a space file" if given[0] in ("--constraint", "--range") else None
        )
        raise InputError(expected=f"{option} must be asked for without {given[0]}", got="both", hint=hint)


def _build_change_options(options: argparse.Namespace, space: Space, model: Any) -> ChangeOptions:
    from ironrule.explain.counterfactuals.options import ChangeOptions
    from ironrule.rule.parsing import parse_ranges

    return ChangeOptions(
        algorithm=options.counterfactual_algorithm,
        features_to_vary=options.vary or "all",
        permitted_range=parse_ranges(options.range, space),
        constraints=shared.parse_constraints(options),  # on the changes: the row itself need not satisfy them
        cost=shared.build_cost(options),
        target=_build_target(options, model),
        margin=options.reached_margin,
        models=[load_model(path, options.trust, options.trust_pickle) for path in options.further_models],
    )


def _has_target(options: argparse.Namespace) -> bool:
    return any(one is not None for one in (options.reach, options.above, options.at_most))


def _is_robust(options: argparse.Namespace) -> bool:
    return bool(options.reached_margin or options.further_models)


def _build_target(options: argparse.Namespace, model: Any) -> Target | None:
    """What is to be reached, if not the desired outcome."""
    from ironrule.model.target import Target

    if not _has_target(options):
        return None
    return Target(parse_desired(options.reach, model), options.above, options.at_most)


def _find_for_rows(options: argparse.Namespace, search: SearchOptions) -> CommandResult:
    """The counterfactuals of many rows, into a folder that can be continued or a file that is written at the end."""
    from ironrule.model.categories import restore_categories

    path: Path | None = options.output
    is_file = path is not None and path.suffix.lower() in (".json", ".csv")
    if is_file:
        check_output_path(options, (".json", ".csv"))
    shared.parse_constraints(options)  # refused before any file is opened
    files = read_files(options)
    rows = None if options.rows is None else restore_categories(files.model, read_data(options.rows))
    explainer = files.build_explainer(options, ())
    changes = _build_change_options(options, explainer.space, files.model)
    folder = None if is_file else path
    with contextlib.nullcontext() if folder is None else add_resume_hint(folder):
        batch = explainer.counterfactuals_many(
            rows,
            options.k or 1,
            output=folder,
            workers=options.workers,
            budget=search.budget,
            seed=search.seed,
            **changes.to_kwargs(),
        )
    text = _format_file(batch, path) if is_file and path is not None else ""
    return CommandResult(str(batch), batch.to_dict, path if is_file else None, text)


def _format_file(batch: CounterfactualsBatch, path: Path) -> str:
    """A table of all counterfactuals, or their documents."""
    if path.suffix.lower() == ".json":
        return format_json_file(batch.to_dict())
    table: str = batch.to_frame().to_csv(lineterminator="\n")
    return table


def _find_for_row(options: argparse.Namespace, search: SearchOptions) -> CommandResult:
    from ironrule.cli.render import render_counterfactuals
    from ironrule.verdict.digest import DIGEST_FIELD, add_digest

    output = check_output_path(options, (".json",))
    shared.parse_constraints(options)  # refused before any file is opened
    wanted = parse_row(options.row)
    files = read_files(options)
    explainer, row = prepare_row(options, files, wanted, any_outcome=_has_target(options) or _is_robust(options))
    changes = _build_change_options(options, explainer.space, files.model)
    reaching = {name: value for name, value in changes.to_kwargs().items() if name != "algorithm"}
    limits: dict[str, Any] = {"budget": search.budget, "seed": search.seed}
    if options.menu:
        with show_spinner():
            menu = explainer.change_menu(row, limit=options.k, **limits, **reaching)
        counterfactuals = [entry.counterfactual for entry in menu if entry.counterfactual is not None]
        view = _add_guessed_roles(str(menu), options, explainer.space, counterfactuals)
        return CommandResult(view, menu.to_dict, output, format_json_file(menu.to_dict()))
    if options.diverse is not None:
        with show_spinner():
            apart = explainer.diverse_counterfactuals(row, search.k, spread=options.diverse, **limits, **reaching)
        view = render_counterfactuals(apart, nearest="each is the nearest that differs so from all above")
        view = _add_guessed_roles(view, options, explainer.space, apart)
        return CommandResult(view, apart.to_dict, output, format_json_file(apart.to_dict()))
    if options.past:
        past = explainer.past_counterfactuals(row, search.k, **reaching)
        return CommandResult(render_counterfactuals(past), past.to_dict, output, format_json_file(past.to_dict()))
    if options.why_none:
        with show_spinner():
            why = explainer.find_forbidding_restrictions(row, **limits, **reaching)
        return CommandResult(str(why), why.to_dict, output, format_json_file(why.to_dict()))
    with show_spinner():
        found = explainer.counterfactuals(row, search.k, **limits, **changes.to_kwargs())
        goal: dict[str, Any] = {name: reaching[name] for name in ("target", "margin", "models")}
        regions = [explainer.counterfactual_region(one, **limits, **goal) for one in found] if options.region else None
        reason = None
        if found.proven and not found:
            reason = explainer.find_forbidding_restrictions(row, **limits, **reaching)
    document = found.to_dict()
    if regions is not None:
        document["regions"] = [region.to_dict() for region in regions]
    if reason is not None and reason.proven:
        document["why_none"] = reason.to_dict()
    document = add_digest({name: value for name, value in document.items() if name != DIGEST_FIELD})
    view = render_counterfactuals(found, regions or (), reason if reason is not None and reason.proven else None)
    view = _add_guessed_roles(view, options, explainer.space, found)
    return CommandResult(view, lambda: document, output, format_json_file(document))


def _add_guessed_roles(
    view: str, options: argparse.Namespace, space: Space, counterfactuals: Iterable[Counterfactual]
) -> str:
    """The view, with what to do about changes of features that look immutable, if these were not asked for."""
    from ironrule.cli.render import describe_guessed_roles
    from ironrule.cli.terminal import format_line

    if options.vary is not None:
        return view
    return "\n".join([view, *map(format_line, describe_guessed_roles(space, counterfactuals))])
