"""ironrule inspect: the features of your data and the values they can take, as Ironrule reads them.

If you declare no role for a feature, its name may suggest one: protected or immutable. Explanations suggest no change
of such a feature. All other commands, such as ironrule counterfactual, use only declared roles: those of a file, or of
ironrule.toml ([roles], then age = "immutable").

Write the features to a file, correct it, and pass it with --space:

  ironrule inspect loans.csv --target status --output space.toml
  ironrule explain model.skops loans.csv --row 17 --space space.toml
"""

from __future__ import annotations

import argparse

from ironrule.cli import options as shared
from ironrule.cli.files import read_data
from ironrule.cli.inputs import read_space
from ironrule.cli.output import CommandResult, check_output_path, format_json_file
from ironrule.space.roles import suggest_roles

NAME, HELP = "inspect", "show the domains of the features, and write them to a file"
OUTPUT_ENDINGS = (".toml", ".json")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_data_options(parser)
    shared.add_output_option(parser, "the space (.toml or .json)")


def run(options: argparse.Namespace) -> CommandResult:
    """Read the data, show its space."""
    from ironrule.cli.render import render_space
    from ironrule.space.files import to_toml
    from ironrule.space.space import Space

    output = check_output_path(options, OUTPUT_ENDINGS)
    data = read_data(options.data, options.target)
    space = read_space(options, data)
    guessed = suggest_roles(space.features)
    space = space.with_roles(guessed)
    document = space.to_dict()
    as_toml = output is not None and output.suffix.lower() == ".toml"
    seen = Space.infer(data, progress=False).to_dict()
    text = to_toml(document, seen) if as_toml else format_json_file(document)
    return CommandResult(render_space(space, len(data), guessed=[*guessed]), lambda: document, output, text)
