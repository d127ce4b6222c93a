"""Nothing bounded is called proven: all outputs of ladders, for every verdict that their rungs can have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ironrule
from ironrule.cli.render import render_explanation_with_short_rule, render_ladder
from ironrule.report.ladder import describe_rung, draw_ladder
from ironrule.results.ladder import Ladder
from ironrule.server.service import build_ladder_entry
from ironrule.verdict.bounded import Bounded, RungVerdict
from ironrule.verdict.digest import add_digest
from ironrule.verdict.verdict import Proven
from notice_examples import (
    DAY,
    GOOD,
    HOPELESS,
    POOR,
    UNKNOWN,
    UNREFUTED,
    make_ladder,
    make_proven,
    make_refuted,
    with_verdicts,
)
from report_examples import read

DENIALS = re.compile(r"(not( a)?|no|un)[ -]?(proven|proof)")  # "bounded, not proven", "This is not a proof"
PROOF = re.compile(r"proven|no exception|without exception|everyone", re.IGNORECASE)
SHORT = {"good": GOOD, "poor": POOR, "hopeless": HOPELESS, "unknown": UNKNOWN}
LAST = {"proven": make_proven, "refuted": make_refuted, "unrefuted": lambda: UNREFUTED}
every_short = pytest.mark.parametrize("short", SHORT)
every_last = pytest.mark.parametrize("last", LAST)


def build(short: str, last: str) -> Ladder:
    """A ladder whose short rungs and last one have these verdicts, its explanation included."""
    verdict: RungVerdict = LAST[last]()
    ladder = with_verdicts(make_ladder(), SHORT[short], verdict)
    explanation = ladder.explanation
    ranked = replace(explanation.ranked[0], verdict=verdict)
    explanation = replace(explanation, ranked=(ranked,), wider=None, lazy_changes=None)
    return replace(ladder, explanation=explanation)


def get_plain(html: str) -> str:
    return " ".join(read(html).text.split())


def list_outputs(ladder: Ladder) -> Iterator[tuple[str, str]]:
    """All texts that people read of a ladder, by name."""
    axes = ladder.plot()
    yield "text", str(ladder)
    yield "repr", repr(ladder)
    yield "terminal", render_ladder(ladder)
    yield "terminal, short rule first", render_explanation_with_short_rule(ladder)
    yield "terminal, a length that was asked for", render_explanation_with_short_rule(ladder, 2)
    yield "notebook", get_plain(ladder._repr_html_())
    yield "validator", get_plain(ladder.to_html("validator"))
    yield "person", get_plain(ladder.to_html("person"))
    yield "notice", get_plain(ladder.to_html("notice", notice=ironrule.NoticeOptions(date=DAY)))
    yield "plot", " ".join(text.get_text() for text in axes.texts)
    yield "what the plot says to screen readers", draw_ladder(ladder).description


def find_claims(text: str) -> list[str]:
    """What a text says of proofs, less what it denies."""
    return PROOF.findall(DENIALS.sub("", text))


@every_short
@pytest.mark.parametrize("last", ["refuted", "unrefuted"])
def test_where_nothing_is_proven_no_output_says_so(short, last):
    for name, text in list_outputs(build(short, last)):
        assert "proven" not in DENIALS.sub("", text.lower()), name


@every_short
@every_last
def test_a_bounded_rule_is_described_as_bounded(short, last):
    ladder = build(short, last)
    for rung in ladder[:-1]:
        assert isinstance(rung.verdict, Bounded)
        sentence = describe_rung(ladder, rung)
        assert "bounded, not proven" in sentence
        assert not find_claims(sentence), sentence


@every_short
def test_beside_a_proof_every_line_about_a_bound_is_about_no_proof(short):
    ladder = build(short, "proven")
    for text in (str(ladder), render_ladder(ladder)):
        assert find_claims(text)
        for line in text.splitlines():
            assert not ("bounded" in line and find_claims(line)), line


@every_short
@every_last
def test_a_bar_of_a_bound_looks_like_no_proof(short, last):
    """Each has the colour of its verdict, and as many bars are called proven as rungs are."""
    ladder = build(short, last)
    proven = [text for text in draw_ladder(ladder).texts if "proven" in DENIALS.sub("", text)]
    assert len(proven) == sum(isinstance(rung.verdict, Proven) for rung in ladder)
    html = ladder._repr_html_()
    colours = re.findall(r"color:(#\w+)\">([^<]+)</td>", html)
    assert len(colours) == len(ladder)
    of_bounds = {colour for colour, worth in colours if worth.startswith("bounded")}
    assert of_bounds.isdisjoint({colour for colour, worth in colours if not worth.startswith("bounded")})


@every_short
def test_the_letter_claims_a_proof_only_inside_the_fold(short):
    html = replace(build(short, "proven"), at_least=0.9).to_html("person")
    if short != "good":  # the complete rule leads, and is proven
        assert "<details>" not in html
        return
    folded = html.split("<details>")[1].split("</details>")[0]
    assert "proven" in folded
    assert not find_claims(get_plain(html.replace(folded, "")))


@every_short
@every_last
def test_json_names_every_verdict_and_refuses_a_bound_that_became_a_proof(short, last):
    data = json.loads(build(short, last).to_json())
    assert {rung["verdict"]["kind"] for rung in data["rungs"]} == {"bounded"}
    assert data["explanation"]["rules"][0]["verdict"]["kind"] == last
    for verdict in ({"kind": "proven"}, data["explanation"]["rules"][0]["verdict"]):
        for place in range(len(data["rungs"])):
            altered = json.loads(json.dumps(data))
            altered["rungs"][place]["verdict"] = verdict
            with pytest.raises(ironrule.InputError):
                Ladder.from_dict(altered)  # the digest is another
            with pytest.raises(ironrule.InputError):
                Ladder.from_dict(add_digest(altered))


@pytest.mark.parametrize("change", [{"exceptions": 0.0}, {"seen": 0}, {"rows": 10**6}, {"confidence": 0.5}])
def test_json_refuses_a_bound_that_its_counts_do_not_give(change):
    data = json.loads(build("good", "proven").to_json())
    data["rungs"][0]["verdict"] |= change
    with pytest.raises(ironrule.InputError):
        Ladder.from_dict(add_digest(data))


@every_short
def test_no_weaker_bounded_rule_comes_before_a_short_proven_one(short):
    """A proven rule of at most four components is the short rule."""
    ladder = build(short, "proven")
    last = ladder.last
    four = replace(ladder, rungs=(*ladder.rungs[:-1], replace(last, rule=ladder.rungs[-2].rule)))
    assert four.last.cardinality <= 4
    assert four.short is four.last
    assert four.find_reason_rung(4) is four.last
    assert "bounded" not in str(four).splitlines()[0]
    assert "bounded" not in render_explanation_with_short_rule(four)
    assert "<details>" not in four.to_html("person")


@every_short
@every_last
def test_the_audit_log_has_the_verdict_of_the_rule_that_was_read_first(short, last):
    for ladder in (build(short, last), replace(build(short, last), at_least=0.9)):
        entry = build_ladder_entry(ladder, 3, "clerk")
        assert entry.verdict == type(ladder.short.verdict).__name__.lower()
        assert (entry.verdict == "proven") == isinstance(ladder.short.verdict, Proven)
        if entry.verdict != "proven":
            assert "proven" not in DENIALS.sub("", entry.rule)
        assert Ladder.from_dict(entry.document).short.verdict == ladder.short.verdict
