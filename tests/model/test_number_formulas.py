"""How far what a model sees of numbers may be from a straight line: compared with numbers between known ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from ironrule.model.number_formulas import bound_bend
from ironrule.model.pipeline import TransformerSteps

STRAIGHT = {
    "standard": StandardScaler(),
    "without mean": StandardScaler(with_mean=False),
    "min-max": MinMaxScaler((-3, 7)),
    "largest": MaxAbsScaler(),
    "robust": RobustScaler(),
    "imputed": Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())]),
    "in a column transformer": ColumnTransformer([("scale", MinMaxScaler(), [0])]),
}
BENT = {
    "power": PowerTransformer(),
    "quantile": QuantileTransformer(n_quantiles=20),
    "bins": KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "clipped": MinMaxScaler(clip=True),
    "bent beside": ColumnTransformer([("scale", StandardScaler(), [0]), ("bend", PowerTransformer(), [1])]),
}


def fit(step, dtype, offset):
    """A fitted step, the numbers of its first column, rising, and a dense grid between them."""
    rng = np.random.default_rng(3)
    table = (rng.normal(size=(60, 2)) * 40 + offset).astype(dtype)
    numbers = np.unique(table[:, 0]).astype(np.float64)
    step.fit(table)

    def see(values):
        wide = np.stack([np.asarray(values), np.full(len(values), table[0, 1])], axis=1).astype(dtype)
        return step.transform(wide)[:, 0]

    return see, numbers


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STRAIGHT)
def test_all_numbers_are_as_near_to_the_line_as_is_said(name, dtype, offset):
    see, numbers = fit(STRAIGHT[name], dtype, offset)
    single = dtype is np.float32
    bend = bound_bend(TransformerSteps((STRAIGHT[name],)), 0, numbers, see(numbers), single=single)
    assert bend is not None
    grid = np.linspace(numbers[0], numbers[-1], 4001).astype(dtype).astype(np.float64)
    ends = see(numbers[[0, -1]]).astype(np.float64)
    line = ends[0] + (ends[1] - ends[0]) * (grid - numbers[0]) / (numbers[-1] - numbers[0])
    apart = np.abs(see(grid).astype(np.float64) - line).max()
    assert apart <= bend
    assert bend <= 1e-3 * abs(ends[1] - ends[0]) * (1.0 if not single or offset == 0.0 else 1e3)


@pytest.mark.parametrize("name", BENT)
def test_what_another_step_does_to_numbers_is_not_known(name):
    see, numbers = fit(BENT[name], np.float64, 0.0)
    assert bound_bend(TransformerSteps((BENT[name],)), 0, numbers, see(numbers), single=False) is None


def test_numbers_that_no_formula_gives_are_not_straight():
    numbers = np.array([1.0, 2.0, 3.0])
    assert bound_bend(None, 0, numbers, numbers, single=False) is not None
    assert bound_bend(None, 0, numbers, np.array([1.0, 2.0, 3.5]), single=False) is None
