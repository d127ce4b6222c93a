"""Progress bars: where they appear and what they say."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import pytest

import ironrule.progress
from ironrule.progress import DELAY_SECONDS, ProgressBar, SearchStatus, track
from waiting import PATIENCE


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.progress.DELAY_SECONDS", -1.0)


@pytest.mark.usefixtures("_at_once")
def test_a_bar_says_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(4), "Reading", 4, visible=True)) == [0, 1, 2, 3]
    assert "Reading" in capsys.readouterr().err


@pytest.mark.usefixtures("_at_once")
def test_a_bar_without_a_total_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("Explaining", None, visible=True, already_done=5) as bar:
        bar.update(7)
    assert "7" in capsys.readouterr().err


@pytest.mark.usefixtures("_at_once")
def test_nothing_is_drawn_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(4), "Reading", 4)) == [0, 1, 2, 3]
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_at_once")
def test_a_notebook_shows_the_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    list(track(range(4), "Reading", 4))
    assert "Reading" in capsys.readouterr().err


def test_short_work_shows_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    list(track(range(4), "Reading", 4, visible=True))
    assert capsys.readouterr().err == ""


def test_a_search_says_what_it_does_and_what_it_has_used_of_its_budget() -> None:
    assert SearchStatus(lambda: "Searching", lambda: 12.3, 30.0).format() == "Searching; 12 of 30 s"
    assert SearchStatus(lambda: "Searching", lambda: 12.3, None).format() == "Searching; 12 s"


@pytest.mark.usefixtures("_at_once")
def test_a_search_is_shown_while_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.progress.REDRAW_SECONDS", 0.0)
    drawn = threading.Semaphore(0)

    def describe() -> str:
        drawn.release()
        return "Searching: best rule so far 7, none below 5"

    with SearchStatus(describe, lambda: 12.3, 30.0, visible=True):
        for _ in range(3):  # the search goes on until it was drawn, and drawn again
            assert drawn.acquire(timeout=PATIENCE)
    assert "Searching: best rule so far 7, none below 5; 12 of 30 s" in capsys.readouterr().err


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("visible", [None, False])
def test_a_search_is_not_shown_where_nobody_looks(visible: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with SearchStatus(lambda: "Searching", lambda: 1.0, None, visible):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_a_short_search_shows_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ironrule.progress.DELAY_SECONDS", 3600.0)
    with SearchStatus(lambda: "Searching", lambda: 1.0, None, visible=True):
        pass
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_in_the_first_second() -> None:
    assert DELAY_SECONDS == 1.0


@pytest.mark.usefixtures("_at_once")
def test_a_bar_does_not_wait_for_the_first_portion(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, build = threading.Event(), ironrule.progress._build_bar

    def build_and_tell(*arguments: Any) -> Any:
        bar = build(*arguments)
        drawn.set()
        return bar

    monkeypatch.setattr(ironrule.progress, "_build_bar", build_and_tell)
    with ProgressBar("Explaining", 3, visible=True):
        assert drawn.wait(timeout=PATIENCE)
    assert "0/3" in capsys.readouterr().err
