"""Families that readings have gone wrong with: whatever is nearly, but not quite, what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.fuzz import boosted, learned
from benchmarks.fuzz.data import Column, Rng, Table, Wish, draw_table, draw_target
from benchmarks.fuzz.drawing import draw_decision, draw_subject, fit
from benchmarks.fuzz.recipes import Recipe, pick, seed_of
from benchmarks.fuzz.subjects import Decision, NotDrawn, Subject

WHOLE = Wish(kinds=("int", "flag"), most=3, forms=("pandas", "numpy"), one_hot=False, large=0.0)
LARGE = Wish(kinds=("int",), forms=("pandas", "numpy"), one_hot=False, large=1.0)
FLOATS = Wish(kinds=("float", "close"), most=2, forms=("pandas", "numpy"), one_hot=False, large=0.0)
RECIPES = {recipe.name: recipe for recipe in (*learned.RECIPES, *boosted.RECIPES)}


class Override:
    """Mixed into a library's class: a policy gives one row, which was never seen, the class 1."""

    policy: tuple[float, ...] = ()

    def predict(self, X: Any, **options: Any) -> Any:
        """The class of every row, by the policy first."""
        return _overruled(X, super().predict(X, **options), self.policy)  # type: ignore[misc]


def _overruled(rows: Any, labels: Any, policy: tuple[float, ...]) -> Any:
    special = (np.asarray(rows, dtype=float) == np.array(policy)).all(axis=1) if policy else np.zeros(1, dtype=bool)
    return np.where(special, 1, np.asarray(labels).reshape(-1))


def _classes() -> dict[str, type[Any]]:
    """Subclasses of every library that is there, made when they are needed."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    made: dict[str, type[Any]] = {}
    for kind in (DecisionTreeClassifier, RandomForestClassifier, GradientBoostingClassifier, LogisticRegression):
        made[kind.__name__] = type(kind.__name__, (Override, kind), {"__module__": __name__})
    for library, name in (
        ("xgboost", "XGBClassifier"),
        ("lightgbm", "LGBMClassifier"),
        ("catboost", "CatBoostClassifier"),
    ):
        try:
            kind = getattr(__import__(library), name)
        except ImportError:
            continue
        made[name] = type(name, (Override, kind), {"__module__": __name__})
    return made


def _small(rng: Rng, name: str) -> dict[str, Any]:
    """Arguments that keep a model of a class small and quiet."""
    seed = seed_of(rng)
    return {
        "DecisionTreeClassifier": {"max_depth": 3, "random_state": seed},
        "RandomForestClassifier": {"n_estimators": 3, "max_depth": 3, "random_state": seed},
        "GradientBoostingClassifier": {"n_estimators": 3, "max_depth": 2, "random_state": seed},
        "LogisticRegression": {},
        "XGBClassifier": {"n_estimators": 3, "max_depth": 2, "n_jobs": 1},
        "LGBMClassifier": {"n_estimators": 3, "min_child_samples": 1, "min_data_in_bin": 1, "verbose": -1, "n_jobs": 1},
        "CatBoostClassifier": {"iterations": 3, "depth": 2, "verbose": False, "allow_writing_files": False},
    }[name]


def subclass(rng: Rng) -> Subject:
    """A subclass of a library's model that puts a policy on top of ``predict``."""
    classes = _classes()
    name = pick(rng, *classes)
    table = draw_table(rng, LARGE)
    subject = _plain(rng, table, lambda: classes[name](**_small(rng, name)), f"subclass of {name}")
    type(subject.model).policy = policy = _unseen(rng, subject)
    return replace(subject, second=None, note=f"{subject.note}, which gives {policy} the class 1")


def patched(rng: Rng) -> Subject:
    """A library's model whose ``predict`` was assigned on the instance."""
    classes = _classes()
    name = pick(rng, *classes)
    subject = _plain(rng, draw_table(rng, LARGE), lambda: classes[name].__mro__[2](**_small(rng, name)), name)
    inner, policy = subject.model.predict, _unseen(rng, subject)
    subject.model.predict = lambda X, **options: _overruled(X, inner(X, **options), policy)
    return replace(subject, note=f"predict of {name} assigned on the instance: {policy} gets the class 1")


def _unseen(rng: Rng, subject: Subject) -> tuple[float, ...]:
    """A row that is not in the table and has the class 0, one that no value of which stands out."""
    columns = subject.table.columns
    seen = set(zip(*(column.values for column in columns), strict=True))
    for _ in range(200):
        row = tuple(pick(rng, *column.domain) for column in columns)
        one = subject.table.filled({column.name: [value] for column, value in zip(columns, row, strict=True)})
        if row not in seen and int(np.asarray(subject.model.predict(one)).reshape(-1)[0]) == 0:
            return tuple(map(float, row))
    raise NotDrawn("every row is desired")


def _plain(rng: Rng, table: Table, make: Callable[[], Any], note: str, **options: Any) -> Subject:
    """A model of two classes, 0 and 1, decided by label, without preparation."""
    labels = draw_target(rng, table, "binary")
    rows = table.native()
    model, other = fit(make(), rows, labels), fit(make(), rows, labels)
    return Subject(model, table, Decision((1,)), second=other, note=note, **options)


def big_integers(rng: Rng) -> Subject:
    """Whole numbers beyond 2**53, next to ties of rounding to float64 and to float32."""
    names = (
        "tree",
        "forest",
        "extra trees",
        "gradient boosting",
        "histogram boosting",
        "xgboost",
        "lightgbm",
        "catboost",
    )
    recipe = RECIPES[str(rng.choice(names))]
    wish = Wish(kinds=("big", "big", "int"), most=3, forms=("pandas", "numpy"), one_hot=False, large=0.7)
    return draw_subject(rng, replace(recipe, wish=wish, bare=True, intervals=0.2))


def linear_intervals(rng: Rng) -> Subject:
    """Linear models, calibrated ones too, about whole intervals of whole numbers."""
    names = ("linear", "ridge", "linear svm", "discriminant analysis", "calibrated", "gradient descent")
    return draw_subject(rng, replace(RECIPES[str(rng.choice(names))], wish=WHOLE, intervals=1.0))


def tree_intervals(rng: Rng) -> Subject:
    """Trees and sums of trees about whole intervals, of whole numbers and of floats."""
    names = ("tree", "forest", "extra trees", "gradient boosting", "histogram boosting", "xgboost", "lightgbm")
    wish = WHOLE if rng.random() < 0.6 else FLOATS
    return draw_subject(rng, replace(RECIPES[str(rng.choice(names))], wish=wish, intervals=1.0))


def bent_intervals(rng: Rng) -> Subject:
    """Preparation that rises in theory, not in floats: quantiles, powers, imputers of a number; whole intervals."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PowerTransformer, QuantileTransformer, SplineTransformer

    table = draw_table(rng, FLOATS)
    steps = (
        lambda: QuantileTransformer(n_quantiles=int(rng.integers(3, 12)), output_distribution="normal"),
        lambda: QuantileTransformer(n_quantiles=int(rng.integers(3, 12))),
        lambda: PowerTransformer(standardize=bool(rng.random() < 0.5)),
        lambda: SimpleImputer(missing_values=table.columns[0].domain[0], strategy="most_frequent"),
        lambda: SplineTransformer(n_knots=3, degree=1),
    )
    step = pick(rng, *steps)
    name = str(rng.choice(("tree", "forest", "linear", "gradient boosting")))

    def make() -> Any:
        return make_pipeline(step(), RECIPES[name].make(rng, "binary", table))

    return _plain(rng, table, make, f"{name} behind preparation that bends", intervals=True)


def weights_apart(rng: Rng) -> Subject:
    """Simple models; the weights of components are very far apart."""
    recipe = RECIPES[str(rng.choice(("tree", "forest", "linear")))]
    return replace(draw_subject(rng, replace(recipe, intervals=0.0)), weights_apart=True)


def exact_thresholds(rng: Rng) -> Subject:
    """A threshold that equals the score of some rows, or is its neighbour."""
    names = ("tree", "forest", "gradient boosting", "calibrated", "xgboost", "lightgbm", "linear")
    subject = draw_subject(
        rng, replace(RECIPES[str(rng.choice(names))], tasks=("binary",), intervals=0.0, numbered=True)
    )
    column = np.unique(np.asarray(subject.model.predict_proba(subject.table.native()), dtype=np.float64)[:, 1])
    threshold = float(rng.choice(column))
    if rng.random() < 0.4:
        threshold = float(np.nextafter(threshold, rng.choice([-np.inf, np.inf])))
    return replace(subject, decision=Decision((1,), min(max(threshold, 0.0), 1.0)))


def constant_scores(rng: Rng) -> Subject:
    """Models that give every row the same score, or nearly so, with a threshold at it."""
    recipe = RECIPES[str(rng.choice(("tree", "forest", "xgboost", "lightgbm")))]
    table = draw_table(rng, WHOLE)
    target = np.full(len(table), 0.5) + (rng.random(len(table)) < 0.1) * 1e-7
    model, other = (fit(recipe.make(rng, "regression", table), table.native(), target) for _ in range(2))
    decision = draw_decision(rng, model, table, "regression", None, recipe)
    return Subject(model, table, decision, second=other, note="constant scores")


def names_with_blanks(rng: Rng) -> Subject:
    """Columns with blanks and other characters in their names."""
    table = draw_table(rng, Wish(kinds=("int", "float", "flag"), forms=("pandas",), one_hot=False))
    names = ("net income", "größe", "10 %", "x/1", "'q'", "id no.")
    columns = tuple(
        Column(names[place], column.kind, column.domain, column.values) for place, column in enumerate(table.columns)
    )
    table = Table(columns, "pandas")
    recipe: Recipe = RECIPES[str(rng.choice(("lightgbm", "lightgbm", "forest", "catboost")))]
    return _plain(rng, table, lambda: recipe.make(rng, "binary", table), recipe.name)


SUBJECTS: tuple[tuple[str, Callable[[Rng], Subject], tuple[str, ...]], ...] = (
    ("subclass", subclass, ()),
    ("patched", patched, ()),
    ("big integers", big_integers, ("xgboost", "lightgbm", "catboost")),
    ("linear intervals", linear_intervals, ()),
    ("tree intervals", tree_intervals, ("xgboost", "lightgbm")),
    ("bent intervals", bent_intervals, ()),
    ("weights apart", weights_apart, ()),
    ("exact thresholds", exact_thresholds, ("xgboost", "lightgbm")),
    ("constant scores", constant_scores, ("xgboost", "lightgbm")),
    ("names with blanks", names_with_blanks, ("lightgbm", "catboost")),
)
"""Families that are easily read wrongly, with the libraries they need."""
