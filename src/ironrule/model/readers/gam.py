"""pyGAM's additive models: every column adds a spline, a line or a step per category; the sum goes through a link.

What a column adds is computed by pyGAM's own basis functions, value by value, times their coefficients. The products
above and below zero are kept apart, because the bound on the rounding of a sum needs the sizes of all that is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.readers.boosting import (
    ALWAYS,
    DOUBLE,
    EXPONENTIAL,
    IDENTITY,
    LOGISTIC,
    NEVER,
    Response,
    crossing,
    noise_of,
)
from ironrule.model.readers.library_class import library_name, require_own_methods
from ironrule.model.reading import Floats, Group, Margin, Reading, Term, Unreadable

UNIT = 2.0**-46  # of probabilities and exponentials, as NumPy computes them
RESPONSES = {"IdentityLink": IDENTITY, "LogLink": EXPONENTIAL, "LogitLink": LOGISTIC}
REGRESSIONS = ("GAM", "LinearGAM", "PoissonGAM", "GammaGAM", "InvGaussGAM", "ExpectileGAM")
MOST = {IDENTITY: 1e200, EXPONENTIAL: 600.0, LOGISTIC: 600.0}  # beyond, exponentials overflow


def read_gam(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Reading | None:
    """The reading of a LogisticGAM, or of another GAM with a threshold; None for anything else."""
    kind = type(estimator)
    if library_name(estimator, "pygam") not in (*REGRESSIONS, "LogisticGAM"):
        return None
    require_own_methods(estimator, estimator.link, estimator.distribution, estimator.terms)
    if not getattr(estimator, "_is_fitted", False):
        raise Unreadable(f"the {kind.__name__} must be fitted first")
    link = type(estimator.link).__name__
    if link not in RESPONSES or getattr(estimator.distribution, "levels", None) not in (None, 1):
        raise Unreadable(f"pyGAM's {link} with this distribution is not read")
    if kind.__name__ == "LogisticGAM":
        return _classifier(estimator, desired, threshold)
    if threshold is None or desired:
        raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
    return _above(estimator, RESPONSES[link], float(threshold))


def _classifier(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Reading:
    """It predicts True where the probability is above one half; a threshold is one on True (1) and False (0)."""
    wanted = [outcome in desired if threshold is None else outcome > threshold for outcome in (False, True)]
    if wanted[0] == wanted[1]:
        return ALWAYS if wanted[0] else NEVER
    return _above(estimator, LOGISTIC, 0.5, first=wanted[0])


def _above(estimator: Any, response: Response, threshold: float, *, first: bool = False) -> Reading:
    crossed = crossing(response, threshold, noise_of(UNIT), first=first)
    if crossed is None:
        return ALWAYS if threshold < response.least else NEVER
    cut, wide = crossed
    sign = -1.0 if first else 1.0
    intercept, terms = _parts(estimator, sign, MOST[response])
    relative = 4 * (len(estimator.coef_) + 8) * DOUBLE  # sums in any order, with or without fused operations
    error = wide + relative * (abs(intercept) + abs(cut))
    return Reading(((Margin(sign * (intercept - cut), (Group((), terms=terms),), error, relative),),))


def _parts(estimator: Any, sign: float, most: float) -> tuple[float, tuple[Term, ...]]:
    """The intercept, and two terms for every other one."""
    coefficients = np.asarray(estimator.coef_, dtype=np.float64)
    if not np.isfinite(coefficients).all():
        raise Unreadable("a coefficient of the model is not a finite number")
    terms = list(estimator.terms._terms)
    own = [coefficients[estimator.terms.get_coef_indices(place)] for place in range(len(terms))]
    intercept = sum(float(some[0]) for term, some in zip(terms, own, strict=True) if term.isintercept)
    width = int(estimator.statistics_["m_features"])
    found: list[Term] = []
    for term, some in zip(terms, own, strict=True):
        if not term.isintercept:
            found += _two(term, sign * some, width, most / len(terms))
    return intercept, tuple(found)


def _two(term: Any, coefficients: Floats, width: int, most: float) -> Iterator[Term]:
    if term.istensor or not isinstance(term.feature, (int, np.integer)):
        raise Unreadable("a tensor term of pyGAM mixes columns")
    if getattr(term, "by", None) is not None:
        raise Unreadable("a term of pyGAM with by= mixes columns")
    for positive in (True, False):
        yield Term(int(term.feature), Products(term, coefficients, width, most, positive))


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """What one column adds above zero, or below: the sum of such products of basis functions and coefficients."""

    term: Any
    coefficients: Floats
    width: int
    most: float
    positive: bool

    def __call__(self, values: npt.NDArray[Any]) -> Floats:
        try:
            numbers = values if values.dtype.kind == "f" else values.astype(np.float64)
        except (TypeError, ValueError):
            raise Unreadable("pyGAM takes numbers alone") from None
        if not np.isfinite(numbers).all():
            raise Unreadable("pyGAM cannot take missing or infinite numbers")
        rows = np.zeros((len(numbers), self.width), dtype=numbers.dtype)
        rows[:, int(self.term.feature)] = numbers
        products = self.term.build_columns(rows).toarray() * self.coefficients
        total = (np.maximum if self.positive else np.minimum)(products, 0.0).sum(axis=1, dtype=np.float64)
        if not (np.abs(total) <= self.most).all():
            raise Unreadable("a value lies so far outside of what the model was fitted on that its sums grow too large")
        return np.asarray(total)
