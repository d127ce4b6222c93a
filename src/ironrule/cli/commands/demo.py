"""ironrule demo: explain a denied loan in the German credit data that comes with Ironrule.

A decision tree behind a one-hot encoding is trained on 1,000 applications, and the first applicant that it denies is
explained: by a rule in terms of the raw columns, and by the changes that would have turned the decision.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironrule.cli.options import add_algorithm_option, add_json_option, add_seed_option, build_search_options
from ironrule.errors import InputError, OutcomeError

if TYPE_CHECKING:
    from ironrule.cli.output import CommandResult
    from ironrule.explain.explainer import Explainer
    from ironrule.space.space import Space


NAME, HELP = "demo", "explain a denied loan in the bundled German credit data"
DESIRED_CLASS = "good"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--row", metavar="N", type=int, help="which applicant, from 0 (default: the first one denied)")
    add_algorithm_option(parser)
    add_seed_option(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Train, pick a denied applicant, explain."""
    import numpy as np
    from rich.console import Group

    from ironrule.cli.output import CommandResult
    from ironrule.cli.render import render_explanation, render_heading, show_spinner

    explainer = build_demo_explainer()
    denied = np.flatnonzero(~explainer.outcomes).tolist()
    row = denied[0] if options.row is None else options.row
    if not 0 <= row < len(explainer.outcomes):
        raise InputError(expected=f"the row number must be from 0 to {len(explainer.outcomes) - 1}", got=row)
    if row not in denied:
        nearest = min(denied, key=lambda other: abs(other - row))
        raise OutcomeError(
            f"the model does not deny applicant {row}", hint=f"it denies applicant {nearest}", code="row-not-denied"
        )
    with show_spinner():
        explanation = explainer.explain(row, **build_search_options(options).to_kwargs())
    told = render_heading(
        f"German credit: a decision tree denies {len(denied)} of 1,000 applicants. Why applicant {row}?"
    )
    return CommandResult(Group(told, render_explanation(explanation)), explanation.to_dict)


def build_demo_explainer() -> Explainer:
    """An explainer of the demo's model; needs no pandas."""
    from ironrule.explain.explainer import Explainer

    model, features, space = build_demo_model()
    return Explainer(model, features, desired=DESIRED_CLASS, space=space)


def build_demo_model() -> tuple[Any, Any, Space]:
    """The demo's model, its data and their space."""
    from ironrule.data import load_german
    from ironrule.space.space import Space

    features, names, target = load_german(as_frame=False)
    return _train_model(features, target), features, Space.infer(features, names=names)


def _train_model(features: Any, target: Any) -> Any:
    """A pipeline on raw categories: one-hot encoding, then a small tree."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    categories = [place for place, value in enumerate(features[0]) if isinstance(value, str)]
    encoder = ColumnTransformer([("categories", OneHotEncoder(), categories)], remainder="passthrough")
    tree = DecisionTreeClassifier(max_depth=8, min_samples_leaf=10, random_state=0)
    return make_pipeline(encoder, tree).fit(features, target)
