"""How results are displayed: no public type shows itself as a dump of its fields, and what has a verdict says it."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import ironrule

ROWS = pd.DataFrame(
    [(income, debt, home) for income in range(100, 1100, 100) for debt in range(5) for home in (0, 1, 2)] * 2,
    columns=["income", "debt", "home"],
)
PAID = ((ROWS["income"] > 400) & (ROWS["debt"] < 3) | (ROWS["home"] == 2) & (ROWS["income"] > 700)).astype(int)
ROW = {"income": 300, "debt": 4, "home": 0}
LABELS = {"income": {"label": "Monthly income", "unit": "EUR"}, "outcomes": {"0": "denied", "1": "approved"}}
MAX_ONE_LINE = 700
VERDICT_WORDS = ("proven", "refuted", "unrefuted", "bounded")
SETTINGS = {"Budget", "Cost", "LadderOptions", "NoticeOptions", "Role", "RoleGuesses", "Target", "DecisionTarget"} | {
    "RuleRestrictions",
    "ReportOptions",
}  # shown as the call that makes them
# What users make themselves and hand over: the algorithms, oracles, solvers and models of their own.
GIVEN = ("ironrule.oracles.", "ironrule.search.", "ironrule.model.wrappers.")
MADE_BY_USERS = {name for name in ironrule.__all__ if getattr(ironrule, name).__module__.startswith(GIVEN)} | {
    "SqlQuery",
    "Constraint",
    "Checker",
}


def is_dump(value: Any) -> bool:
    """Whether the representation is the one that dataclasses make by themselves."""
    if not dataclasses.is_dataclass(value):
        return type(value).__repr__ is object.__repr__
    made = getattr(type(value).__repr__, "__wrapped__", type(value).__repr__)
    return made.__code__.co_filename == "<string>"


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """One value of every public type that users get."""
    model = DecisionTreeClassifier(random_state=0).fit(ROWS, PAID)
    explainer = ironrule.Explainer(model, ROWS, desired=1, labels=LABELS)
    asked = ironrule.Explainer(lambda rows: model.predict(rows) == 1, ROWS)
    explanation, unrefuted = explainer.explain(ROW), ironrule.Unrefuted(tried=100, samples=50, confidence=0.95)
    doubtful = dataclasses.replace(explanation, ranked=(dataclasses.replace(explanation.ranked[0], verdict=unrefuted),))
    ladder, menu, found = explainer.ladder(ROW), explainer.change_menu(ROW), explainer.counterfactuals(ROW)
    batch = explainer.explain_many(range(12), workers=1, progress=False)
    judged = [explainer.judge(ROW, rule) for rule in (explanation.rule, ["home <= 0"])]
    region = explainer.counterfactual_region(found[0])
    forbidden = explainer.find_forbidding_restrictions(ROW, features_to_vary=["home"])
    recheck, cover = explainer.recheck([explanation]), batch.find_rule_cover()
    catalogue = ironrule.ReasonCatalogue.from_dict({"income": {"low": {"code": "R1", "en": "Income is too low"}}})
    values = [
        explainer, asked, explanation, doubtful, ladder, menu, found, batch, *judged, region, recheck, cover, catalogue,
        forbidden, explanation.rule, explanation.rule.components[0], explanation.shown, explanation.verdict,
        doubtful.verdict, judged[1].verdict, ladder[0], ironrule.Bounded.from_counts(2, 100, 0.95), explanation.changes,
        explanation.statistics, explanation.verdict.certificate, explanation.decision, explanation.restrictions,
        explainer.rules(ROW), next(explainer.rules(ROW)), next(explainer.change_sets(ROW)), found[0],
        found[0].changes[0],
        found.measure()[0], menu[0], region.ranges[0], recheck[0], cover.rules[0], forbidden.needed[0],
        forbidden.restrictions[0], explainer.labels, explainer.space, explainer.space["income"], ladder[0].searched,
        explainer.counterfactuals_many(range(3), workers=1, progress=False), explainer.diagnose(explanation),
        ironrule.check(explanation.to_json(), model, ROWS, desired=1), ironrule.Role("immutable"),
        ironrule.RoleGuesses(),
        ironrule.Cost("l1"), ironrule.Budget(seconds=3), ironrule.Target(1), ironrule.LadderOptions(most=3),
        ironrule.NoticeOptions(most=2), ladder.reasons()[0],
        ironrule.DiagnosisFinding(feature="income", kind="outlier", sentence="Without income above 900, two would do."),
        ironrule.Quality.MINIMUM, batch.compare(batch), ironrule.ReportOptions(language="de"),
    ]  # fmt: skip
    return {f"{type(value).__name__} {place}": value for place, value in enumerate(values)}


def test_every_public_type_that_users_get_is_looked_at(shown: dict[str, Any]) -> None:
    public = {
        name
        for name in ironrule.__all__
        if isinstance(getattr(ironrule, name), type) and not issubclass(getattr(ironrule, name), Exception)
    }
    assert public - {type(value).__name__ for value in shown.values()} - MADE_BY_USERS == set()


def test_no_result_shows_itself_as_a_dump_of_its_fields(shown: dict[str, Any]) -> None:
    dumps = {name for name, value in shown.items() if is_dump(value)}
    assert dumps == set()
    for name, value in shown.items():
        assert "\n" not in repr(value), name
        assert len(repr(value)) <= MAX_ONE_LINE, name
        assert type(value).__name__ in repr(value), name
        assert str(value), name
        if type(value).__name__ not in SETTINGS:
            assert "(components=" not in str(value), name


def test_what_has_a_verdict_says_whether_it_is_proven(shown: dict[str, Any]) -> None:
    told = set()
    for name, value in shown.items():
        verdict = value if type(value).__name__ in ("Proven", "Refuted", "Unrefuted", "Bounded") else None
        verdict = getattr(value, "verdict", verdict)
        if verdict is not None and type(verdict).__name__.lower() in VERDICT_WORDS and "Judgement" not in name:
            assert type(verdict).__name__.lower() in repr(value).lower(), name
            told.add(type(verdict).__name__)
        if hasattr(value, "proven") or hasattr(value, "minimal"):
            assert "proven" in repr(value), name
    assert told == {"Proven", "Refuted", "Unrefuted", "Bounded"}
    for name, value in shown.items():  # what is not proven never looks as if it were
        if type(getattr(value, "verdict", value)).__name__ in ("Unrefuted", "Bounded"):
            assert "not proven" in repr(value) or "Unrefuted" in repr(value), name


class Reader(HTMLParser):
    """The text of a piece of HTML, and whether its tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.open = "", 0

    def handle_starttag(self, tag: str, _: object) -> None:
        self.open += tag not in ("br", "line", "rect", "path", "circle", "use")

    def handle_endtag(self, tag: str) -> None:
        self.open -= tag not in ("br", "line", "rect", "path", "circle", "use")

    def handle_data(self, data: str) -> None:
        self.text += data


NOTEBOOK = (
    *("Explainer", "Explanation", "Ladder", "Batch", "RuleCover", "Rung", "RankedRule", "Rule", "Counterfactual"),
    *(
        "Counterfactuals",
        "CounterfactualsBatch",
        "CounterfactualRegion",
        "ChangeMenu",
        "MenuEntry",
        "ChangeSet",
        "Check",
    ),
    *("Check", "Diagnosis", "DiagnosisFinding", "Infeasibility", "Judgement", "Labels", "Listing", "Proven", "Refuted"),
    *("Unrefuted", "Bounded", "Reason", "Recheck", "RecheckedExplanation", "SuggestedChanges"),
)


def test_notebooks_show_results_as_html(shown: dict[str, Any]) -> None:
    by_type = {type(value).__name__: value for value in shown.values()}
    for name in NOTEBOOK:
        reader = Reader()
        reader.feed(by_type[name]._repr_html_())
        assert reader.text.strip(), name
        verdict = getattr(by_type[name], "verdict", None)
        if verdict is not None and name != "Judgement":
            assert type(verdict).__name__.lower() in reader.text.lower(), name


def test_an_explainer_says_what_it_explains_and_what_can_be_proven(shown: dict[str, Any]) -> None:
    explainer, asked = shown["Explainer 0"], shown["Explainer 1"]
    assert "rules can be proven" in repr(explainer)
    assert "rules cannot be proven" in repr(asked)
    for text in (str(explainer), explainer._repr_html_()):
        assert "DecisionTreeClassifier" in text
        assert "approved" in text
        assert "denied" in text
    assert "Rules can be proven: no: the model can only be asked" in str(asked)


def test_the_markup_of_names_is_escaped() -> None:
    rule = ironrule.Rule((ironrule.Component("<b>", "<=", 3),), "<i>")
    assert "<b>" not in rule._repr_html_()
    assert "&lt;b&gt;" in rule._repr_html_()
    assert "<i>" not in ironrule.Labels.from_dict({"x": "<i>"})._repr_html_()
