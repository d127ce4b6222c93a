"""The options that several commands share.

Those of a search have no defaults here: what is not given is left to :class:`~ironrule.explain.options.SearchOptions`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.rule.cost import (
    COST_NORMS,
    COST_SCALES,
    DEFAULT_COST,
    Cost,
    parse_price_texts,
    parse_step_texts,
)
from ironrule.search.algorithms import ALGORITHM_CHOICES
from ironrule.space.domain import DOMAIN_MODES

if TYPE_CHECKING:
    from ironrule.explain.options import SearchOptions
    from ironrule.space.constraints.syntax import Constraint


TRUST_HELP = "types to accept in a .skops file; where some are needed, the error names them"
MANY: dict[str, Any] = {"nargs": "+", "action": "extend"}  # values; the option may be repeated for more


def need_files(parser: argparse.ArgumentParser, *names: str) -> None:
    """These files must be given, on the command line or in the project file."""
    parser.set_defaults(needed_files=(*(parser.get_default("needed_files") or ()), *names))


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The data file and how to read it as a space."""
    text = "past rows: .csv, .csv.gz, .tsv or .parquet"
    parser.add_argument("data", metavar="DATA", type=Path, nargs="?", help=text)
    need_files(parser, "DATA")
    add_space_options(parser.add_argument_group("data"))


def add_space_options(group: argparse._ActionsContainer) -> None:
    """How to read a data file as a space."""
    text = "a column to leave out: the one that the model was trained to predict"
    group.add_argument("--target", metavar="COLUMN", help=text)
    text = "a file with the domains of the features (see ironrule inspect)"
    group.add_argument("--space", metavar="FILE", type=Path, help=text)
    group.set_defaults(roles=None)  # which a project file may have
    text = "names of features, values and outcomes, with units and formats (.toml; see docs/labels.md)"
    group.add_argument("--labels", metavar="FILE", type=Path, help=text)
    text = "the language of labels, reasons and notices: en, de, ...; for notices also a file (.toml)"
    group.add_argument("--language", metavar="LANGUAGE", help=text)


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """``--cache``: data that is too long for memory."""
    text = "read DATA in chunks (.parquet, a folder of them, .csv), and store its codes here for the next run"
    parser.add_argument("--cache", metavar="FOLDER", type=Path, help=text)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model file, and what counts as desired."""
    text = "a fitted model: .skops, .onnx, .pmml, .pkl or .joblib if trusted; or a saved explainer: .ironrule (no DATA)"
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help=text)
    need_files(parser, "MODEL")
    add_desired_and_trust_options(parser.add_argument_group("model"))


def add_desired_and_trust_options(
    group: argparse._ActionsContainer, default: str = "1, where the classes are 0 and 1"
) -> None:
    """What counts as desired, and what to accept in a model file."""
    text = f"the desired class, or several (default: {default}); or below, with a threshold"
    group.add_argument("--desired", metavar="LABEL", **MANY, help=text)
    text = "desired means a score above T (with --desired below: below T)"
    group.add_argument("--threshold", metavar="T", type=float, help=text)
    group.add_argument("--trust", metavar="TYPE", **MANY, default=[], help=TRUST_HELP)
    text = "load a pickle or joblib file, which can run any code"
    group.add_argument("--trust-pickle", action="store_true", help=text)


def add_row_option(parser: argparse.ArgumentParser, required: bool = True) -> argparse._ArgumentGroup:
    """The row in question; gives the group, for other choices of rows."""
    group = parser.add_argument_group("row")
    text = "a row number from 0, or a JSON object of column: value"
    group.add_argument("--row", "--row-json", metavar="ROW", required=required, help=text)
    return group


def add_search_options(parser: argparse.ArgumentParser, several: bool = True) -> None:
    """How many answers (where there may be several), within which budget, from which seed, under which constraints."""
    group = parser.add_argument_group("search")
    if several:
        text = "the largest number of answers (default 5; greedy_cf gives one rule)"
        group.add_argument("--k", metavar="K", type=int, help=text)
    add_constraint_option(group)
    group.add_argument("--seconds", metavar="S", type=float, help="budget in seconds (default 30; inf for no limit)")
    group.add_argument("--evaluations", metavar="N", type=int, help="budget in rows that the model is asked about")
    add_seed_option(group)


def add_robustness_options(group: argparse._ActionsContainer) -> None:
    """What a rule must hold for beyond the model and the values seen."""
    text = "the rule must hold even if every score moved by M"
    group.add_argument("--margin", metavar="M", type=float, default=0.0, help=text)
    add_domain_option(group)
    text = "the rule must hold for these models too"
    group.add_argument("--models", metavar="MODEL", type=Path, nargs="+", default=[], help=text)


def add_domain_option(group: argparse._ActionsContainer) -> None:
    """``--domain``."""
    text = "numbers: any value in their range (interval; auto: if the model can be read so), or the values seen"
    group.add_argument("--domain", choices=DOMAIN_MODES, default="auto", help=text)


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    """Which algorithm, and what is asked of a rule."""
    group = parser.add_argument_group("rule")
    add_algorithm_option(group)
    group.add_argument("--require", metavar="F", **MANY, default=[], help="features the rule must use")
    group.add_argument("--forbid", metavar="F", **MANY, default=[], help="features it must not use")
    text = "leave the bounds at the row's own values"
    group.add_argument("--no-widen", dest="widen", action="store_false", default=None, help=text)
    text = "default: length; coverage: of the proven rules that are little longer, one that covers most past rows"
    group.add_argument("--prefer", choices=("length", "coverage"), help=text)
    add_robustness_options(group)


class _StoreCostPart(argparse.Action):
    """Gathers all options of a cost in one value: a cost of the project file counts only if none of them is given."""

    def __init__(self, part: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.part = part

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: Any, _option: object = None) -> None:
        parts = getattr(namespace, self.dest)
        before = parts if isinstance(parts, dict) else {}
        several = self.nargs == "+"
        setattr(namespace, self.dest, before | {self.part: before.get(self.part, []) + values if several else values})


def add_cost_options(group: argparse._ActionsContainer, name: str = "--change-cost") -> None:
    """What changes cost: those that an explanation suggests, or with ``--cost`` counterfactuals."""

    def add(option: str, part: str, text: str, **settings: Any) -> None:
        group.add_argument(option, dest="change_cost", action=_StoreCostPart, part=part, help=text, **settings)

    text = "fewest changes, then distance (default), or the sum, root of squares or largest distance"
    add(name, "norm", f"the meaning of nearest: {text}", choices=COST_NORMS)
    text = "distances in ranges (default), in median absolute deviations, or in shares of past rows"
    add("--scale", "scale", text, choices=COST_SCALES)
    text = "the price of distance: income=2, income=1:5 (up:down), age=inf (never)"
    add("--price", "prices", text, metavar="F=P", nargs="+")
    text = "change a number by whole multiples only: amount=50"
    add("--step", "steps", text, metavar="F=N", nargs="+")
    add(
        "--per-change",
        "per_change",
        f"the additional cost of every changed feature, with {name} l1",
        metavar="C",
        type=float,
    )


def add_change_cost_options(parser: argparse.ArgumentParser) -> None:
    """The cost of the changes that explanations suggest."""
    add_cost_options(parser.add_argument_group("suggested changes"))


def build_cost(options: argparse.Namespace) -> Cost:
    """The cost that was asked for, on the command line or in the project file."""
    given = options.change_cost
    if given is None or isinstance(given, Cost):
        return given or DEFAULT_COST
    readers: dict[str, Any] = {"prices": parse_price_texts, "steps": parse_step_texts}
    parts: dict[str, Any] = {part: readers[part](value) if part in readers else value for part, value in given.items()}
    return Cost(**parts)


def add_constraint_option(group: argparse._ActionsContainer) -> None:
    """``--constraint``."""
    group.add_argument("--constraint", metavar="TEXT", **MANY, default=[], help="see docs/constraints.md")


def add_algorithm_option(parser: argparse._ActionsContainer) -> None:
    """Which algorithm searches for rules."""
    help_text = "default: auto (minimum for a model that can be read, greedy_cf otherwise)"
    parser.add_argument("--algorithm", choices=ALGORITHM_CHOICES, help=help_text)


def add_seed_option(parser: argparse._ActionsContainer) -> None:
    """The seed."""
    parser.add_argument("--seed", metavar="N", type=_parse_seed, help="same seed, same answer (default 0)")


def add_output_option(parser: argparse.ArgumentParser, what: str, is_needed: bool = False) -> None:
    """The file to write."""
    text = f"the file to write: {what}" if is_needed else f"also write {what} to a file"
    parser.add_argument("--output", metavar="FILE", type=Path, help=text)
    add_overwrite_option(parser)


def add_overwrite_option(group: argparse._ActionsContainer) -> None:
    """``--overwrite``."""
    group.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")


def build_search_options(options: argparse.Namespace) -> SearchOptions:
    """What a search is told: all that was given and that the command offers."""
    from ironrule.explain.options import SearchOptions
    from ironrule.verdict.budget import Budget

    given = {name: getattr(options, name, None) for name in SearchOptions.__slots__}
    seconds, evaluations = (getattr(options, name, None) for name in ("seconds", "evaluations"))
    given["change_cost"] = build_cost(options) if given["change_cost"] is not None else None
    given["budget"] = None if seconds is None and evaluations is None else Budget(evaluations, seconds)
    return SearchOptions(**{name: value for name, value in given.items() if value is not None})


def parse_constraints(options: argparse.Namespace) -> list[Constraint]:
    """The constraints, read before any file is opened."""
    from ironrule.space.constraints.parser import parse_constraint

    return [parse_constraint(text) for text in options.constraint]


def _parse_seed(text: str) -> int:
    seed = int(text)
    if seed < 0:
        raise argparse.ArgumentTypeError(f"the seed must be a non-negative integer, got {text!r}")
    return seed


_parse_seed.__name__ = "integer"  # argparse names it in "invalid integer value"
