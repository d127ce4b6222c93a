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

from ironrule.arrays import AnyArray, Float64Array, IntpArray
from ironrule.model.model_input import MAX_EXACT_INTEGER
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.splits import Lookup, build_table_tree
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers import boosting
from ironrule.model.readers.library_class import get_library_class_name, require_own_methods
from ironrule.space.feature import is_missing

PROBABILITY_ROUNDOFF = 2.0**-44  # of probabilities: interpret has an exponential of its own
CLASSIFIERS = ("ExplainableBoostingClassifier", "DPExplainableBoostingClassifier")
REGRESSORS = ("ExplainableBoostingRegressor", "DPExplainableBoostingRegressor")
RESPONSES = {"identity": boosting.IDENTITY_RESPONSE, "log": boosting.EXPONENTIAL_RESPONSE}


def read_ebm(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of an explainable boosting machine; None for anything else."""
    kind = type(estimator)
    if get_library_class_name(estimator, "interpret") not in CLASSIFIERS + REGRESSORS:
        return None
    require_own_methods(estimator)
    require_readable(hasattr(estimator, "term_scores_"), f"the {kind.__name__} must be fitted first")
    link = str(estimator.link_)
    if kind.__name__ in CLASSIFIERS:
        return _read_classifier(estimator, link, desired, threshold)
    return boosting.read_prediction(
        _read_scores(estimator), RESPONSES.get(link), desired, threshold, PROBABILITY_ROUNDOFF
    )


def _read_classifier(estimator: Any, link: str, desired: tuple[Any, ...], threshold: float | None) -> TreeSum:
    wanted, count = boosting.find_class_positions(estimator, desired), len(estimator.classes_)
    require_readable(link in ("logit", "mlogit", "vlogit"), f"interpret's link {link} of {count} classes is not read")
    scores = _read_scores(estimator)
    if link == "logit" and count == 2 and len(wanted) == 1:
        return boosting.read_two_classes(scores[0], boosting.LOGISTIC_RESPONSE, wanted, threshold, PROBABILITY_ROUNDOFF)
    require_readable(len(scores) == count, f"{len(scores)} scores for {count} classes are not one decision")
    return boosting.read_class_scores(
        scores, wanted, threshold, PROBABILITY_ROUNDOFF, tie=0.0, own_sigmoids=link != "mlogit"
    )


def _read_scores(estimator: Any) -> list[boosting.BoostedScore]:
    """Per class, or for the one number, its intercept and a tree for every term."""
    intercepts = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    tables = [np.asarray(table, dtype=np.float64) for table in estimator.term_scores_]
    if not all(np.isfinite(table).all() for table in (intercepts, *tables)):
        raise Unreadable("the scores of its terms must be finite")
    sums = []
    for place, intercept in enumerate(intercepts.tolist()):  # a class each, the last axis of a table
        trees = [
            build_table_tree(
                _build_lookups(estimator, columns), table if table.ndim == len(columns) else table[..., place]
            )
            for columns, table in zip(estimator.term_features_, tables, strict=True)
        ]
        sums.append(boosting.sum_trees(intercept, trees, DOUBLE_ROUNDOFF))
    return sums


def _build_lookups(estimator: Any, columns: tuple[int, ...]) -> list[Lookup]:
    """How a term finds its bins; where a column has coarser ones for terms of several columns, these."""
    lookups = []
    for column in columns:
        levels = estimator.bins_[column]
        bins = levels[min(len(levels), len(columns)) - 1]
        continuous = not isinstance(bins, dict)
        locate = ContinuousBins(bins) if continuous else CategoryBins(dict(bins))
        lookups.append(Lookup(int(column), locate, continuous))
    return lookups


@dataclass(frozen=True, slots=True, eq=False)
class ContinuousBins:
    """The bins of a continuous column."""

    cuts: Float64Array

    def __call__(self, values: AnyArray) -> IntpArray:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise Unreadable("a continuous column must hold numbers") from None
        return np.where(np.isnan(numbers), 0, np.searchsorted(self.cuts, numbers, "right") + 1)


@dataclass(frozen=True, slots=True, eq=False)
class CategoryBins:
    """The bins of a nominal or ordinal column, by the texts of its values."""

    bins: dict[str, int]

    def __call__(self, values: AnyArray) -> IntpArray:
        return np.array([self._find_bin(value) for value in values.tolist()], dtype=np.intp)

    def _find_bin(self, value: Any) -> int:
        if is_missing(value):
            return 0
        unknown = max(self.bins.values(), default=0) + 1
        return self.bins.get(value if isinstance(value, str) else self._format_category(value), unknown)

    def _format_category(self, value: Any) -> str:
        """The text of a number; where versions of the library differ about it, the model is not read."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or {"True", "False"} & set(self.bins):
            raise Unreadable(f"a category must be a string or a number, got {value!r}; make it a string")
        if not abs(value) < MAX_EXACT_INTEGER:
            raise Unreadable(f"the category {value!r} is too large to be told from others; make it a string")
        text, short = _format_number(float(value)), _format_number(np.float32(value))
        if text not in self.bins and short in self.bins:
            raise Unreadable(f"the category {value!r} may be known as {short!r}; make it a string")
        return text


def _format_number(number: float | np.float32) -> str:
    return str(number + type(number)(0)).removesuffix(".0")
