"""Restore the categories that a text file has lost, from the lists that a fitted model keeps.

A CSV file knows no types: a category "01067" comes back as the number 1067, and a pandas category as plain text. Models
that were fitted on categories keep lists of them: encoders of scikit-learn and its histogram boosting, XGBoost and
LightGBM for pandas categories. A value of the file stands for the category that it is equal to; else for the one that
is written like it; else for the only one that is the same number. A value that stands for none stays as it is (as text
where the categories are texts), so that the model treats it as it treats any category that it does not know.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ironrule.model.blackbox import match_column_names
from ironrule.model.pipeline import HYPERPARAMETER_SEARCHES, STEP_CONTAINERS, list_chosen_positions
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.library_class import get_library_class_name
from ironrule.model.readers.sklearn_thresholds import get_wrapped_estimator, is_threshold_wrapper
from ironrule.model.saved_model import SavedModel
from ironrule.space.feature import is_missing
from ironrule.space.table import to_python_value

if TYPE_CHECKING:
    import pandas as pd

ENCODERS = frozenset(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"))


@dataclass(frozen=True, slots=True)
class CategoryList:
    """The categories that a model keeps for a column; ``as_pandas``: it takes them as pandas categories only."""

    values: tuple[Any, ...]
    as_pandas: bool = False

    def find(self, value: Any) -> Any:
        """The category that a value stands for; the value itself, or its text among texts, if it is none.

        >>> CategoryList(("01067", "20095")).find(1067), CategoryList((1, 2)).find("2"), CategoryList(("a",)).find(3)
        ('01067', 2, '3')
        """
        if is_missing(value):
            return value
        plain = to_python_value(value)
        equal = [one for one in self.values if one == plain and isinstance(one, str) == isinstance(plain, str)]
        texts = {_write(plain), str(plain)}
        written = [one for one in self.values if str(one) in texts]
        number = _parse_number(plain)
        same = [one for one in self.values if number is not None and _parse_number(one) == number]
        for found in (equal, written, same):
            if len(found) == 1:
                return found[0]
        return _write(plain) if all(isinstance(one, str) for one in self.values) else plain


def _write(value: Any) -> str:
    """A value as a text; a whole number without a decimal point, as before a missing value made it a float."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def find_category_lists(model: Any, names: Sequence[str]) -> dict[str, CategoryList]:
    """The lists of categories that a model keeps, by the data's names of the columns."""
    if isinstance(model, SavedModel):
        return {name: kept for name, kept in model.category_lists.items() if name in names}
    return _match_lists(_unwrap(model), names, _list_kept)


def find_pandas_categories(model: Any, names: Sequence[str]) -> dict[str, CategoryList]:
    """The same of the columns alone that the model takes as pandas categories and not otherwise."""
    if isinstance(model, SavedModel):
        return {name: kept for name, kept in find_category_lists(model, names).items() if kept.as_pandas}
    return _match_lists(_unwrap(model), names, _list_boosted)


def _unwrap(model: Any) -> Any:
    """What stands inside searches for hyperparameters and wrappers of thresholds: a pipeline or an estimator."""
    while True:
        name = get_library_class_name(model, "sklearn")
        if name in HYPERPARAMETER_SEARCHES and hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif name == "FrozenEstimator":
            model = model.estimator
        elif is_threshold_wrapper(model):
            model = get_wrapped_estimator(model)
        else:
            return model


def _match_lists(
    model: Any, names: Sequence[str], list_kept: Callable[[Any, Sequence[str]], Iterable[tuple[str, CategoryList]]]
) -> dict[str, CategoryList]:
    """The lists of a model under the data's names of its columns."""
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is None:
        return {}
    kept = dict(list_kept(model, [str(name) for name in fitted]))
    columns = match_column_names(fitted, names) if kept else ()
    return {own: kept[str(name)] for own, name in zip(columns, fitted, strict=False) if str(name) in kept}


def _list_kept(model: Any, fitted: Sequence[str]) -> Iterator[tuple[str, CategoryList]]:
    """The categories of an estimator or a step that is fitted on these columns."""
    name = get_library_class_name(model, "sklearn")
    if name == "Pipeline":
        yield from _list_kept(model.steps[0][1], fitted)  # the steps behind see what the first one makes of the data
    elif name == "FeatureUnion":
        for _, part in STEP_CONTAINERS[name](model):
            yield from _list_kept(part, fitted)
    elif name == "ColumnTransformer":
        for _, part, chosen in model.transformers_:
            places = list_chosen_positions(model, chosen, len(fitted))
            yield from _list_kept(part, [fitted[place] for place in places])
    elif name in ENCODERS and len(model.categories_) == len(fitted):
        yield from ((column, _make_list(kinds)) for column, kinds in zip(fitted, model.categories_, strict=True))
    elif name.startswith("HistGradientBoosting") and getattr(model, "is_categorical_", None) is not None:
        chosen = np.flatnonzero(model.is_categorical_).tolist()
        kinds = model._preprocessor.named_transformers_["encoder"].categories_
        yield from ((fitted[place], _make_list(kind)) for place, kind in zip(chosen, kinds, strict=True))
    else:
        yield from _list_boosted(model, fitted)


def _list_boosted(model: Any, fitted: Sequence[str]) -> Iterator[tuple[str, CategoryList]]:
    """The categories of XGBoost and LightGBM."""
    labels = _read_boosted_labels(model)
    yield from ((fitted[place], CategoryList(kinds, as_pandas=True)) for place, kinds in labels.items() if kinds)


def _make_list(kinds: Any) -> CategoryList:
    return CategoryList(
        tuple(to_python_value(kind) for kind in np.asarray(kinds, dtype=object) if not is_missing(kind))
    )


def _read_boosted_labels(model: Any) -> Mapping[int, tuple[Any, ...]]:
    """The pandas categories by column that a booster keeps; none where it does not say whose they are."""
    xgboost, lightgbm = sys.modules.get("xgboost"), sys.modules.get("lightgbm")
    if xgboost is not None and isinstance(model, xgboost.XGBModel):
        if "c" not in (model.get_booster().feature_types or ()):  # then there is no need to write the whole model
            return {}
        from ironrule.model.readers import xgboost_models

        labels = xgboost_models.read_category_labels(json.loads(model.get_booster().save_raw("json"))["learner"])
        return {place: kinds for place, kinds in enumerate(labels) if kinds}
    if lightgbm is not None and isinstance(model, lightgbm.LGBMModel):
        from ironrule.model.readers import lightgbm_models

        try:
            return lightgbm_models.read_category_labels(model.booster_)
        except Unreadable:
            return {}
    return {}


def restore_categories(model: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """A table as the model was fitted on it: columns of categories in the values and the type that it keeps."""
    return _restore_columns(frame, find_category_lists(model, [str(name) for name in frame.columns]))


def restore_pandas_categories(model: Any, data: Any) -> Any:
    """A pandas table with categories in the columns that the model takes so and not otherwise; other data as it is."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return data
    return _restore_columns(data, find_pandas_categories(model, [str(name) for name in data.columns]))


def _restore_columns(frame: pd.DataFrame, lists: Mapping[str, CategoryList]) -> pd.DataFrame:
    import pandas as pd

    restored = {}
    for name, kept in lists.items():
        if name not in frame.columns or isinstance(frame[name].dtype, pd.CategoricalDtype):
            continue
        found = {value: kept.find(value) for value in frame[name].dropna().unique().tolist()}
        if kept.as_pandas:
            # Categories that the model does not know stand behind those it knows, whose numbers must stay.
            others = [value for value in dict.fromkeys(found.values()) if value not in kept.values]
            values = [None if is_missing(value) else found[value] for value in frame[name].tolist()]
            restored[name] = pd.Series(pd.Categorical(values, [*kept.values, *others]), index=frame.index)
        # A column whose values are written as in the list stays as it is.
        elif any(type(value) is not type(old) or value != old for old, value in found.items()):
            values = [None if is_missing(value) else found[value] for value in frame[name].tolist()]
            restored[name] = pd.Series(values, index=frame.index, dtype=object).infer_objects()
    return frame.assign(**restored) if restored else frame


def restore_row(model: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """A single row in the values that the model keeps; a value that it does not keep stays as it is."""
    return match_categories(find_category_lists(model, [str(name) for name in row]), row)


def match_categories(lists: Mapping[str, CategoryList], row: Mapping[str, Any]) -> dict[str, Any]:
    """A single row with the categories that its values stand for; a value that stands for none stays as it is."""
    found = {name: lists[name].find(value) if name in lists else value for name, value in row.items()}
    return {name: found[name] if name in lists and found[name] in lists[name].values else row[name] for name in row}
