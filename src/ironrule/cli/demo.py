"""ironrule demo: explain a denied loan in the German credit data that comes with Ironrule.

A decision tree behind a one-hot encoding is trained on 1,000 applications, and the first applicant that it denies is
explained: by a rule in terms of the raw columns, and by the changes that would have turned the decision.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ironrule.cli.options import add_algorithm, add_json, add_seed
from ironrule.errors import InputError, OutcomeError

if TYPE_CHECKING:
    from ironrule.cli.answer import Answer
    from ironrule.explain import Explainer
    from ironrule.space import Space

NAME, HELP = "demo", "explain a denied loan in the bundled German credit data"
DESIRED = "good"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--row", metavar="N", type=int, help="which applicant, from 0 (default: the first one denied)")
    add_algorithm(parser)
    add_seed(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> Answer:
    """Train, pick a denied applicant, explain."""
    import numpy as np
    from rich.console import Group

    from ironrule.cli.answer import Answer
    from ironrule.cli.show import explanation_view, heading, searching

    explainer = demo_explainer()
    denied = np.flatnonzero(~explainer.outcomes).tolist()
    row = denied[0] if options.row is None else options.row
    if not 0 <= row < len(explainer.outcomes):
        raise InputError(expected=f"the row number must be from 0 to {len(explainer.outcomes) - 1}", got=row)
    if row not in denied:
        nearest = min(denied, key=lambda other: abs(other - row))
        raise OutcomeError(
            f"the model does not deny applicant {row}", hint=f"it denies applicant {nearest}", code="row-not-denied"
        )
    with searching():
        explanation = explainer.explain(row, options.algorithm, seed=options.seed)
    told = heading(f"German credit: a decision tree denies {len(denied)} of 1,000 applicants. Why applicant {row}?")
    return Answer(Group(told, explanation_view(explanation)), explanation.to_dict)


def demo_explainer() -> Explainer:
    """An explainer of the demo's model; needs no pandas."""
    from ironrule.explain import Explainer

    model, features, space = demo_model()
    return Explainer(model, features, desired=DESIRED, space=space)


def demo_model() -> tuple[Any, Any, Space]:
    """The demo's model, its data and their space."""
    from ironrule.data import load_german
    from ironrule.space import Space

    features, names, target = load_german(as_frame=False)
    return _trained(features, target), features, Space.infer(features, names=names)


def _trained(features: Any, target: Any) -> Any:
    """A pipeline on raw categories: one-hot encoding, then a small tree."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    categories = [place for place, value in enumerate(features[0]) if isinstance(value, str)]
    encoder = ColumnTransformer([("categories", OneHotEncoder(), categories)], remainder="passthrough")
    tree = DecisionTreeClassifier(max_depth=8, min_samples_leaf=10, random_state=0)
    return make_pipeline(encoder, tree).fit(features, target)
