"""The functions that turn the sum of a regression into its answer: rising ones, and where each passes a threshold.

A general regression names its link function g, so its mean is the inverse of g at the sum; a ``normalizationMethod`` is
that inverse already. All are computed here by formulas that lose little near 0: each answer p is right to within NOISE
times 1 + abs(p). ``logc`` falls, so it is taken at the sum with the other sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ironrule.arrays import Float64Array

NOISE = 2.0**-46  # 128 units of rounding of the number 1


@dataclass(frozen=True, slots=True)
class AnswerLink:
    """``apply`` gives answers for sums; ``invert`` the sum of an answer between ``low`` and ``high``, about.

    With ``falls`` both are of the sum with the other sign, so that they rise.
    """

    apply: Callable[[Float64Array], Float64Array]
    invert: Callable[[float], float]
    low: float = 0.0
    high: float = 1.0
    falls: bool = False

    def evaluate(self, sums: Float64Array) -> Float64Array:
        """The answers for the sums of a model."""
        with np.errstate(over="ignore"):
            return np.asarray(self.apply(-sums if self.falls else sums))


def apply_logistic(values: Float64Array) -> Float64Array:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)))


def _apply_probit(sums: Float64Array) -> Float64Array:
    return np.array([0.5 * math.erfc(-number / math.sqrt(2.0)) for number in np.ravel(sums).tolist()])


def _apply_cauchit(sums: Float64Array) -> Float64Array:
    return np.asarray(0.5 + np.arctan(sums) / math.pi)


LINKS: dict[str, AnswerLink] = {
    "none": AnswerLink(lambda sums: sums, lambda answer: answer, -math.inf, math.inf),
    "exp": AnswerLink(np.exp, math.log, 0.0, math.inf),
    "logit": AnswerLink(apply_logistic, lambda p: math.log(p) - math.log1p(-p)),
    "probit": AnswerLink(_apply_probit, lambda p: NormalDist().inv_cdf(p)),
    "cloglog": AnswerLink(lambda sums: -np.expm1(-np.exp(sums)), lambda p: math.log(-math.log1p(-p))),
    "loglog": AnswerLink(lambda sums: np.exp(-np.exp(-sums)), lambda p: -math.log(-math.log(p))),
    "cauchit": AnswerLink(_apply_cauchit, lambda p: math.tan(math.pi * (p - 0.5))),
    "logc": AnswerLink(lambda sums: -np.expm1(-sums), lambda answer: -math.log1p(-answer), -math.inf, 1.0, falls=True),
}
INVERSES = {  # of the link functions of a general regression
    "identity": "none",
    "log": "exp",
    **{name: name for name in ("logit", "probit", "cloglog", "loglog", "cauchit", "logc")},
}


def find_crossing(name: str, threshold: float, off: float = 0.0) -> tuple[float, float] | None:
    """Where the sum (of a falling link: the sum with the other sign) passes a threshold on the answer, and how far off
    that may be if the answer is off by ``off`` besides its own rounding.

    The sum is infinite where all answers are on one side of the threshold; None where that cannot be told, since the
    threshold is too near the end of what the link answers.
    """
    link = LINKS[name]
    noise = 8 * (off + NOISE * (1.0 + abs(threshold)))
    beyond = noise if off else 0.0
    if threshold < link.low - beyond or threshold >= link.high + beyond:
        return (-math.inf if threshold < link.low else math.inf), 0.0
    if not link.low < threshold - noise < threshold + noise < link.high:
        return None
    low, high = link.invert(threshold - noise), link.invert(threshold + noise)
    below, above = link.apply(np.array([low, high])).tolist()
    # answers rise and each is right to an eighth of the noise: up to `low` all are below, from `high` on above
    apart = below <= threshold - noise / 2 and above >= threshold + noise / 2
    if not (math.isfinite(low) and math.isfinite(high) and apart):
        return None
    return (low + high) / 2, (high - low) / 2 + 4 * NOISE * (abs(low) + abs(high)) + 1e-290
