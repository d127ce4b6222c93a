"""ironrule inspect: the features of your data and the values they can take, as Ironrule understands them.

Write them to a file, correct it, and pass it back by --space:

  ironrule inspect loans.csv --target status --output space.toml
  ironrule explain model.skops loans.csv --row 17 --space space.toml
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ironrule.cli import options as shared

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer

NAME, HELP = "inspect", "show what values the features can take, to correct it in a file"
ENDINGS = (".toml", ".json")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_data(parser)
    shared.add_json(parser)
    shared.add_output(parser, "the space (.toml or .json)")


def run(options: argparse.Namespace) -> Answer:
    """Read the data, show its space."""
    from ironrule.cli.answer import Answer, check_output, json_text
    from ironrule.cli.files import read_data
    from ironrule.cli.question import space_of
    from ironrule.cli.show import space_view
    from ironrule.space import Space
    from ironrule.space.file import to_toml

    output = check_output(options, ENDINGS)
    data = read_data(options.data, options.target)
    space = space_of(options, data)
    document = space.to_dict()
    as_toml = output is not None and output.suffix.lower() == ".toml"
    seen = Space.infer(data, constant="keep", progress=False).to_dict()
    text = to_toml(document, seen) if as_toml else json_text(document)
    return Answer(space_view(space, len(data)), lambda: document, output, text)
