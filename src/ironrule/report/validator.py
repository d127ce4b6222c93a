"""The report for whoever must vouch for the explanation: verdict, proof, scope, how it was found, how to check it."""

from __future__ import annotations

import base64
from html import escape

import ironrule
from ironrule.counting import counted
from ironrule.explain import Explanation
from ironrule.explain.background import Background
from ironrule.report.pictures.growth import growth_of
from ironrule.report.pictures.ladder import ladder_of
from ironrule.report.pictures.layouts import growth_drawing, ladder_drawing, needs_drawing
from ironrule.report.pictures.looks import look_of
from ironrule.report.pictures.needs import needs_of
from ironrule.report.pieces import PAGE, badge, facts, listed, paragraph, picture, section, table
from ironrule.report.recheck import EXPLANATION, Recheck
from ironrule.report.text import how_short, verdict_word, what_is_undecided, what_it_withstands, why_asked, wider_lines
from ironrule.report.words import wider_of
from ironrule.rule import shown
from ironrule.rule.weights import as_text
from ironrule.verdict import Certificate, Proven
from ironrule.verdict.digest import FIELD

LONGEST = 2_000_000  # letters of an explanation that a report carries along


def validator_title(explanation: Explanation) -> str:
    """What the report is called."""
    return f"Explanation, {verdict_word(explanation.verdict)}: {explanation.rule}"


def validator_body(explanation: Explanation, recheck: Recheck) -> str:
    """The whole report as HTML."""
    document = explanation.to_dict()
    return (
        f"<h1>Explanation of one decision</h1>\n{_verdict(explanation)}"
        f"{section('Proof', facts(proof_facts(explanation)))}"
        f"{section('Scope', facts(scope_facts(explanation)))}"
        f"{section('How it was found', facts(search_facts(explanation)))}"
        f"{_check(explanation, recheck, str(document[FIELD]))}"
        f"{_pictures(explanation)}"
        f"{_others(explanation)}{_counterfactuals(explanation)}"
        f"{section('The row', facts((name, shown(value)) for name, value in explanation.instance.items()))}"
    )


def _verdict(explanation: Explanation) -> str:
    told = [f"Verdict: {explanation.verdict}."]
    told += [f"Components: {explanation.rule.counted}{how_short(explanation)}."]
    told += [f"Past rows covered: {explanation.coverage:,} of {explanation.history_rows:,}."]
    told += [*what_is_undecided(explanation), *wider_lines(explanation), *what_it_withstands(explanation)]
    told += why_asked(explanation)
    if explanation.statistics.stopped:
        told.append(f"The search was stopped early ({explanation.statistics.stopped}).")
    return (
        f'<div class="answer"><p><strong>{escape(str(explanation.rule))}</strong></p>'
        f"<p>{badge(look_of(explanation.verdict))}</p>{''.join(map(paragraph, told))}"
        f"<pre>{escape(explanation.rule.to_sql())}</pre></div>\n"
    )


def proof_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What was proven and by what, or that nothing was."""
    verdict = explanation.verdict
    holds = _certificate(verdict.certificate) if isinstance(verdict, Proven) else "not proven; there is no certificate"
    rows = [("That the rule holds", holds), ("That nothing shorter holds", _lower_bound(explanation))]
    wider = wider_of(explanation)
    if wider is not None and isinstance(wider.verdict, Proven):
        further = f"no bound can move further (counterfactuals that show it: {len(explanation.limits)})"
        end = further if explanation.widest else "not known whether bounds can move further"
        rows.append(("That the wider rule holds", f"{_certificate(wider.verdict.certificate)}; {end}"))
    return rows


def _certificate(certificate: Certificate) -> str:
    drawn = certificate.drawn()
    if drawn.method == "enumeration":
        return f"enumeration: the model was asked about {_every(drawn.points)} of the box"
    covers = counted(len(drawn.covers), "cover")
    return f"cover: the box in {counted(drawn.points, 'piece')} ({covers}), each with a bound"


def _every(points: int) -> str:
    return "the only point" if points == 1 else f"all {points:,} points"


def _lower_bound(explanation: Explanation) -> str:
    if not explanation.lower_bound:
        return "the empty rule is as short as can be" if explanation.minimum else "nothing is known of that"
    need = counted(len(explanation.witnesses), "counterfactual needs", "counterfactuals need")
    weight = f"{need} a rule that weighs {as_text(explanation.lower_bound)}"
    return f"{weight}; this one weighs {as_text(explanation.weight)}"


def scope_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """What the rule speaks about: space, model, what counts as desired, which rules were permitted."""
    decision, permitted, background = explanation.decision, explanation.permitted, explanation.background
    desired = "by score" if decision.desired is None else ", ".join(map(shown, decision.desired))
    threshold = "the model's own" if decision.threshold is None else repr(float(decision.threshold))
    weights = "1 each" if permitted.weights is None else str(permitted.to_dict()["weights"])
    rows = [("Space (SHA-256)", explanation.space)]
    rows += [] if background is None else [_size(background)]
    rows += [] if background is None and not explanation.constraints else [_constraints(explanation)]
    rows += [("Model (SHA-256)", explanation.model or "not recorded")]
    rows += [("Model could be read", "yes" if explanation.unread is None else f"no: {explanation.unread}")]
    rows += [("Desired", desired), ("Threshold", threshold), ("Margin", repr(float(decision.margin)))]
    rows += [("Required in the rule", ", ".join(permitted.require) or "nothing")]
    rows += [("Forbidden in the rule", ", ".join(permitted.forbid) or "nothing"), ("Weights", weights)]
    rows += [("Holds for", "this model" if explanation.models == 1 else f"{explanation.models} models at once")]
    return [*rows, ("Past rows", f"{explanation.history_rows:,}")]


def _size(background: Background) -> tuple[str, str]:
    size = f"{counted(len(background.captions), 'feature')}, {background.space_size:.4g} points"
    return "Its size", size


def _constraints(explanation: Explanation) -> tuple[str, str]:
    """As the explanation names them; one that was written before explanations did has them from the data."""
    background = explanation.background
    known = explanation.constraints or (() if background is None else background.constraints)
    return "Its constraints", "; ".join(known) or "none"


def search_facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Algorithm, seed, effort and versions."""
    stats, background = explanation.statistics, explanation.background
    made = () if background is None else background.libraries
    asked = f"{counted(stats.evaluations, 'evaluation')}, {counted(stats.oracle_calls, 'oracle call')}"
    return [
        ("Algorithm", stats.algorithm),
        ("Seed", str(stats.seed)),
        ("Effort", f"{asked}, {stats.seconds:.3g} s"),
        ("Ended", f"early ({stats.stopped})" if stats.stopped else "by itself"),
        ("Made with", ", ".join(f"{name} {version}" for name, version in made) or "not recorded in the explanation"),
        ("Report by", f"ironrule {ironrule.__version__}, which has not checked the explanation again"),
    ]


def _check(explanation: Explanation, recheck: Recheck, digest: str) -> str:
    text = explanation.to_json()
    hint = "Put the files of the model and of the past rows in place of MODEL and DATA, and add --space, --constraint, "
    hint += "--models, --extend-domain or --intervals if the explanation was made with them."
    return section(
        "How to check it",
        paragraph("It verifies every claim against the model and the data, by code that shares none with the search."),
        f"<pre>{escape(recheck.command)}</pre>",
        "" if recheck.complete else paragraph(hint, "small"),
        _attached(text),
        facts([("Digest of the explanation", digest)]),
    )


def _attached(text: str) -> str:
    if len(text) > LONGEST:
        return paragraph("The explanation with its certificate is too long to be carried along in this file.", "small")
    data = base64.b64encode(text.encode()).decode("ascii")
    link = f'<a download="{EXPLANATION}" href="data:application/json;base64,{data}">{EXPLANATION}</a>'
    return f"<p>The explanation with its certificate is in this file: {link} ({len(text.encode()):,} bytes).</p>"


def _pictures(explanation: Explanation) -> str:
    if not explanation.rule.components:
        return ""
    drawings = (
        *map(ladder_drawing, ladder_of(explanation).split(PAGE)),
        needs_drawing(needs_of(explanation)),
        growth_drawing(growth_of(explanation)),
    )
    return section("Pictures", *map(picture, drawings))


def _others(explanation: Explanation) -> str:
    rows = [
        (
            f"{place}",
            " and ".join(other.rule.conditions) or "everyone",
            verdict_word(other.verdict),
            f"{other.coverage:,}",
        )
        for place, other in enumerate(explanation.ranked[1:], 2)
    ]
    return section("Other rules", table(("", "rule", "verdict", "past rows"), rows)) if rows else ""


def _counterfactuals(explanation: Explanation) -> str:
    told = [escape(str(one)) for one in explanation.counterfactuals]
    return section("Counterfactuals", listed(told, ordered=True))
