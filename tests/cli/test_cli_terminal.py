"""Text for a terminal: widths, folds, colours and what user data cannot do."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st

from ironrule.cli import main
from ironrule.cli.terminal import format_line, format_panel, format_table, show_spinner


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)


def _measure(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def test_a_long_line_is_folded_at_words() -> None:
    assert format_line("word " * 20).split("\n") == [
        " ".join(["word"] * 8),
        " ".join(["word"] * 8),
        "word word word word",
    ]


@pytest.mark.parametrize("text", ["short", "word " * 30, "x" * 90, "income", "収入 " * 20, ""])
def test_a_panel_is_as_wide_as_the_terminal(text: str) -> None:
    lines = format_panel(text, "proven", "green").split("\n")
    assert {_measure(line) for line in lines} == {40}
    assert "proven" in lines[0]


def test_a_table_folds_its_widest_cells_and_separates_sections() -> None:
    rows = [("1", "debt", "x" * 60), ("", "income", "3"), ("2", "age", "4")]
    lines = format_table(("", "feature", "value"), rows, section_ends=[1, 2]).split("\n")
    assert max(map(len, lines)) <= 40
    assert sum(line.count("x") for line in lines) == 60
    place = lines.index("")  # the first line is empty, the next empty one ends the first section
    assert place == 0
    assert [line for line in lines if not line.strip()] == ["", "", ""]


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), min_size=1, max_size=4))
def test_no_text_leaves_the_width_or_carries_a_control_character(rows: list[tuple[str, str]]) -> None:
    table = format_table(("one", "two"), rows)
    assert all(_measure(line) <= 40 for line in table.split("\n"))
    assert all(line.isprintable() for line in table.split("\n"))


def test_words_stay_whole_in_a_table_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    values = "'Federal-gov', 'Local-gov', 'Self-emp-not-inc', 'Without-pay-at-all-since-a-long-time'"
    rows = [("marital-status", "nominal", values, "immutable (guessed)"), ("x", "ordered", "0 to 1", "")] * 2
    lines = format_table(("feature", "kind", "values", "role " * 8), rows).split("\n")
    text = " ".join(lines)
    for whole in ("marital-status", "'Federal-gov',", "'Self-emp-not-inc',", "immutable"):
        assert whole in text
    assert any(line.rstrip().endswith("-") for line in lines), "what is too long is cut behind a hyphen"
    assert max(map(len, lines)) <= 80


@given(st.text("ab-_ ,", min_size=1, max_size=60), st.integers(20, 50))
def test_folding_loses_no_letter_and_keeps_the_width(text: str, width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        lines = format_line(text).split("\n")
    assert max(map(len, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_colours_appear_only_in_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert format_line("rule", "bold red") == "rule"
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert format_line("rule", "bold red") == "\x1b[1;31mrule\x1b[0m"
    assert "\x1b[2K" not in format_line("a\x1b[2Kb", "red")  # a value of the data is no command to the terminal
    monkeypatch.setenv("NO_COLOR", "1")
    assert format_line("rule", "bold red") == "rule"


def test_frames_are_plain_where_the_encoding_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert format_panel("rule", "proven", "green").isascii()
    assert format_table(("one",), [("cell",)]).isascii()


def test_the_spinner_writes_and_clears_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("ironrule.cli.terminal.SPINNER_DELAY", 0.0)
    with show_spinner("Searching"):
        while "Searching" not in terminal.getvalue():
            pass
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_without_a_terminal_there_is_no_spinner(capsys: pytest.CaptureFixture[str]) -> None:
    with show_spinner():
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("styled", ["out", "err"])
def test_a_command_is_styled_for_standard_output_alone(styled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {"out": io.StringIO(), "err": io.StringIO(), styled: Terminal()}
    monkeypatch.setattr(sys, "stdout", streams["out"])
    monkeypatch.setattr(sys, "stderr", streams["err"])
    assert main(["demo"]) == 0
    shown = streams["out"].getvalue()
    assert ("\x1b[1mGerman credit" in shown) == (styled == "out")
    assert "\\x1b" not in shown
