"""Batches with ladders: the same ladders as one by one, kept beside the explanations, and continued after an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batch_examples import make_explainer, make_history
from ironrule import Batch, Bounded, Budget, Explainer, InputError, Ladder, LadderOptions, NoticeOptions
from ironrule.explain.batch.worker import RowExplainer
from notice_examples import make_explainer as make_bank
from report_examples import read


def without_times(ladder: Ladder) -> Any:
    """A ladder without its times and digests, which differ from run to run."""
    document = json.loads(ladder.to_json())
    explanation = document["explanation"]
    explanation.pop("changes", None)
    for name in ("seconds", "operator_seconds", "compile_seconds"):
        del explanation["statistics"][name]
    del document["digest"], explanation["digest"]
    return document


def read_ladders(batch: Batch) -> list[Any]:
    return [without_times(ladder) for ladder in batch.ladders()]


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return make_explainer()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_batch_has_the_ladder_of_every_row(explainer: Explainer, workers: int, tmp_path: Path) -> None:
    chosen = LadderOptions(most=3, nested=False, confidence=0.9)
    batch = explainer.explain_many(workers=workers, ladders=chosen, output=tmp_path / "b", forbid=["income"])
    assert batch.has_ladders
    expected = [without_times(explainer.ladder(row, forbid=["income"], **chosen.to_kwargs())) for row in batch.rows]
    assert read_ladders(batch) == read_ladders(Batch.open(tmp_path / "b")) == expected
    row = batch.rows[1]
    assert without_times(batch.get_ladder(row)) == expected[1]
    assert batch.get_explanation(row).rule == batch.get_ladder(row).explanation.rule
    assert "ladder_document" not in batch.to_frame().columns


def test_a_batch_has_the_verdicts_of_the_last_rungs_and_stores_the_others_as_bounded() -> None:
    bank = make_bank()
    rows = np.flatnonzero(~bank.outcomes)[:4]
    batch = bank.explain_many(rows, workers=1, ladders=LadderOptions(most=3), budget=Budget(evaluations=5000))
    ladders = list(batch.ladders())
    frame = batch.to_frame()
    assert frame["verdict"].tolist() == [type(ladder.last.verdict).__name__.lower() for ladder in ladders]
    stored = [rung for ladder in ladders for rung in ladder.to_dict()["rungs"]]
    assert stored
    assert {rung["verdict"]["kind"] for rung in stored} == {"bounded"}
    letters = batch.to_html("person")
    leading = [part.split("<details>")[0] for part in letters.split("<article")[1:]]
    assert len(leading) == len(ladders)
    for letter, ladder in zip(leading, ladders, strict=True):
        assert ("This is no proof" in letter) == isinstance(ladder.short.verdict, Bounded)


def test_suggested_changes_are_those_of_the_ladders_explanation(explainer: Explainer) -> None:
    batch = explainer.explain_many([0, 1, 2, 3], workers=1, ladders=True, changes=True)
    assert all(ladder.explanation.changes is not None for ladder in batch.ladders())


def test_a_batch_with_ladders_is_continued(
    explainer: Explainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = explainer.explain_many(workers=1, ladders=True)
    plain, asked_about = RowExplainer.explain_task, list[int]()
    last = int(expected.rows[len(expected) // 2])

    def explain_some(self: RowExplainer, task: Any) -> Any:
        asked_about.extend(task[0])
        if last in task[0]:
            raise KeyboardInterrupt
        return plain(self, task)

    with monkeypatch.context() as patch:
        patch.setattr(RowExplainer, "explain_task", explain_some)
        with pytest.raises(KeyboardInterrupt):
            explainer.explain_many(workers=1, ladders=True, output=tmp_path / "b")
    finished = Batch.open(tmp_path / "b")
    assert 0 < len(finished) < len(expected)
    assert finished.has_ladders
    continued = explainer.explain_many(workers=1, ladders=True, output=tmp_path / "b")
    assert continued.complete
    assert read_ladders(continued) == read_ladders(expected)


def test_other_ladders_are_another_batch(explainer: Explainer, tmp_path: Path) -> None:
    explainer.explain_many([0, 1, 2, 3], workers=1, ladders=True, output=tmp_path / "b")
    table = make_history()
    other = make_explainer(measure=np.arange(len(table)) % 3 == 0)
    for again, ladders in ((explainer, False), (explainer, LadderOptions(most=2)), (other, True)):
        with pytest.raises(InputError, match="other options"):
            again.explain_many([0, 1, 2, 3], workers=1, ladders=ladders, output=tmp_path / "b")
    assert explainer.explain_many([0, 1, 2, 3], workers=1, ladders=LadderOptions(), output=tmp_path / "b").complete


def test_what_does_not_go_with_ladders_is_refused(explainer: Explainer) -> None:
    with pytest.raises(InputError, match="needs documents, and a search for every row, got reuse of rules"):
        explainer.explain_many(ladders=True, reuse=True)
    with pytest.raises(InputError, match="got no documents"):
        explainer.explain_many(ladders=True, documents=False)
    with pytest.raises(InputError, match="ladders must be True, False or a LadderOptions, got 3"):
        explainer.explain_many(ladders=3)  # type: ignore[arg-type]


def test_a_batch_without_ladders_says_so(explainer: Explainer) -> None:
    batch = explainer.explain_many(workers=1)
    assert not batch.has_ladders
    with pytest.raises(InputError, match="the batch was made without ladders"):
        next(batch.ladders())
    with pytest.raises(InputError, match="the batch was made without ladders"):
        batch.to_html("notice")


def test_a_batch_gives_a_notice_per_row_with_its_own_fields(explainer: Explainer) -> None:
    batch = explainer.explain_many(workers=1, ladders=True)
    people = {row: {"recipient": f"Person {row}"} for row in batch.rows}
    html = batch.to_html("notice", notice=NoticeOptions(fields={"creditor": "Bank"}, fields_by_row=people))
    found = read(html)
    assert found.tags.count("article") == len(batch)
    assert all(f"Person {row} " in found.text for row in batch.rows)
    assert found.text.count("Bank") == len(batch)
    assert ".notice + .notice { break-before: page" in html


def test_a_row_without_reasons_is_named(explainer: Explainer) -> None:
    from ironrule.results.reasons import ReasonCatalogue

    batch = explainer.explain_many(workers=1, ladders=True)
    with pytest.raises(InputError, match=f"row {batch.rows[0]}: the reason catalogue has no entry"):
        batch.to_html("notice", notice=NoticeOptions(catalogue=ReasonCatalogue({})))


def test_letters_of_a_batch_with_ladders_show_past_rows(explainer: Explainer) -> None:
    batch = explainer.explain_many([0, 1, 2, 3, 4, 5], workers=1, ladders=True)
    html = batch.to_html("person", history=explainer)
    assert "How your case compares with past cases" in html
    assert read(html).tags.count("article") == len(batch)


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_with_values_that_no_past_row_has_get_ladders_too(workers: int) -> None:
    table = make_history()
    explainer = make_explainer(measure=make_history(240).iloc[120:])
    denied = table[~explainer.outcomes].iloc[:3].copy()
    denied["debt"] = [-7.5, 1234.5, -1.0]
    batch = explainer.explain_many(denied, workers=workers, ladders=True)
    assert len(batch) > 0
    for row, ladder in zip(batch.rows, batch.ladders(), strict=True):
        assert ladder.measured_from == "table"
        assert ladder.explanation.instance["debt"] == denied["debt"].iloc[row]
        assert all(rung.rule.covers(denied.iloc[[row]])[0] for rung in ladder)
