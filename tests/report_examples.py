"""Explanations to draw and to report: one of each verdict on a small space with every kind of feature."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd

import ironrule
from ironrule.results.explanation import Explanation
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.feature import Feature
from ironrule.space.space import Space
from ironrule.verdict.verdict import Refuted, Unrefuted

SPACE = Space(
    (
        Feature("income", tuple(range(100, 1000, 20)), ordered=True, missing=True, label="Monthly income", unit="EUR"),
        Feature("accounts", (1, 2, 3, 4, 5), ordered=True),
        Feature("home", ("rent", "own", "family"), ordered=False, label="Home"),
        Feature("grade", ("low", "mid", "high"), ordered=True),
    )
)


def bank(table: pd.DataFrame) -> np.ndarray:
    """Approves incomes of 700 or more with at most 4 accounts, and owners of a high grade."""
    rich = (table["income"].fillna(0) >= 700) & (table["accounts"] <= 4)
    return np.asarray(rich | ((table["home"] == "own") & (table["grade"] == "high")), dtype=bool)


def past(rows: int = 200) -> pd.DataFrame:
    """Rows at random."""
    rng = np.random.default_rng(1)
    income = rng.choice([*SPACE["income"].values, None], rows)
    columns = {name: rng.choice(SPACE[name].values, rows) for name in SPACE.names[1:]}
    return pd.DataFrame({"income": pd.Series(income, dtype=float)} | columns)


ROW = {"income": 500, "accounts": 5, "home": "rent", "grade": "mid"}


def explainer() -> ironrule.Explainer:
    """The bank's explainer: its function can only be asked, but the space is small enough to ask about all of it."""
    return ironrule.Explainer(bank, past(), space=SPACE)


def proven() -> Explanation:
    """A rule that holds: few boxes are so small that every point can be asked about."""
    return explainer().explain(ROW, ironrule.GreedyRuleCF())


def widened(explanation: Explanation) -> Explanation:
    """The same with a wider rule, which the bank's function satisfies too: incomes below 700 need to own."""
    first, *rest = explanation.rule.components
    rule = replace(explanation.rule, components=(replace(first, value=680), *rest))
    return replace(explanation, wider=replace(explanation.ranked[0], rule=rule, coverage=48), wider_is_maximal=True)


def unrefuted(explanation: Explanation) -> Explanation:
    """The same rule, had the search not come to an end."""
    return replace(explanation, ranked=(replace(explanation.ranked[0], verdict=Unrefuted(500, 300, 0.95)),), wider=None)


def refuted(explanation: Explanation) -> Explanation:
    """The same rule, had an exception been found."""
    values = dict(explanation.instance) | {"home": "own", "grade": "high"}
    changes = (ironrule.Change("home", "rent", "own"), ironrule.Change("grade", "mid", "high"))
    verdict = Refuted(Counterfactual(values, changes), np.zeros((1, 4), dtype=np.int32))
    return replace(explanation, ranked=(replace(explanation.ranked[0], verdict=verdict),), wider=None)


VOID = {"meta", "rect", "line", "polygon"}


class Reader(HTMLParser):
    """Collects tags, texts and attributes, and checks that tags close in order and that nothing can run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += f"{data} "


def read(html: str) -> Reader:
    """A page or a piece of one, parsed."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    assert not {"script", "img", "iframe", "link", "object", "embed", "form"} & set(reader.tags)
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    links = [value for _, name, value in reader.attributes if name in ("src", "href")]
    assert all(value.startswith(("data:application/json;base64,", "#")) for value in links)
    places = {value for _, name, value in reader.attributes if name == "id"}
    assert all(value[1:] in places for value in links if value.startswith("#"))
    assert "http:" not in html
    assert "https:" not in html
    assert "url(" not in html
    return reader
