"""Counterfactuals of many rows: each as it is alone, whatever the workers, and stored so that they can be continued."""

from __future__ import annotations

import json
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from batch_examples import make_explainer, make_history
from ironrule import Batch, Budget, Counterfactuals, CounterfactualsBatch, Explainer
from ironrule.errors import InputError, ModelError
from ironrule.explain.batch import process_pool, run
from ironrule.verdict.budget import Meter


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return make_explainer()


def without_times(found: Counterfactuals) -> Any:
    """What was found, without times, which differ from run to run."""
    document = found.to_dict()
    for name in ("digest", "seconds"):
        del document[name]
    for name in ("seconds", "operator_seconds", "compile_seconds"):
        del document["statistics"][name]
    return document


def read_contents(batch: CounterfactualsBatch) -> dict[int, Any]:
    return {row: without_times(found) for row, found in zip(batch.rows, batch, strict=True)}


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_gets_what_it_gets_alone(explainer: Explainer, workers: int) -> None:
    batch = explainer.counterfactuals_many(k=2, workers=workers)
    denied = explainer.row_numbers[~explainer.outcomes].tolist()
    assert list(batch.rows) == denied
    assert batch.complete
    assert batch.counts == {"to_explain": len(denied), "desired": int(explainer.outcomes.sum())}
    for row in denied[:10]:
        assert without_times(batch.get_counterfactuals(row)) == without_times(explainer.counterfactuals(row, k=2))
    with pytest.raises(InputError, match="has no counterfactuals of row"):
        batch.get_counterfactuals(int(explainer.row_numbers[explainer.outcomes][0]))


def test_rows_may_be_a_table_with_new_values(explainer: Explainer) -> None:
    table = make_history(30)
    table["debt"] += 0.125
    batch = explainer.counterfactuals_many(table, k=1, workers=1)
    assert len(batch) + batch.counts["desired"] == 30
    for row in batch.rows[:5]:
        alone = explainer.counterfactuals(table.iloc[[row]], k=1)
        assert [str(item) for item in batch.get_counterfactuals(row)] == [str(item) for item in alone]


def test_the_table_has_all_counterfactuals_and_what_changes(explainer: Explainer) -> None:
    batch = explainer.counterfactuals_many(k=2, workers=1, features_to_vary=["income", "accounts"])
    frame, changes = batch.to_frame(), batch.to_frame(only_changes=True)
    assert frame.index.names == ["row", "counterfactual"]
    assert list(frame.index) == list(changes.index)
    assert len(frame) == sum(map(len, batch)) == batch.summarize()["counterfactuals"]
    assert explainer.space.names == tuple(frame.columns)
    assert all(explainer.is_desired(dict(row)) for _, row in frame.iterrows())
    assert (changes[["job", "debt"]] == "-").all().all()
    assert (changes[["income", "accounts"]] != "-").any(axis=1).all()


def test_options_reach_every_row(explainer: Explainer) -> None:
    batch = explainer.counterfactuals_many(
        workers=1, permitted_range={"income": [0, 3]}, constraints=["cf.job == x.job"], algorithm="exact"
    )
    for found in batch:
        assert all(item.values["income"] <= 3 and item.values["job"] == found.instance["job"] for item in found)
    fixed = explainer.counterfactuals_many(k=1, workers=1, features_to_vary=["debt"])
    assert fixed.summarize()["proven_to_have_none"] == len(fixed) > 0
    assert "have none" in str(fixed)
    assert len(fixed.to_frame()) == 0


def test_rows_that_no_rule_can_explain_have_counterfactuals_too() -> None:
    table = make_history()
    explainer = make_explainer(margin=0.2)
    assert len(explainer.counterfactuals_many(table, k=1, workers=1)) == int((~explainer.outcomes).sum())


def test_a_folder_is_continued_and_opened(explainer: Explainer, tmp_path: Path, monkeypatch: Any) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(run, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 1)
    undisturbed = read_contents(explainer.counterfactuals_many(k=1, workers=1))
    folder, check, looked = tmp_path / "changes", Meter.check, [0]

    def interrupted(self: Meter, *given: int) -> None:
        looked[0] += 1
        if looked[0] == 12:
            raise KeyboardInterrupt
        check(self, *given)

    monkeypatch.setattr(Meter, "check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explainer.counterfactuals_many(output=folder, k=1, workers=1)
    kept = CounterfactualsBatch.open(folder)
    assert not kept.complete
    assert 0 < len(kept) < len(undisturbed)
    assert read_contents(kept).items() <= undisturbed.items()
    assert "still to be searched for" in str(kept)
    whole = explainer.counterfactuals_many(output=folder, k=1, workers=1)
    assert read_contents(whole) == read_contents(CounterfactualsBatch.open(folder)) == undisturbed
    pd.testing.assert_frame_equal(whole.to_frame(), CounterfactualsBatch.open(folder).to_frame())
    assert json.loads(whole.to_json())["searched"] == len(undisturbed)


def test_a_folder_of_another_batch_is_refused(explainer: Explainer, tmp_path: Path) -> None:
    rows = explainer.row_numbers[~explainer.outcomes][:2].tolist()
    explainer.counterfactuals_many(rows, output=tmp_path / "changes", k=1, workers=1)
    explainer.explain_many(rows, output=tmp_path / "rules", workers=1)
    with pytest.raises(InputError, match="other options"):
        explainer.counterfactuals_many(rows, output=tmp_path / "changes", k=1, workers=1, constraints=["cf.debt <= 1"])
    with pytest.raises(InputError, match=r"Batch\.open"):
        CounterfactualsBatch.open(tmp_path / "rules")
    with pytest.raises(InputError, match=r"CounterfactualsBatch\.open"):
        Batch.open(tmp_path / "changes")
    with pytest.raises(InputError, match="must hold a batch of explanations"):
        explainer.explain_many(rows, output=tmp_path / "changes", workers=1)


def test_a_damaged_part_is_searched_again(explainer: Explainer, tmp_path: Path) -> None:
    rows = explainer.row_numbers[~explainer.outcomes][:3].tolist()
    before = read_contents(explainer.counterfactuals_many(rows, output=tmp_path / "changes", k=1, workers=1))
    part = next((tmp_path / "changes").glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-10])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = explainer.counterfactuals_many(rows, output=tmp_path / "changes", k=1, workers=1)
    assert read_contents(again) == before


def test_equal_rows_are_searched_once(explainer: Explainer) -> None:
    table = make_history(20)
    twice = pd.concat([table, table], ignore_index=True)
    batch = explainer.counterfactuals_many(twice, k=1, workers=1)
    kept = batch.storage.columns(("row", "same_as"))
    assert all(same == row % 20 or same < row for row, same in zip(kept["row"], kept["same_as"], strict=True))
    assert len({*kept["same_as"]}) <= len(batch) // 2


def test_a_model_that_can_only_be_asked_is_searched_too() -> None:
    table = make_history(40)
    explainer = Explainer(lambda rows: (rows["income"] >= 3).map({True: "good", False: "bad"}), table, desired="good")
    batch = explainer.counterfactuals_many(k=1, workers=1, budget=Budget(evaluations=500))
    assert batch.complete
    assert not any(found.proven for found in batch)
    assert batch[-1].instance == dict(table.iloc[batch.rows[-1]])
    with pytest.raises(IndexError):
        batch[len(batch)]


def test_the_model_is_asked_about_the_answers_of_several_rows_at_once(monkeypatch: Any) -> None:
    explainer = make_explainer()
    pipeline, asked = type(explainer._context.model.primary), list[int]()
    own = pipeline.desired

    def desired(self: Any, points: Any) -> Any:
        asked.append(len(points))
        return own(self, points)

    monkeypatch.setattr(process_pool, "MAX_TASK_ROWS", 8)
    chosen = explainer.row_numbers[~explainer.outcomes][:8].tolist()
    alone = [str(explainer.counterfactuals(row, k=1)) for row in chosen]
    monkeypatch.setattr(pipeline, "desired", desired)
    batch = explainer.counterfactuals_many(chosen, k=1, workers=1)
    assert [str(batch.get_counterfactuals(row)) for row in chosen] == alone
    assert sum(asked) >= len(chosen)
    assert max(asked) > 1


def test_an_answer_that_the_model_denies_is_an_error_in_a_batch_too(monkeypatch: Any) -> None:
    explainer = make_explainer()
    black_box = type(explainer._context.model.primary)
    monkeypatch.setattr(black_box, "desired", lambda _, points: np.zeros(len(points), dtype=np.bool_))
    with pytest.raises(ModelError):
        explainer.counterfactuals_many(k=1, workers=1)
