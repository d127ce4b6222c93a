"""A mistyped command, option, choice or name: the message names the one that may be meant."""

from __future__ import annotations

import pytest
from loans import Files

from ironrule.cli.parser import COMMANDS, build_parser


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explan",), "did you mean explain?"),
        (("Explain",), "did you mean explain?"),
        (("counterfactuals", "--row", "3"), "did you mean counterfactual?"),
        (("--verison",), "did you mean --version?"),
        (("serve", "model.skops", "loans.csv"), "model.skops loans.csv; see ironrule serve --help"),
        (("explain", "--rwo", "3"), "unrecognized arguments: --rwo; did you mean --row?"),  # not: --row is required
        (("explain", "--row=3", "--desird=good"), "did you mean --desired?"),
        (("explain", "-row", "3"), "did you mean --row?"),
        (("explain", "--row", "3", "--trust_pickle"), "did you mean --trust-pickle?"),
        (("explain", "--row", "3", "--algorithm", "minimun"), "did you mean minimum?"),
        (("counterfactual", "--row", "3", "--cost", "L1"), "did you mean l1?"),
        (("batch", "--output", "x", "--change-cots", "l1"), "did you mean --change-cost?"),
    ],
)
def test_what_may_be_meant_is_named(refused, arguments: tuple[str, ...], said: str):
    assert said in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("qwertz",), "see ironrule --help"),
        (("explain", "--qwertz"), "see ironrule explain --help"),
        (("explain", "--row", "3", "--algorithm", "qwertz"), "see ironrule explain --help"),
    ],
)
def test_nothing_is_named_that_is_not_alike(refused, arguments: tuple[str, ...], said: str):
    message = refused(*arguments)
    assert said in message
    assert "did you mean" not in message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--target", "payd"), "did you mean 'paid'?"),
        (("--desired", "yess"), "did you mean 'yes'?"),
        (("--forbid", "incom"), "did you mean 'income'?"),
        (("--price", "incom=2"), "did you mean 'income'?"),
    ],
)
def test_names_of_columns_features_and_classes_too(refused, files: Files, options: tuple[str, ...], said: str):
    arguments = [files.model, files.data, "--row", str(files.denied), "--desired", "yes", "--target", "paid"]
    assert said in refused("explain", *arguments, *options)


def test_a_row_and_a_value_that_look_like_options_are_left_alone():
    parsed = build_parser().parse_args(["explain", "m.skops", "d.csv", "--row", "-3", "--constraint", "--cf.age >= 1"])
    assert (parsed.row, parsed.constraint) == ("-3", ["--cf.age >= 1"])


def test_every_command_can_be_suggested():
    parser = build_parser()
    for command in COMMANDS:
        with pytest.raises(Exception, match=f"did you mean {command.NAME}"):
            parser.parse_args([command.NAME + "x"])
