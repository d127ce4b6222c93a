"""What users of SHAP, LIME, anchor-exp, alibi and DiCE type first, and what to type here.

A name of another package is refused like any other that does not exist. But users of that package try it before they
read our pages, so the error says which call does the same (``docs/moving_over.md`` has both side by side).
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])

_RULE = "call explain(row) for a proven rule, ladder(row) for short ones"
_SCORES = "no scores of features are given: explain(row) names those that decide, change_sets(row) those to change"
_CHANGES = "call counterfactuals(row, k=...), or counterfactuals_many(rows) for a table"
_PRECISION = (
    "the verdict is in .verdict: a proven rule has no exception; ladder(row) gives short rules with a bound on theirs"
)
_NOTEBOOK = "the last line of a cell is shown; plot() draws it, to_html('validator', 'why.html') writes a page"
_FILE = "write the text of to_json() to a file, or to_html('validator', 'why.html')"
_FRAME = "call to_frame(), or to_frame(only_changes=True)"

EXPLAINER_HINTS: Mapping[str, str] = {
    "shap_values": _SCORES,
    "expected_value": _SCORES,
    "explain_instance": _RULE,
    "explain_row": _RULE,
    "anchor": _RULE,
    "explain_global": "call explain_many(rows), then find_rule_cover()",
    "fit": "nothing is fitted: Explainer(model, data) has read the model already",
    "generate_counterfactuals": _CHANGES,
    "generate": _CHANGES,
    "counterfactual": _CHANGES,
}
EXPLANATION_HINTS: Mapping[str, str] = {
    "anchor": "the rule is in .rule",
    "names": "the rule is in .rule",
    "as_list": "the parts of the rule are in .rule.components",
    "as_map": "the parts of the rule are in .rule.components",
    "precision": _PRECISION,
    "values": _SCORES,
    "base_values": _SCORES,
    "show_in_notebook": _NOTEBOOK,
    "save": _FILE,
    "save_to_file": _FILE,
}
COUNTERFACTUALS_HINTS: Mapping[str, str] = {
    "cf": "its first one is found[0].values; to_frame() has all",
    "cf_examples_list": _FRAME,
    "final_cfs_df": _FRAME,
    "visualize_as_dataframe": _FRAME,
    "to_pandas": _FRAME,
    "to_dataframe": _FRAME,
    "save": "write the text of to_json() to a file",
}

_KINDS = "the columns say what is a number and what a category; space= corrects it"
KEYWORD_HINTS: Mapping[str, tuple[str, str]] = {  # our keyword, where it takes its place, and what to say
    "categorical_names": ("space", _KINDS),
    "categorical_features": ("space", _KINDS),
    "continuous_features": ("space", _KINDS),
    "feature_names": ("columns", "pass a table whose columns have names, such as a pandas DataFrame"),
    "class_names": ("labels", "labels= says how classes are called"),
    "target_names": ("labels", "labels= says how classes are called"),
    "outcome_name": ("desired", "pass the table without the outcome; desired= names the desired class"),
    "link": ("desired", "decisions are explained, not scores; desired= names the desired class"),
    "predict_fn": ("", "pass the fitted model itself, as the first argument"),
    "total_CFs": ("k", "say k=..."),
    "total_cfs": ("k", "say k=..."),
    "num_cfs": ("k", "say k=..."),
    "desired_class": ("target", "say target=..., or desired=... when the explainer is made"),
    "desired_range": ("target", "say target=ironrule.Target(above=..., at_most=...)"),
    "target_proba": ("target", "say target=ironrule.Target(above=...)"),
    "vary": ("features_to_vary", "say features_to_vary=[...]"),
    "immutable": ("features_to_vary", "say features_to_vary=[...], or roles={'age': 'immutable'} of the explainer"),
    "immutable_features": (
        "features_to_vary",
        "say features_to_vary=[...], or roles={'age': 'immutable'} of the explainer",
    ),
    "range": ("permitted_range", "say permitted_range={'age': [18, 60]}"),
    "ranges": ("permitted_range", "say permitted_range={'age': [18, 60]}"),
    "feature_range": ("permitted_range", "say permitted_range={'age': [18, 60]}"),
    "distance_fn": ("cost", "say cost='l1', 'l2' or 'linf'"),
    "feature_weights": ("cost", "say cost=ironrule.Cost('l1', prices={'age': 2})"),
    "method": ("algorithm", "say algorithm=..."),
    "precision": ("at_least", "say at_least=..."),
    "threshold": (
        "",
        "a rule of explain has no exception; ladder(row, at_least=0.95) gives short ones that have few",
    ),
    "delta": ("confidence", "say confidence=..."),
    "random_state": ("seed", "say seed=..."),
    "random_seed": ("seed", "say seed=..."),
    "n_jobs": ("workers", "say workers=..."),
    "timeout": ("budget", "say budget=... in seconds"),
    "time_limit": ("budget", "say budget=... in seconds"),
    "seconds": ("budget", "say budget=... in seconds"),
    "verbose": ("progress", "say progress=True"),
}


def get_other_attribute(value: object, name: str, hints: Mapping[str, str]) -> Any:
    """For ``__getattr__``: raise AttributeError, with what to do for a name that another package has.

    What else is asked for is looked up once more, so that the error of a property is not replaced by another.
    """
    if name in hints:
        statement = f"{type(value).__name__!r} object has no attribute {name!r}; {hints[name]}"
        raise AttributeError(statement, name=name, obj=value)
    return object.__getattribute__(value, name)


def build_keyword_error(called: str, name: str, known: Collection[str]) -> TypeError:
    """The error for a keyword argument that a method does not have, with the one that is likely meant.

    >>> print(build_keyword_error("counterfactuals", "total_CFs", ["k", "seed"]))
    counterfactuals() got an unexpected keyword argument 'total_CFs'; say k=...
    >>> print(build_keyword_error("explain", "algorythm", ["k", "algorithm"]))
    explain() got an unexpected keyword argument 'algorythm'; did you mean algorithm=...?
    """
    statement = f"{called}() got an unexpected keyword argument {name!r}"
    ours, hint = KEYWORD_HINTS.get(name, ("", ""))
    if hint and (not ours or ours in known):
        return TypeError(f"{statement}; {hint}")
    close = difflib.get_close_matches(name, known, 1)
    return TypeError(f"{statement}; did you mean {close[0]}=...?" if close else statement)


def explain_wrong_arguments(positional_hint: str = "") -> Callable[[_Method], _Method]:
    """Let a method say what to do about keywords that it does not have, and about too many arguments by position."""

    def decorate(method: _Method) -> _Method:
        parameters = inspect.signature(method).parameters.values()
        known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
        most = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)

        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs.keys() - known:
                raise build_keyword_error(method.__qualname__, name, known)
            if len(args) > most and positional_hint:
                given = f"takes {most} positional arguments but {len(args)} were given"
                raise TypeError(f"{method.__qualname__}() {given}; {positional_hint}")
            return method(*args, **kwargs)

        return cast(_Method, checked)

    return decorate
