"""What the methods about counterfactuals have in common is listed once, and shown at each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ironrule import Explainer
from ironrule.explain.counterfactuals.options import ChangeArguments, ChangeGoal, ChangeLimits, ChangeOptions

LIMITS, GOAL = set(ChangeLimits.__annotations__), set(ChangeGoal.__annotations__)
METHODS: list[tuple[Callable[..., Any], set[str]]] = [
    (Explainer.counterfactuals, {"algorithm", "features_to_vary", *LIMITS, *GOAL}),
    (Explainer.counterfactuals_many, {"algorithm", "features_to_vary", *LIMITS, *GOAL}),
    (Explainer.diverse_counterfactuals, {"features_to_vary", *LIMITS}),
    (Explainer.past_counterfactuals, {"features_to_vary", *LIMITS}),
    (Explainer.change_menu, {"features_to_vary", *LIMITS, *GOAL}),
    (Explainer.group_changes, {*LIMITS, *GOAL}),
    (Explainer.find_forbidding_restrictions, {"features_to_vary", *LIMITS, *GOAL}),
    (Explainer.change_sets, {"features_to_vary", *GOAL}),
]


@pytest.mark.parametrize(("method", "expected"), METHODS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_signature_names_every_option_with_its_default(method: Callable[..., Any], expected: set[str]) -> None:
    defaults = ChangeOptions().to_kwargs() | {"permitted_range": None}
    shown = inspect.signature(method).parameters
    assert {name for name in shown if name in defaults} == expected
    assert {name: shown[name].default for name in expected} == {name: defaults[name] for name in expected}
    assert all(shown[name].kind is inspect.Parameter.KEYWORD_ONLY for name in expected)
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in shown.values())


def test_the_common_arguments_are_all_that_a_search_can_be_told() -> None:
    assert {"algorithm", "features_to_vary", *ChangeArguments.__annotations__} == set(ChangeOptions.__slots__)
    assert {"Mapping[str, Sequence[Value]] | None", "Cost | str"} <= {
        parameter.annotation for parameter in inspect.signature(Explainer.change_menu).parameters.values()
    }


@pytest.mark.parametrize("option", ["permitted_ranges", "permitted_range", "algorithm"])
def test_an_option_that_a_method_does_not_have_is_refused_by_its_name(option: str) -> None:
    nobody: Any = object()
    with pytest.raises(TypeError, match=rf"change_sets\(\) got an unexpected keyword argument '{option}'"):
        Explainer.change_sets(nobody, 0, **{option: {}})
