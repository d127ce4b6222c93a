"""ironrule demo: explain a denied loan in the German credit data that comes with Ironrule.

A decision tree on one-hot encoded columns is trained on 1,000 applications. The first applicant that it denies is
explained: by a rule on the original columns, and by changes that would have reversed the decision.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironrule.cli.options import add_algorithm_option, add_seed_option, build_search_options
from ironrule.cli.output import CommandResult
from ironrule.errors import InputError, OutcomeError

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.space.space import Space


NAME, HELP = "demo", "explain a denied loan in the bundled German credit data"
DESIRED_CLASS = "good"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--row", metavar="N", type=int, help="which applicant, from 0 (default: the first one denied)")
    add_algorithm_option(parser)
    add_seed_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Train, pick a denied applicant, explain."""
    import numpy as np

    from ironrule.cli.render import render_explanation
    from ironrule.cli.terminal import format_line, show_spinner

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
    heading = f"German credit: a decision tree denies {len(denied)} of 1,000 applicants. Why applicant {row}?"
    view = f"{format_line(heading, 'bold')}\n\n{render_explanation(explanation)}"
    return CommandResult(view, explanation.to_dict)


def build_demo_explainer() -> Explainer:
    """An explainer of the demo's model; needs no pandas."""
    from ironrule.explain.explainer import Explainer

    model, features, space = build_demo_model()
    return Explainer(model, features, desired=DESIRED_CLASS, space=space)


def build_demo_model() -> tuple[Any, Any, Space]:
    """The demo's model (one-hot encoding of raw categories, then a small tree), its data and their space."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    from ironrule.data import load_german
    from ironrule.space.space import Space

    features, names, target = load_german(as_frame=False)
    categories = [place for place, value in enumerate(features[0]) if isinstance(value, str)]
    encoder = ColumnTransformer([("categories", OneHotEncoder(), categories)], remainder="passthrough")
    tree = DecisionTreeClassifier(max_depth=8, min_samples_leaf=10, random_state=0)
    return make_pipeline(encoder, tree).fit(features, target), features, Space.infer(features, names=names)
