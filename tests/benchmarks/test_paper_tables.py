"""Tables, stored records and figures of the paper's evaluation, from records that are made up."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.paper.common import usual_pictures, usual_tables
from benchmarks.paper.drawing import save
from benchmarks.paper.goals import Goal, consistent, faster, minimum
from benchmarks.paper.pictures import Bars, Lines, Panel, Picture
from benchmarks.paper.store import read_records, write_records
from benchmarks.paper.tables import CLASSES, quality_table, shares

RECORDS = [
    {
        "experiment": "real",
        "task": task,
        "method": method,
        "row": row,
        "quality": CLASSES[(row + step) % 7],
        "wall": 0.1 * (row + 1),
        "cpu": 0.1,
        "cardinality": row,
    }
    for task in ("Credit", "Adult")
    for step, method in enumerate(("minimum", "somebody else's"))
    for row in range(5)
]


def test_shares_are_percentages_of_what_was_judged() -> None:
    found = shares([{"quality": "minimum"}, {"quality": "minimum"}, {"quality": "not judged"}, {"failed": "why"}])
    assert found["minimum"] == pytest.approx(200 / 3)
    assert found["not judged"] == pytest.approx(100 / 3)
    assert sum(found.values()) == pytest.approx(100)


def test_a_line_of_the_table_counts_rows_and_failures_and_adds_up_what_is_consistent() -> None:
    group = [{"task": "t", "method": "m", "row": row, "quality": one} for row, one in enumerate(CLASSES)]
    (line,) = quality_table([*group, {"task": "t", "method": "m", "row": 9, "failed": "why", "stopped": None}])
    assert (line["rows"], line["failed"], line["stopped"]) == (8, 1, 0)
    assert line["consistent"] == pytest.approx(400 / 7)


def test_methods_have_their_labels_in_tables() -> None:
    names = [line["method"] for line in usual_tables(RECORDS)["Cardinality and run time"]]
    assert names == ["minimum, exact", "somebody else's"] * 2


def test_records_come_back_from_parquet_as_they_were(tmp_path: Path) -> None:
    records = [*RECORDS, {"experiment": "real", "task": "Credit", "method": "minimum", "row": 7, "failed": "why"}]
    write_records(tmp_path / "new" / "real.parquet", records)
    assert read_records(tmp_path / "new" / "real.parquet") == records


PICTURES: list[Picture] = [
    *usual_pictures("real", "Real classifiers", RECORDS),
    Bars("bars", "Bars", "seconds", [Panel("a", {"x": [1.0], "y": [20.0]})], log=True),
    Lines("lines", "Lines", "share, %", "samples", [10, 100], [Panel("a", {"x": [1.0, 2.0]})] * 5),
]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_figure_says_what_it_shows_and_is_drawn_the_same_each_time(picture: Picture, tmp_path: Path) -> None:
    png, svg = save(picture, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    words = " ".join(ElementTree.parse(svg).getroot().itertext())
    assert picture.title in words
    assert picture.unit in words
    assert all(name in words for panel in picture.panels for name in (panel.title, *panel.values))
    first = svg.read_text()
    assert save(picture, tmp_path)[1].read_text() == first


def test_a_goal_is_missed_by_a_row_that_failed_or_is_of_another_kind() -> None:
    goal = Goal("minimum", ("minimum",), minimum, ("Credit",))
    one = {"task": "Credit", "method": "minimum", "row": 1, "quality": "minimum"}
    assert [line["met"] for line in goal.lines([one, one | {"row": 2}])] == ["yes"]
    assert [line["met"] for line in goal.lines([one, one | {"row": 2, "quality": "not judged"}])] == ["NO"]
    (line,) = goal.lines([one, {"task": "Credit", "method": "minimum", "row": 2, "failed": "why"}])
    assert (line["reached, %"], line["met"]) == (50.0, "NO")
    assert goal.lines([one | {"task": "Adult"}, one | {"method": "anchor"}]) == []


def test_what_is_consistent_counts_every_rule_that_is_proven_to_hold() -> None:
    assert consistent([{"quality": quality} for quality in CLASSES]) == pytest.approx(400 / 7)


def test_times_are_compared_on_the_rows_that_both_explained() -> None:
    ours = [{"task": "t", "method": "minimum", "row": row, "wall": 1.0 + row, "cpu": 1.0} for row in range(3)]
    theirs = [{"task": "t", "method": "anchor", "row": row, "wall": 10.0, "cpu": 50.0} for row in (0, 2, 9)]
    (line,) = faster([*ours, *theirs], "minimum")
    assert (line["rows"], line["times longer, wall"], line["times longer, cpu"]) == (2, 5.0, 50.0)
