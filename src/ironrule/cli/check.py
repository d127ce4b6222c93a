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
    from ironrule.cli.answer import Answer

NAME, HELP = "check", "verify an explanation against a model and data"
CODES = {"proven": 0, "refuted": 1, "undecided": 3}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("explanation", metavar="EXPLANATION", type=Path, help="an explanation as JSON")
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="MODEL", type=Path, required=True, help="the model that was explained")
    group.add_argument("--models", metavar="MODEL", type=Path, nargs="+", default=[], help="those it holds for too")
    shared.add_target(group)
    shared.add_trust(group)
    group.add_argument("--margin", metavar="M", type=float, help="by how much scores may move, to be compared")
    group.add_argument("--strict", action="store_true", help="exit with 3 unless nothing is shared or left uncompared")
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, required=True, help="the past rows that it was made with")
    shared.add_space(group)
    group.add_argument("--extend-domain", action="store_true", help="if the explanation was made with it")
    group.add_argument("--intervals", action="store_true", help="if the explanation was made with it")
    shared.add_constraint(group)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Answer:
    """Read the files, check every claim."""
    from ironrule.checker import check
    from ironrule.checker.document import parse_document
    from ironrule.cli.answer import Answer
    from ironrule.cli.files import read_data
    from ironrule.cli.models import read_model
    from ironrule.cli.question import columns_of, space_of
    from ironrule.cli.show import check_view
    from ironrule.cli.stored import read_as
    from ironrule.space.plain import from_plain

    constraints = shared.constraints_of(options)
    document = read_as(parse_document, options.explanation)
    model = read_model(options.model, options.trust, options.trust_pickle)
    data = read_data(options.data, options.target)
    space = space_of(options, data, columns_of(model))
    if options.extend_domain:
        space = space.extended({name: from_plain(value) for name, value in document.instance.items()})
    others = [read_model(path, options.trust, options.trust_pickle) for path in options.models]
    found = check(
        document.whole,
        model,
        data,
        space=space,
        constraints=constraints,
        models=others,
        intervals=options.intervals,
        margin=options.margin,
        **_expected(options, model),
    )
    status = "undecided" if found.status == "proven" and options.strict and not found.strict else found.status
    return Answer(check_view(found), found.to_dict, code=CODES[status])


def _expected(options: argparse.Namespace, model: Any) -> dict[str, Any]:
    """What the caller means by desired, where anything is said of it."""
    from ironrule.cli.models import desired_of

    if options.desired is None and options.threshold is None:
        return {}
    return {"desired": desired_of(options.desired, model), "threshold": options.threshold}
