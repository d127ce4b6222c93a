"""pyGAM's additive models: every column adds a spline, a line or a step per category; the sum goes through a link.

What a column adds is computed by pyGAM's own basis functions, value by value, times their coefficients. The products
above and below zero are kept apart, because the bound on the rounding of a sum needs the sizes of all that is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, Float64Array
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import (
    EXPONENTIAL_RESPONSE,
    IDENTITY_RESPONSE,
    LOGISTIC_RESPONSE,
    Response,
    bound_probability_error,
    build_constant_sum,
    find_crossing,
)
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods

PROBABILITY_ROUNDOFF = 2.0**-46  # of probabilities and exponentials, as NumPy computes them
RESPONSES = {"IdentityLink": IDENTITY_RESPONSE, "LogLink": EXPONENTIAL_RESPONSE, "LogitLink": LOGISTIC_RESPONSE}
REGRESSIONS = ("GAM", "LinearGAM", "PoissonGAM", "GammaGAM", "InvGaussGAM", "ExpectileGAM")
# beyond, exponentials overflow
MAX_SCORES = {IDENTITY_RESPONSE: 1e200, EXPONENTIAL_RESPONSE: 600.0, LOGISTIC_RESPONSE: 600.0}


def read_gam(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of a LogisticGAM, or of another GAM with a threshold; None for anything else."""
    kind = type(estimator)
    if get_library_class_name(estimator, "pygam") not in (*REGRESSIONS, "LogisticGAM"):
        return None
    require_own_methods(estimator, estimator.link, estimator.distribution, estimator.terms)
    require_readable(getattr(estimator, "_is_fitted", False), f"the {kind.__name__} must be fitted first")
    link = type(estimator.link).__name__
    if link not in RESPONSES or getattr(estimator.distribution, "levels", None) not in (None, 1):
        raise Unreadable(f"pyGAM's {link} with this distribution is not read")
    if kind.__name__ == "LogisticGAM":
        return _read_classifier(estimator, desired, threshold)
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    return _read_threshold(estimator, RESPONSES[link], float(threshold))


def _read_classifier(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum:
    """It predicts True where the probability is above one half; a threshold is one on True (1) and False (0)."""
    wanted = [outcome in desired if threshold is None else outcome > threshold for outcome in (False, True)]
    if wanted[0] == wanted[1]:
        return build_constant_sum(wanted[0])
    return _read_threshold(estimator, LOGISTIC_RESPONSE, 0.5, first=wanted[0])


def _read_threshold(estimator: Any, response: Response, threshold: float, *, first: bool = False) -> TreeSum:
    crossed = find_crossing(response, threshold, bound_probability_error(PROBABILITY_ROUNDOFF), first=first)
    if crossed is None:
        return build_constant_sum(threshold < response.minimum)
    cut, wide = crossed
    sign = -1.0 if first else 1.0
    intercept, terms = _read_terms(estimator, sign, MAX_SCORES[response])
    relative = 4 * (len(estimator.coef_) + 8) * DOUBLE_ROUNDOFF  # sums in any order, with or without fused operations
    error = wide + relative * (abs(intercept) + abs(cut))
    return TreeSum(((Margin(sign * (intercept - cut), (LinkedGroup((), terms=terms),), error, relative),),))


def _read_terms(estimator: Any, sign: float, most: float) -> tuple[float, tuple[Term, ...]]:
    """The intercept, and two terms for every other one."""
    coefficients = np.asarray(estimator.coef_, dtype=np.float64)
    require_readable(bool(np.isfinite(coefficients).all()), "a coefficient of the model is not a finite number")
    terms = list(estimator.terms._terms)
    own = [coefficients[estimator.terms.get_coef_indices(place)] for place in range(len(terms))]
    intercept = sum(float(factors[0]) for term, factors in zip(terms, own, strict=True) if term.isintercept)
    width = int(estimator.statistics_["m_features"])
    spline_terms: list[Term] = []
    for term, factors in zip(terms, own, strict=True):
        if not term.isintercept:
            spline_terms += _split_by_sign(term, sign * factors, width, most / len(terms))
    return intercept, tuple(spline_terms)


def _split_by_sign(term: Any, coefficients: Float64Array, width: int, most: float) -> Iterator[Term]:
    if term.istensor or not isinstance(term.feature, (int, np.integer)):
        raise Unreadable("a tensor term of pyGAM mixes columns")
    require_readable(getattr(term, "by", None) is None, "a term of pyGAM with by= mixes columns")
    for positive in (True, False):
        yield Term(int(term.feature), SplineContribution(term, coefficients, width, most, positive))


@dataclass(frozen=True, slots=True, eq=False)
class SplineContribution:
    """What one column adds above zero, or below: the sum of such products of basis functions and coefficients."""

    term: Any
    coefficients: Float64Array
    width: int
    max_size: float
    positive: bool

    def __call__(self, values: AnyArray) -> Float64Array:
        try:
            numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
        except (TypeError, ValueError):
            raise Unreadable("pyGAM takes numbers alone") from None
        require_readable(bool(np.isfinite(numbers).all()), "pyGAM cannot take missing or infinite numbers")
        rows = np.zeros((len(numbers), self.width), dtype=numbers.dtype)
        rows[:, int(self.term.feature)] = numbers
        products = self.term.build_columns(rows).toarray() * self.coefficients
        total = (np.maximum if self.positive else np.minimum)(products, 0.0).sum(axis=1, dtype=np.float64)
        if not (np.abs(total) <= self.max_size).all():
            raise Unreadable("a value lies so far outside of what the model was fitted on that its sums grow too large")
        return np.asarray(total)
