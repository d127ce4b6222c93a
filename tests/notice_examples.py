"""A ladder to write notices about, and what becomes of it with other verdicts."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

import ironrule
from ironrule.results.ladder import Ladder
from ironrule.rule.counterfactual import Counterfactual
from ironrule.verdict.bounded import Bounded, RungVerdict
from ironrule.verdict.verdict import Refuted, Unrefuted

DAY = datetime.date(2026, 3, 1)
LABELS = {
    "income": {"label": {"en": "Monthly income", "de": "Monatliches Einkommen"}, "unit": "EUR"},
    "debts": {"label": {"en": "Open loans", "de": "Offene Kredite"}},
    "home": {"label": {"en": "Home", "de": "Wohnung"}, "values": {"A11": {"en": "rented", "de": "gemietet"}}},
    "used": {"label": {"en": "Credit in use", "de": "Genutzter Kredit"}, "format": "percent"},
}


def make_people(rows: int, seed: int) -> pd.DataFrame:
    """Applicants at random."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.integers(5, 50, rows) * 100,
            "debts": rng.integers(0, 10, rows),
            "home": rng.choice(["A11", "A12", "A13"], rows),
            "used": rng.integers(0, 21, rows) / 20,
            "age": rng.integers(18, 80, rows),
        }
    )


@cache
def make_explainer(measure: bool = True) -> ironrule.Explainer:
    """A bank that looks at income, loans, home and the credit in use, and is jagged in age."""
    past = make_people(1500, 0)
    score = past.income / 100 - 3 * past.debts - 12 * past.used - 6 * (past.home == "A11") + (past.age % 7)
    coded = past.assign(home=past.home.str[1:].astype(int))
    trees = GradientBoostingClassifier(n_estimators=40, max_depth=3, random_state=0).fit(coded, score > 8)

    def decide(table: pd.DataFrame) -> np.ndarray:
        return np.asarray(trees.predict(table.assign(home=table["home"].str[1:].astype(int)))) == 1

    more = {"measure": make_people(1500, 1)} if measure else {}
    return ironrule.Explainer(decide, past, desired=True, **more)


ROW = {"income": 2700, "debts": 4, "home": "A11", "used": 0.75, "age": 45}


@cache
def make_ladder() -> Ladder:
    """The ladder of one row: short rules with bounds, and a last one that could only be searched for."""
    return make_explainer().ladder(ROW, 3, budget=ironrule.Budget(evaluations=20_000))


GOOD = Bounded.from_counts(3, 400, 0.95, 3)
POOR = Bounded.from_counts(150, 400, 0.95, 3)
HOPELESS = Bounded.from_counts(7, 7, 0.95, 3)
UNKNOWN = Bounded.from_counts(0, 0, 0.95, 3)
UNREFUTED = Unrefuted(500, 300, 0.95)


def make_proven() -> RungVerdict:
    """A verdict that only a proof gives."""
    explainer = ironrule.Explainer(lambda table: table["age"] > 3, pd.DataFrame({"age": range(8)}))
    return explainer.explain({"age": 2}).verdict


def make_refuted() -> RungVerdict:
    """A verdict on a rule with an exception."""
    return Refuted(Counterfactual(ROW, ()), np.zeros((1, 5), dtype=np.int32))


def with_verdicts(ladder: Ladder, short: RungVerdict | None = None, last: RungVerdict | None = None) -> Ladder:
    """The same ladder, had the rungs that are not the last, or the last one, earned other verdicts."""
    *first, end = ladder.rungs
    rungs = [rung if short is None else replace(rung, verdict=short) for rung in first]
    return replace(ladder, rungs=(*rungs, end if last is None else replace(end, verdict=last)))
