"""ironrule judge: how good a rule is that somebody has found for a row, by proof.

Give the conditions of the rule, each as one text; --rule may be repeated to judge several rules:

  ironrule judge model.skops loans.csv --row 17 --desired paid --rule 'months >= 30' '20 < age <= 37' 'housing = rent'

A rule fails on the past rows (failed data consistency) or elsewhere (failed global consistency), or it holds: with
something that can go (consistent but redundant), as one that is longer than it had to be (irredundant but not minimum),
or as one of the shortest there are (minimum). Not judged is what could not be proven.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.cli import options as shared

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.explain import Judgement

NAME, HELP = "judge", "say how good a rule for one row is"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    shared.add_model(parser)
    shared.add_data(parser)
    shared.add_row(parser)
    group = parser.add_argument_group("rule")
    text = "the rule's conditions, such as 'age <= 30' 'job = cook' '20 < age <= 37'; may be repeated for other rules"
    group.add_argument("--rule", metavar="CONDITION", nargs="+", action="append", required=True, help=text)
    shared.add_reach(group)
    group = parser.add_argument_group("search")
    shared.add_constraint(group)
    shared.add_budget(group)
    shared.add_seed(group)
    shared.add_json(parser)
    shared.add_output(parser, "the judgements (.json)")


def run(options: argparse.Namespace) -> Answer:
    """Read the files, judge the rules."""
    from ironrule.cli.answer import Answer, check_output, json_text
    from ironrule.cli.question import question_of
    from ironrule.cli.show import judgements_view, searching

    output, budget = check_output(options, (".json",)), shared.budget_of(options)
    question = question_of(options, shared.constraints_of(options), options.models, options.margin, options.intervals)
    with searching():
        found = question.explainer.judge(question.row, options.rule, budget=budget, seed=options.seed)
    return Answer(
        judgements_view(found), lambda: _data(found), output, "" if output is None else json_text(_data(found))
    )


def _data(judgements: Sequence[Judgement]) -> dict[str, Any]:
    return {"judgements": [judgement.to_dict() for judgement in judgements]}
