"""A model turned round: what it calls undesired is sought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.checker.result import ClaimUndecided
from ironrule.checker.user_models import ModelDecision, UserModel, UserModelSet


def negate_models(models: UserModelSet) -> UserModelSet:
    """The set of one model with the opposite decision; raises ClaimUndecided for several."""
    if len(models.members) > 1 or not isinstance(models.primary, UserModel):
        raise ClaimUndecided("several models together have no opposite decision")
    turned = replace(models.primary, decision=_negate_decision(models.primary.decision))
    return UserModelSet(turned, (turned,), turned.decision)


def _negate_decision(decision: ModelDecision) -> ModelDecision:
    return replace(
        decision,
        criterion=partial(_flag_opposite, criterion=decision.criterion),
        desired_name=decision.undesired_name,
        undesired_name=decision.desired_name,
    )


def _flag_opposite(answer: AnyArray, criterion: Callable[[AnyArray], BoolArray]) -> BoolArray:
    return np.logical_not(criterion(answer))
