"""ironrule demo: explain a denied loan in the German credit data that comes with Ironrule.

100 boosted trees on one-hot encoded columns are trained on half of 1,000 applications. They deny an applicant from the
other half. The demo explains this by a short rule with a bound on its exceptions, by the whole proven rule on the
original columns, and by changes that would have reversed the decision. With --model tree, a decision tree decides; its
proven rules are short:

  ironrule demo --model tree
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironrule.cli.commands.explain import build_shown_ladder
from ironrule.cli.options import add_algorithm_option, add_seed_option, build_search_options
from ironrule.cli.output import CommandResult
from ironrule.cli.terminal import format_line, show_spinner
from ironrule.errors import InputError, OutcomeError

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.space.space import Space


NAME, HELP = "demo", "explain a denied loan in the bundled German credit data"
DESIRED_CLASS = "good"
BOOSTING_ROW = 22  # not among those that the model is trained on
LEAST_PROBABILITY = 5 / 6  # of a good loan: a bad one costs five times as much, says the data's author


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    text = "boosted trees (default), or a decision tree, whose rules are shorter"
    parser.add_argument("--model", choices=("boosting", "tree"), default="boosting", help=text)
    text = f"which applicant, from 0 (default: {BOOSTING_ROW}; with --model tree: the first one denied)"
    parser.add_argument("--row", metavar="N", type=int, help=text)
    add_algorithm_option(parser)
    add_seed_option(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Train, pick a denied applicant, explain."""
    import numpy as np

    from ironrule.cli.render import render_explanation, render_explanation_with_short_rule

    is_tree = options.model == "tree"
    explainer = build_demo_explainer() if is_tree else build_boosting_explainer()
    denied = np.flatnonzero(~explainer.outcomes).tolist()
    row = options.row
    if row is None:
        row = denied[0] if is_tree else BOOSTING_ROW
    if not 0 <= row < len(explainer.outcomes):
        raise InputError(expected=f"the row number must be from 0 to {len(explainer.outcomes) - 1}", got=row)
    if row not in denied:
        nearest = min(denied, key=lambda other: abs(other - row))
        raise OutcomeError(
            f"the model does not deny applicant {row}", hint=f"it denies applicant {nearest}", code="row-not-denied"
        )
    search = build_search_options(options)
    with show_spinner():
        ladder = build_shown_ladder(explainer, row, options, search)
        explanation = explainer.explain(row, **search.to_kwargs()) if ladder is None else ladder.explanation
    model = "a decision tree denies" if is_tree else "100 boosted trees deny"
    heading = f"German credit: {model} {len(denied)} of 1,000 applicants. Why applicant {row}?"
    shown = render_explanation(explanation) if ladder is None else render_explanation_with_short_rule(ladder)
    return CommandResult(f"{format_line(heading, 'bold')}\n\n{shown}", explanation.to_dict)


def build_boosting_explainer() -> Explainer:
    """An explainer of the boosted trees; ladders are measured on rows that these do not know."""
    from ironrule.explain.explainer import Explainer

    model, features, space, is_fresh = build_boosting_model()
    return Explainer(model, features, desired=DESIRED_CLASS, space=space, measure=is_fresh)


def build_boosting_model() -> tuple[Any, Any, Space, Any]:
    """Boosted trees trained on half of the data, the data, its space, and which rows are the other half."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    from ironrule.data import load_german
    from ironrule.space.space import Space

    features, names, target = load_german(as_frame=False)
    trained, fresh = train_test_split(np.arange(len(features)), train_size=0.5, random_state=0)
    categories = [place for place, value in enumerate(features[0]) if isinstance(value, str)]
    model = make_boosting_model(categories).fit(features[trained], target[trained])
    return model, features, Space.infer(features, names=names), np.isin(np.arange(len(features)), fresh)


def make_boosting_model(categories: Sequence[str] | Sequence[int]) -> Any:
    """Boosted trees that approve loans which are good with a high probability; not fitted yet.

    ``categories`` are the columns with categories, by name or place.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer([("categories", encoder, categories)], remainder="passthrough")
    trees = make_pipeline(columns, GradientBoostingClassifier(max_depth=2, random_state=0))
    return FixedThresholdClassifier(trees, threshold=LEAST_PROBABILITY, pos_label=DESIRED_CLASS)


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
