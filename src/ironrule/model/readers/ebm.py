"""Explainable boosting machines of the interpret package: an intercept and tables of scores, one per term.

A term looks up the bin of a column, or of two or more together. Bin 0 is for missing, then come the bins between cuts
(a value on a cut belongs to the upper one) or the categories by their text, and the last is for unknown categories.
The scores are added in the order of terms in float64, and the link makes probabilities of them as in
:mod:`ironrule.model.readers.boosting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.model.lookups import Lookup, Places, tree_of
from ironrule.model.readers.boosting import (
    DOUBLE,
    EXPONENTIAL,
    IDENTITY,
    LOGISTIC,
    Score,
    above,
    add_up,
    largest,
    noise_of,
    places_of,
    sigmoids_above,
    softmax_above,
)
from ironrule.model.readers.library_class import library_name, require_own_methods
from ironrule.model.reading import Reading, Unreadable
from ironrule.space.feature import is_missing

UNIT = 2.0**-44  # of probabilities: interpret has an exponential of its own
CLASSIFIERS = ("ExplainableBoostingClassifier", "DPExplainableBoostingClassifier")
REGRESSORS = ("ExplainableBoostingRegressor", "DPExplainableBoostingRegressor")
EXACT = 2.0**53  # whole numbers below are themselves in float64
RESPONSES = {"identity": IDENTITY, "log": EXPONENTIAL}


def read_ebm(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Reading | None:
    """The reading of an explainable boosting machine; None for anything else."""
    kind = type(estimator)
    if library_name(estimator, "interpret") not in CLASSIFIERS + REGRESSORS:
        return None
    require_own_methods(estimator)
    if not hasattr(estimator, "term_scores_"):
        raise Unreadable(f"the {kind.__name__} must be fitted first")
    link = str(estimator.link_)
    if kind.__name__ in CLASSIFIERS:
        return _classifier(estimator, link, desired, threshold)
    if threshold is None or desired or link not in RESPONSES:
        raise Unreadable("a regressor is read where one prediction is compared with a threshold, which must be given")
    return above(_scores(estimator)[0], RESPONSES[link], threshold, noise_of(UNIT))


def _classifier(estimator: Any, link: str, desired: tuple[Any, ...], threshold: float | None) -> Reading:
    wanted, count = places_of(estimator, desired), len(estimator.classes_)
    if link not in ("logit", "mlogit", "vlogit"):
        raise Unreadable(f"interpret's link {link} of {count} classes is not read")
    scores = _scores(estimator)
    if link == "logit" and count == 2 and len(wanted) == 1:
        level = 0.5 if threshold is None else threshold
        return above(scores[0], LOGISTIC, level, noise_of(UNIT), first=wanted == [0])
    if len(scores) != count:
        raise Unreadable(f"{len(scores)} scores for {count} classes are not one decision")
    if threshold is None:
        return largest(scores, wanted, 0.0)
    return (softmax_above if link == "mlogit" else sigmoids_above)(scores, wanted, threshold, UNIT)


def _scores(estimator: Any) -> list[Score]:
    """Per class, or for the one number, its intercept and a tree for every term."""
    intercepts = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    tables = [np.asarray(table, dtype=np.float64) for table in estimator.term_scores_]
    if not all(np.isfinite(table).all() for table in (intercepts, *tables)):
        raise Unreadable("the scores of its terms must be finite")
    sums = []
    for place, intercept in enumerate(intercepts.tolist()):
        trees = [
            tree_of(_lookups(estimator, columns), table if table.ndim == len(columns) else table[..., place])
            for columns, table in zip(estimator.term_features_, tables, strict=True)
        ]
        sums.append(add_up(intercept, trees, DOUBLE))
    return sums


def _lookups(estimator: Any, columns: tuple[int, ...]) -> list[Lookup]:
    """How a term finds its bins; where a column has coarser ones for terms of several columns, these."""
    lookups = []
    for column in columns:
        levels = estimator.bins_[column]
        bins = levels[min(len(levels), len(columns)) - 1]
        continuous = not isinstance(bins, dict)
        lookups.append(Lookup(int(column), Cuts(bins) if continuous else Categories(dict(bins)), continuous))
    return lookups


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The bins of a continuous column."""

    cuts: npt.NDArray[np.float64]

    def __call__(self, values: npt.NDArray[Any]) -> Places:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise Unreadable("a continuous column must hold numbers") from None
        return np.where(np.isnan(numbers), 0, np.searchsorted(self.cuts, numbers, "right") + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Categories:
    """The bins of a nominal or ordinal column, by the texts of its values."""

    bins: dict[str, int]

    def __call__(self, values: npt.NDArray[Any]) -> Places:
        return np.array([self._place(value) for value in values.tolist()], dtype=np.intp)

    def _place(self, value: Any) -> int:
        if is_missing(value):
            return 0
        unknown = max(self.bins.values(), default=0) + 1
        return self.bins.get(value if isinstance(value, str) else self._text(value), unknown)

    def _text(self, value: Any) -> str:
        """The text of a number; where versions of the library differ about it, the model is not read."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or {"True", "False"} & set(self.bins):
            raise Unreadable(f"a category must be a string or a number, got {value!r}; make it a string")
        if not abs(value) < EXACT:
            raise Unreadable(f"the category {value!r} is too large to be told from others; make it a string")
        text, short = _plain(float(value)), _plain(np.float32(value))
        if text not in self.bins and short in self.bins:
            raise Unreadable(f"the category {value!r} may be known as {short!r}; make it a string")
        return text


def _plain(number: float | np.float32) -> str:
    return str(number + type(number)(0)).removesuffix(".0")
