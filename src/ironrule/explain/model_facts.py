"""What a validator's report says of the model (its type, its library, and the score of the row beside the threshold),
and the libraries that explanations are made with.

Scores are shown and prove nothing; a classifier's labels need not follow its probabilities. So a threshold is named
only where it explains the outcomes of the row and of past rows (of many of them a selection).
"""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import ironrule
from ironrule.arrays import Points
from ironrule.errors import InputError
from ironrule.explain.context import ExplainerContext
from ironrule.model.blackbox import BlackBox
from ironrule.model.decision import DEFAULT_THRESHOLD
from ironrule.results.background import ModelFacts

MAX_COMPARED_ROWS = 2_000
TOLERANCE = 1e-9  # within which a score counts as equal to the threshold: either outcome may follow
DISTRIBUTIONS = {"sklearn": "scikit-learn", "interpret": "interpret-core"}  # by package, where these differ
CORE_LIBRARIES = ("numpy", "numba", "scikit-learn")
OPTIONAL_LIBRARIES = ("xgboost", "lightgbm", "catboost", "interpret-core", "pygam", "onnxruntime", "torch")


def describe_model(context: ExplainerContext, instance: Points) -> ModelFacts:
    """The facts about a model and one row, given as codes."""
    model, box = context.arguments.models[0], context.model.primary
    score, threshold, meaning = _find_score(context, box, instance)
    return ModelFacts(_name_type(model), _list_libraries(model), score, threshold, meaning)


def _list_steps(model: Any) -> list[Any]:
    """The steps of a pipeline; of another model, itself."""
    steps = getattr(model, "steps", None)
    is_pipeline = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    return [step for _, step in steps] if is_pipeline and steps else [model]


def _name_type(model: Any) -> str:
    """What kind of model it is, with the steps of a pipeline."""
    names = [getattr(step, "__name__", type(step).__name__) for step in _list_steps(model)]
    return f"{type(model).__name__} of {', '.join(names)}" if _list_steps(model) != [model] else names[0]


def _list_libraries(model: Any) -> tuple[tuple[str, str], ...]:
    """The libraries that the model's classes come from, with their versions."""
    packages = dict.fromkeys(type(step).__module__.partition(".")[0] for step in [model, *_list_steps(model)])
    names = [DISTRIBUTIONS.get(package, package) for package in packages]
    return tuple((name, version) for name in names if (version := find_version(name)) is not None)


def _find_score(
    context: ExplainerContext, box: BlackBox, instance: Points
) -> tuple[float | None, float | None, str | None]:
    """The score of the row, the threshold that it is compared with, and what the score is; None where there is none."""
    codes = context.history.codes
    places = np.unique(np.linspace(0, len(codes) - 1, min(len(codes), MAX_COMPARED_ROWS)).astype(np.int64))
    points = np.concatenate([instance[None, :], codes.points(places)])
    try:
        ahead = box.scores(points)
    except InputError as error:
        if error.code != "scores-required":
            raise
        return None, None, None
    score, target = box.score, context.target
    assert score is not None  # scores() has read it
    outcomes = np.concatenate([[False], context.outcomes[places]])
    explains = bool((((ahead > 0) == outcomes) | (np.abs(ahead) <= TOLERANCE)).all()) and not context.is_robust
    has_probabilities = getattr(score.ask, "__name__", "") == "predict_proba"
    own, is_lead = float(ahead[0]), score.wanted is not None and score.threshold is None
    if is_lead and has_probabilities and len(getattr(context.arguments.models[0], "classes_", ())) == 2:
        value, threshold, meaning = (1.0 + own) / 2.0, 0.5, "probability of the desired outcome"
    elif is_lead:
        value, threshold, meaning = own, 0.0, "how far the desired classes are ahead of the others"
    else:
        threshold = DEFAULT_THRESHOLD if score.threshold is None else float(score.threshold)
        value = threshold + own if target.direction == "above" and score.direction == "above" else threshold - own
        meaning = "probability of the desired outcome" if has_probabilities and score.wanted is not None else "score"
    return value, threshold if explains else None, meaning


@lru_cache(maxsize=1)
def _list_core_versions() -> tuple[tuple[str, str], ...]:
    own = (("ironrule", ironrule.__version__), ("Python", platform.python_version()))
    return (*own, *((name, version(name)) for name in CORE_LIBRARIES))


def list_library_versions() -> tuple[tuple[str, str], ...]:
    """The libraries that explanations are made with here, and their versions."""
    loaded = (name for name in OPTIONAL_LIBRARIES if name.removesuffix("-core") in sys.modules)
    return (*_list_core_versions(), *((name, found) for name in loaded if (found := find_version(name)) is not None))


def find_version(name: str) -> str | None:
    """The version of a distribution; None where there is none of that name."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
