"""ironrule counterfactual: the smallest changes that would have given a row the desired outcome.

ironrule counterfactual model.skops loans.csv --row 17 --desired paid --vary amount months --range months=6:36
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.errors import InputError

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult
    from ironrule.space.feature import Feature
    from ironrule.space.space import Space


NAME, HELP = "counterfactual", "find the changes that would have turned the decision"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model_options(parser)
    shared.add_data_options(parser)
    shared.add_row_option(parser)
    shared.add_search_options(parser)
    group = parser.add_argument_group("changes")
    group.add_argument(
        "--algorithm",
        choices=("auto", "exact", "geco"),
        default="auto",
        help="default: auto (exact for a model that can be read, geco otherwise)",
    )
    group.add_argument(
        "--vary", metavar="F", nargs="+", action="extend", help="features that may change (default: all)"
    )
    text = 'where a feature may go: age=18:60, age=18:, job=clerk,cook, or job=["a, b"] as a JSON list'
    group.add_argument("--range", metavar="F=VALUES", nargs="+", action="extend", default=[], help=text)
    shared.add_json_option(parser)
    shared.add_output_option(parser, "the counterfactuals (.json)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, look for counterfactuals."""
    from ironrule.cli.inputs import read_row_inputs
    from ironrule.cli.output import CommandResult, check_output_path, format_json_file
    from ironrule.cli.render import render_counterfactuals, show_spinner

    output, budget = check_output_path(options, (".json",)), shared.build_budget(options)
    constraints = shared.parse_constraints(options)  # on the changes: the row itself need not satisfy them
    inputs = read_row_inputs(options)
    ranges = parse_ranges(options.range, inputs.explainer.space)
    with show_spinner():
        found = inputs.explainer.counterfactuals(
            inputs.row,
            options.k,
            algorithm=options.algorithm,
            features_to_vary=options.vary or "all",
            permitted_range=ranges,
            constraints=constraints,
            budget=budget,
            seed=options.seed,
        )
    return CommandResult(render_counterfactuals(found), found.to_dict, output, format_json_file(found.to_dict()))


def parse_ranges(texts: Sequence[str], space: Space) -> dict[str, list[Any]]:
    """The permitted values per feature, in the feature's own type."""
    return dict(_parse_range(text, space) for text in texts)


def _parse_range(text: str, space: Space) -> tuple[str, list[Any]]:
    named = [name for name in space.names if text.startswith(f"{name}=")]  # a name may itself contain "="
    name = max(named, key=len, default=text.partition("=")[0])
    feature, values = space[name], text[len(name) + 1 :]
    if not values.strip():
        raise InputError(
            expected=f"a range must be written as feature=values, such as {name}={_format_example(feature)}",
            got=repr(text),
        )
    if values.lstrip().startswith("["):
        return name, _parse_json_list(name, values)
    return name, _parse_ends(feature, values) if feature.ordered else _parse_categories(feature, values)


def _parse_json_list(name: str, values: str) -> list[Any]:
    try:
        return list(json.loads(values))
    except json.JSONDecodeError as error:
        raise InputError(f"the range of {name!r} begins with [, but is not a JSON list: {error}") from None


def _parse_ends(feature: Feature, values: str) -> list[Any]:
    lowest, colon, highest = values.partition(":")
    if not colon:
        raise InputError(
            expected=f"the range of {feature.name!r} must be lowest:highest, such as {_format_example(feature)}",
            got=repr(values),
        )
    ends = (lowest.strip(), feature.values[0]), (highest.strip(), feature.values[-1])
    return [_parse_value(feature, text) if text else end for text, end in ends]


def _parse_categories(feature: Feature, values: str) -> list[Any]:
    """The categories between the commas; a text that is a category as a whole is not cut."""
    whole = [value for value in feature.values if str(value) == values]
    return whole or [_parse_value(feature, text.strip()) for text in values.split(",")]


def _parse_value(feature: Feature, text: str) -> Any:
    known = {str(value): value for value in feature.values}
    if text in known:
        return known[text]
    if feature.ordered and feature.numeric:
        try:
            return float(text)
        except ValueError:
            pass
    raise InputError(expected=f"a value in the range of {feature.name!r} must be {feature.describe()}", got=repr(text))


def _format_example(feature: Feature) -> str:
    if feature.ordered:
        return f"{feature.values[0]}:{feature.values[-1]}" if feature.values else "1:2"
    return ",".join(map(str, feature.values[:2]))
