"""ironrule check: verify an explanation against the model and the data, without trusting whoever made it.

EXPLANATION is the JSON of ironrule explain. The space and the constraints must be those that it was made with. What
counts as desired stands in it; say what you mean by it with --desired and --threshold, and it is compared:

  ironrule explain model.skops loans.csv --row 17 --desired paid --output why.json
  ironrule check why.json --model model.skops --data loans.csv --desired paid

Exit codes: 0 proven, 1 refuted (a claim is false or was altered, or the rule has an exception), 2 input that cannot be
used, 3 not decidable here. With --strict, 3 also where the checker had to use the explainer's reading of the model
("reading shared"), or was not told what counts as desired.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult


NAME, HELP = "check", "verify an explanation against a model and data"
EXIT_CODES = {"proven": 0, "refuted": 1, "undecided": 3}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("explanation", metavar="EXPLANATION", type=Path, help="an explanation as JSON")
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, required=True, help="the model that was explained")
    group.add_argument("--models", metavar="MODEL", type=Path, nargs="+", default=[], help="those it holds for too")
    shared.add_desired_options(group)
    shared.add_trust_options(group)
    group.add_argument("--margin", metavar="M", type=float, help="by how much scores may move, to be compared")
    group.add_argument("--strict", action="store_true", help="exit with 3 unless nothing is shared or left uncompared")
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, required=True, help="the past rows that it was made with")
    shared.add_space_options(group)
    group.add_argument("--extend-domain", action="store_true", help="if the explanation was made with it")
    group.add_argument("--intervals", action="store_true", help="if the explanation was made with it")
    shared.add_constraint_option(group)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, check every claim."""
    from ironrule.checker.checker import check
    from ironrule.checker.document import parse_document
    from ironrule.cli.files import load_model, read_data
    from ironrule.cli.inputs import find_model_columns, read_space
    from ironrule.cli.output import CommandResult
    from ironrule.cli.render import render_check
    from ironrule.cli.saved import parse_explanation_file
    from ironrule.space.feature import value_from_json

    constraints = shared.parse_constraints(options)
    document = parse_explanation_file(parse_document, options.explanation)
    model = load_model(options.model, options.trust, options.trust_pickle)
    data = read_data(options.data, options.target)
    space = read_space(options, data, find_model_columns(model))
    if options.extend_domain:
        space = space.extend_domains({name: value_from_json(value) for name, value in document.instance.items()})
    others = [load_model(path, options.trust, options.trust_pickle) for path in options.models]
    found = check(
        document.data,
        model,
        data,
        space=space,
        constraints=constraints,
        models=others,
        intervals=options.intervals,
        margin=options.margin,
        **_collect_target_arguments(options, model),
    )
    status = "undecided" if found.status == "proven" and options.strict and not found.strict else found.status
    return CommandResult(render_check(found), found.to_dict, code=EXIT_CODES[status])


def _collect_target_arguments(options: argparse.Namespace, model: Any) -> dict[str, Any]:
    """What the caller means by desired, where anything is said of it."""
    from ironrule.cli.files import parse_desired

    if options.desired is None and options.threshold is None:
        return {}
    return {"desired": parse_desired(options.desired, model), "threshold": options.threshold}
