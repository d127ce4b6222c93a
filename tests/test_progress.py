"""Progress bars: where they appear and what they say."""

from __future__ import annotations

import sys
import types

import pytest

from ironrule.progress import ProgressBar, track


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
