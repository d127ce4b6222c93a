"""ironrule demo, and the data that it brings along."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ironrule
from ironrule.data import load_german

WITHOUT_PANDAS = """
import sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pandas", "polars", "pyarrow", "skops", "yaml"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from ironrule.cli import main
sys.exit(main(["demo", *sys.argv[1:]]))
"""


def run_without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_PANDAS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_demo_leads_with_a_short_rule_and_works_without_extras():
    result = run_without_extras()
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "100 boosted trees deny 602 of 1,000 applicants. Why applicant 22? ╭─ bounded, not proven" in text
    assert text.index("This is bounded, not proven") < text.index("Why you can rely on it") < text.index("╭─ proven")


def test_the_short_proven_rule_of_a_tree_comes_first():
    result = run_without_extras("--model", "tree")
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "a decision tree denies 261 of 1,000 applicants. Why applicant 1? ╭─ proven" in text
    assert "gets: 'bad'." in text.replace(" │ │ ", " ")
    assert "Verdict: proven: no point of the rule's box can be desired" in text
    assert "no shorter rule holds" in text
    assert "Past rows covered" in text
    assert "What would have changed the outcome" in text


def test_the_demo_tells_another_row_with_json(run):
    explanation = ironrule.Explanation.from_dict(run("demo", "--model", "tree", "--row", "4", "--json").json)
    features, names, _ = load_german(as_frame=False)
    assert explanation.instance == dict(zip(names, features[4], strict=True))
    assert explanation.coverage >= 1


def test_an_applicant_who_is_not_denied_is_refused_with_one_who_is(refused):
    command = ("demo", "--model", "tree", "--row")
    assert "the model does not deny applicant 0; it denies applicant 1" in refused(*command, "0")
    assert "the row number must be from 0 to 999, got 1000" in refused(*command, "1000")


def test_german_credit_comes_as_a_frame_with_numbers_and_text():
    features, target = load_german()
    assert features.shape == (1000, 19)
    assert features["age_in_years"].dtype.kind == "i"
    assert target.value_counts().to_dict() == {"good": 700, "bad": 300}


def test_german_credit_as_a_frame_names_the_extra_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ironrule.MissingExtraError, match=r"pip install 'ironrule\[pandas\]'"):
        load_german()
