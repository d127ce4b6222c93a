"""Stored explanations, put to a new model: every answer is checked against all points of a small space."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from batch_examples import fit_boosted_trees, make_explainer, make_history
from ironrule import Explainer, Explanation, InputError, Proven, Recheck


def everybody(explainer: Explainer) -> pd.DataFrame:
    """All points of the space."""
    return pd.DataFrame(
        itertools.product(*(feature.values for feature in explainer.space.features)), columns=explainer.space.names
    )


def newer(limit: int) -> Any:
    """A model that is kinder than the old one, or, with the limit 4, harder."""
    table = make_history()
    kind = (table["income"] >= limit) | ((table["accounts"] == 0) & (limit < 4))
    encoder = fit_boosted_trees(table)[:-1]
    tree = DecisionTreeClassifier(random_state=0)
    return make_pipeline(encoder, tree.fit(encoder.transform(table), np.where(kind, "good", "bad")))


@pytest.mark.parametrize("limit", [2, 3, 4])
def test_every_status_is_what_all_points_of_the_space_say(limit: int) -> None:
    batch, table = make_explainer().explain_many(workers=1), make_history()
    model = newer(limit)
    explainer = Explainer(model, table, desired="good")
    found = explainer.recheck(batch)
    points = everybody(explainer)
    desired = model.predict(points) == "good"
    assert isinstance(found, Recheck)
    assert [item.name for item in found] == list(batch.rows)
    for item, explanation in zip(found, batch, strict=True):
        covered = explanation.rule.covers(points)
        if model.predict(table.iloc[[item.name]])[0] == "good":
            assert item.status == "overturned"
        elif (covered & desired).any():
            assert item.status == "breaks"
            assert item.counterfactual is not None
            exception = pd.DataFrame([dict(item.counterfactual.values)])
            assert explanation.rule.covers(exception)[0]
            assert model.predict(exception[list(table.columns)])[0] == "good"
        else:
            assert item.status == "holds"
            assert isinstance(item.verdict, Proven)
    assert sum(found.counts.values()) == len(batch)


def test_several_kinds_of_end_were_seen() -> None:
    batch, seen = make_explainer().explain_many(workers=1), set()
    for limit in (2, 3, 4):
        seen |= set(Explainer(newer(limit), make_history(), desired="good").recheck(batch).counts)
    assert seen >= {"holds", "breaks", "overturned"}


def test_the_same_model_breaks_nothing() -> None:
    explainer = make_explainer()
    batch = explainer.explain_many(workers=1)
    assert explainer.recheck(batch).counts == {"holds": len(batch)}


def test_a_model_that_can_only_be_asked_leaves_rules_undecided_or_broken() -> None:
    from applications import score, wide

    explainer = Explainer(score, wide(80), threshold=0.5)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    stored = {"first": explainer.explain(row)}
    assert set(explainer.recheck(stored).counts) == {"undecided"}
    kinder = Explainer(lambda table: score(table) + 0.3, wide(80), threshold=0.5)
    found = kinder.recheck(stored)
    assert found[0].status in ("breaks", "overturned")
    assert found[0].name == "first"


def test_explanations_may_come_as_they_are_or_in_a_list() -> None:
    explainer = make_explainer()
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    one = Explanation.from_json(explainer.explain(row).to_json())
    assert [item.status for item in explainer.recheck(one)] == ["holds"]
    assert [item.name for item in explainer.recheck([one, one])] == [0, 1]
    with pytest.raises(InputError, match=r"explanations must be a batch, .*, got int"):
        explainer.recheck(7)


def test_an_explanation_of_other_data_is_refused_with_what_does_not_fit() -> None:
    explainer, table = make_explainer(), make_history()
    stored = {"first": explainer.explain(int(np.flatnonzero(~explainer.outcomes)[0]))}
    other = table.assign(income=table["income"].map("grade {}".format))
    with pytest.raises(InputError, match="'first' does not fit the data: 'income' must be a string") as refused:
        Explainer(lambda rows: rows["job"] == "cook", other, desired=True).recheck(stored)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("use the data, the space and the constraints that it was made with")
    assert "extend" not in str(refused.value)


def test_a_recheck_can_be_shown_and_kept() -> None:
    batch = make_explainer().explain_many(workers=1)
    found = Explainer(newer(3), make_history(), desired="good").recheck(batch)
    assert f"{len(batch)} explanations rechecked" in str(found)
    data = found.to_dict()
    assert len(data["explanations"]) == len(batch)
    for item in found.select("breaks"):
        assert str(item.counterfactual) in str(found)
