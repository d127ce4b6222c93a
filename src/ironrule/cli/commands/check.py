"""ironrule check: verify an explanation, a ladder or counterfactuals against the model and the data, without trusting
their author.

EXPLANATION is the JSON of ironrule explain, of ironrule ladder, or of ironrule counterfactual (also with --region,
--menu or --why-none), or a validator's report (.html) that has one attached. Pass the space and the constraints with
which it was made. It names the desired outcome; pass yours with --desired and --threshold to compare the two:

  ironrule explain model.skops loans.csv --row 17 --desired paid --output why.json
  ironrule check why.json --model model.skops --data loans.csv --desired paid
  ironrule counterfactual model.skops loans.csv --row 17 --desired paid --output changes.json
  ironrule check changes.json --model model.skops --data loans.csv --desired paid

You can pass a saved explainer (.ironrule) instead of MODEL and DATA. Then the check is against the normal form in the
file, as the explainer read it from the model, and not against the model itself; the result says so:

  ironrule check why.json credit.ironrule

Exit codes: 0 proven, or for a ladder: every claim holds; 1 refuted (a claim is false or was altered, the rule has an
exception, or a counterfactual is nearer), 2 input that cannot be used, 3 undecided. With --strict, 3 also if the
checker had to use the explainer's reading of the model ("reading shared", so always with a saved explainer), or was not
told what counts as desired.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared
from ironrule.cli.inputs import is_saved_explainer, read_files, read_labels, require_saved_explainer
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError
from ironrule.space.labels import Labels

if TYPE_CHECKING:
    from ironrule.checker.result import Check
    from ironrule.space.constraints.syntax import Constraint

NAME, HELP = "check", "verify an explanation, a ladder or counterfactuals against a model and data"
EXIT_CODES = {"proven": 0, "holds": 0, "refuted": 1, "undecided": 3}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "explanation",
        metavar="EXPLANATION",
        type=Path,
        help="an explanation, a ladder or counterfactuals as JSON, or a report that has one attached",
    )
    text = "a saved explainer (.ironrule), instead of --model and --data"
    parser.add_argument("saved", metavar="SAVED", type=Path, nargs="?", action=_StoreModel, help=text)
    group = parser.add_argument_group("model")
    text = "the model that was explained, or a saved explainer"
    group.add_argument("--model", metavar="MODEL", type=Path, help=text)
    text = "other models that it holds for"
    group.add_argument("--models", metavar="MODEL", type=Path, nargs="+", default=[], help=text)
    shared.add_desired_and_trust_options(group, "what the explanation names")
    group.add_argument("--margin", metavar="M", type=float, help="compare the margin: by how much scores may move")
    group.add_argument("--strict", action="store_true", help="exit with 3 if anything is shared or not compared")
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="DATA", type=Path, help="the past rows that it was made with")
    shared.need_files(parser, "--model", "--data")
    text = "the rows that a ladder was measured on, if these are not half of DATA"
    group.add_argument("--measure", metavar="FILE", type=Path, help=text)
    shared.add_space_options(group)
    text = "exit with 3 unless the claims are about every number between the values seen, too"
    group.add_argument("--intervals", action="store_true", help=text)
    shared.add_constraint_option(group)


class _StoreModel(argparse.Action):
    """Takes the file of a saved explainer for the model."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:  # noqa: ARG002
        if values is not None:
            namespace.model = values
        setattr(namespace, self.dest, values)


def run(options: argparse.Namespace) -> CommandResult:
    """Read the files, check every claim."""
    from ironrule.checker.document import parse_document
    from ironrule.cli.render import render_check
    from ironrule.cli.saved import parse_explanation_file

    constraints = shared.parse_constraints(options)
    document = parse_explanation_file(parse_document, options.explanation)
    if options.saved is not None and (options.model != options.saved or not is_saved_explainer(options.saved)):
        expected = "SAVED must be a saved explainer (.ironrule), in the place of --model"
        raise InputError(expected=expected, got=f"{options.saved.name} and --model {options.model.name}", code="usage")
    ask = _check_against_file if is_saved_explainer(options.model) else _check_against_model
    found = ask(options, document.data, constraints)
    is_good = EXIT_CODES[found.status] == 0
    status = "undecided" if is_good and options.strict and not found.strict else found.status
    view = render_check(found, _phrase_rule(document.data, options))
    return CommandResult(view, found.to_dict, code=EXIT_CODES[status])


def _check_against_file(options: argparse.Namespace, document: Any, constraints: list[Constraint]) -> Check:
    from ironrule.checker.readers.saved_files import SavedFileChecker

    path = require_saved_explainer(options)
    return SavedFileChecker(path, constraints, intervals=options.intervals).check(document)


def _check_against_model(options: argparse.Namespace, document: Any, constraints: list[Constraint]) -> Check:
    from ironrule.checker.checker import check

    files = read_files(options)
    compared = options.desired is not None or options.threshold is not None
    return check(
        document,
        files.model,
        files.data,
        space=files.space,
        constraints=constraints,
        models=files.models,
        intervals=options.intervals,
        margin=options.margin,
        measure=files.measure,
        **({"desired": files.desired, "threshold": options.threshold} if compared else {}),
    )


def _phrase_rule(document: Mapping[str, Any], options: argparse.Namespace) -> str | None:
    """The rule that was checked in the words of the labels, where there are any."""
    from ironrule.results.scope import DomainSummary, restore_readings
    from ironrule.rule.rule import Rule

    explanation = document.get("explanation", document)
    if "rules" not in explanation:  # of changes
        return None
    labels = Labels.from_dict(explanation.get("labels", {}))
    if options.labels is not None or options.language is not None:
        labels = read_labels(options).extend(labels)
    if not labels:
        return None
    domains = {name: DomainSummary.from_dict(one) for name, one in explanation.get("domains", {}).items()}
    return str(restore_readings(Rule.from_dict(explanation["rules"][0]["rule"]), domains).with_labels(labels))
