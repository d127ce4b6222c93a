"""How a subject of a recipe is drawn: table, target, fitted model, decision, constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.fuzz.data import Rng, Table, Wish, draw_table, draw_target
from benchmarks.fuzz.pipelines import Accepts, prepare
from benchmarks.fuzz.recipes import Recipe
from benchmarks.fuzz.subjects import Decision, NotDrawn, Rule, Subject


def draw_subject(rng: Rng, recipe: Recipe) -> Subject:
    """A fitted model of a recipe on a random table, with a random decision and random further demands."""
    task = str(rng.choice(recipe.tasks))
    intervals = rng.random() < recipe.intervals
    table = draw_table(rng, _narrowed(recipe.wish) if intervals else recipe.wish)
    accepts = replace(recipe.accepts, rising=True) if intervals else recipe.accepts
    target = draw_target(rng, table, task)
    names = _class_names(rng, task, recipe)
    labels = target if names is None else np.array(names, dtype=object)[target].tolist()
    model, other = (_fitted(rng, recipe, table, task, accepts, labels) for _ in range(2))
    decision = draw_decision(rng, model, table, task, names, recipe)
    others = (other,) if rng.random() < 0.12 else ()
    space_rules = draw_space_rules(rng, table) if rng.random() < 0.2 else ()
    change_rules = draw_change_rules(rng, table) if rng.random() < 0.3 else ()
    return Subject(model, table, decision, others, intervals, space_rules, change_rules, second=other)


def _narrowed(wish: Wish) -> Wish:
    """For whole intervals: fewer features, since every whole number between two values is one more to look at."""
    kinds = tuple(kind for kind in wish.kinds if kind != "category") or ("int",)
    return replace(wish, kinds=kinds, most=3, large=0.0)


def _class_names(rng: Rng, task: str, recipe: Recipe) -> list[Any] | None:
    if task == "regression":
        return None
    count = 2 if task == "binary" else 3
    if recipe.numbered or rng.random() < 0.5:
        return list(range(count))
    return [False, True] if count == 2 and rng.random() < 0.3 else ["bad", "good", "fair"][:count]


def _fitted(rng: Rng, recipe: Recipe, table: Table, task: str, accepts: Accepts, labels: Any) -> Any:
    estimator = recipe.make(rng, task, table)
    model = estimator if recipe.bare else prepare(rng, table, estimator, accepts)
    return fit(model, table.native(), labels)


def fit(model: Any, rows: Any, labels: Any) -> Any:
    """The model, fitted; raises NotDrawn if its library refuses the data."""
    try:
        fitted = model.fit(rows, np.asarray(labels))
        fitted.predict(rows)
    except Exception as error:  # whatever the library says of random data; nothing of ours has been asked yet
        raise NotDrawn(f"{type(error).__name__}: {error}") from error
    return fitted


def draw_decision(rng: Rng, model: Any, table: Table, task: str, names: list[Any] | None, recipe: Recipe) -> Decision:
    """What counts as desired: a label, several of three, or a threshold, often one that some row's score equals."""
    rows = table.native()
    if names is None:
        scores = np.unique(np.asarray(model.predict(rows), dtype=np.float64))
        threshold = _threshold(rng, scores)
        margin = float(np.ptp(scores) * 0.05) if rng.random() < 0.1 else 0.0
        return Decision(None, threshold, margin)
    desired: tuple[Any, ...] = (names[-1],)
    if task == "three":
        desired = tuple(rng.permutation(np.array(names, dtype=object))[: int(rng.integers(1, 3))].tolist())
    able = recipe.threshold and (task == "binary" or recipe.threshold_of_three)
    margin = float(rng.choice([0.01, 0.1, 0.25])) if able and rng.random() < 0.1 else 0.0
    if not able or rng.random() < 0.5:
        return Decision(desired, None, margin if task == "binary" else 0.0)
    scores = np.asarray(model.predict_proba(rows), dtype=np.float64)
    column = scores if scores.ndim == 1 else scores[:, [names.index(label) for label in desired]].sum(axis=1)
    return Decision(desired, min(max(_threshold(rng, np.unique(column)), 0.0), 1.0), margin)


def _threshold(rng: Rng, scores: Any) -> float:
    """A threshold: some score itself, or between two."""
    some = float(rng.choice(scores))
    draw = rng.random()
    if draw < 0.4:
        return some
    return float(np.nextafter(some, rng.choice([-np.inf, np.inf]))) if draw < 0.5 else (some + float(scores.mean())) / 2


def draw_space_rules(rng: Rng, table: Table) -> tuple[Rule, ...]:
    """One constraint on what can occur, over plain numbers or texts; none where there is nothing to constrain."""
    numbers = [column for column in table.columns if column.kind in ("int", "float") and "_" not in column.name]
    if table.form == "numpy" or not numbers or any("big" in str(column.domain) for column in numbers):
        return ()
    one = numbers[int(rng.integers(0, len(numbers)))]
    other = numbers[int(rng.integers(0, len(numbers)))]
    if any(abs(value) > 2**53 for column in (one, other) for value in column.domain):
        return ()
    if one is other or rng.random() < 0.4:
        bound, name = one.domain[-1], one.name
        if rng.random() < 0.5 and not one.missing:
            return (Rule(f"cf.{name} < {bound!r}", lambda cf, _: cf[name] is not None and cf[name] < bound),)
        return (Rule(f"cf.{name} != {bound!r}", lambda cf, _: cf[name] is None or cf[name] != bound),)
    limit = max(one.domain) + max(other.domain) - 1
    first, second = one.name, other.name

    def holds(cf: Any, _: Any) -> bool:
        return cf[first] is not None and cf[second] is not None and cf[first] + cf[second] <= limit

    return (Rule(f"cf.{first} + cf.{second} <= {limit!r}", holds),)


def draw_change_rules(rng: Rng, table: Table) -> tuple[Rule, ...]:
    """One constraint on what a counterfactual may change."""
    plain = [column for column in table.columns if "_" not in column.name]
    if table.form == "numpy" or not plain:
        return ()
    column = plain[int(rng.integers(0, len(plain)))]
    name = column.name
    if column.numeric and not column.missing and rng.random() < 0.6:
        return (Rule(f"cf.{name} >= x.{name}", lambda cf, x: cf[name] >= x[name]),)
    return (Rule(f"cf.{name} == x.{name}", lambda cf, x: cf[name] == x[name]),)
