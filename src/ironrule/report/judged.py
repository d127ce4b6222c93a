"""A judgement as text, and as a piece of HTML for notebooks."""

from __future__ import annotations

from html import escape

from ironrule.explain import Judgement
from ironrule.rule.weights import Number, as_text
from ironrule.verdict import Quality

COLOURS = {
    Quality.NOT_JUDGED: "#8a5a00",
    Quality.FAILED_DATA: "#a1260d",
    Quality.FAILED_GLOBAL: "#a1260d",
    Quality.REDUNDANT: "#1b6e3c",
    Quality.IRREDUNDANT: "#1b6e3c",
    Quality.MINIMUM: "#1b6e3c",
}


def judgement_text(judgement: Judgement) -> str:
    """The rule, its class, and what shows it."""
    return "\n".join([str(judgement.rule), f"Quality: {judgement.quality}.", *what_shows_it(judgement)])


def judgement_html(judgement: Judgement) -> str:
    """The same for a notebook: no scripts, no network, everything escaped."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in what_shows_it(judgement))
    return (
        '<div style="font-family:system-ui,sans-serif;max-width:46em;line-height:1.45">'
        f"<p><strong>{escape(str(judgement.rule))}</strong></p>"
        f'<p><span style="background:{COLOURS[judgement.quality]};color:#fff;border-radius:4px;padding:2px 8px">'
        f"{judgement.quality}</span></p>{lines}</div>"
    )


def what_shows_it(judgement: Judgement) -> list[str]:
    """The evidence for the class that a rule is in, in sentences."""
    return [*_against(judgement), *_shorter(judgement), *_for(judgement)]


def _against(judgement: Judgement) -> list[str]:
    if judgement.exception is None:
        return []
    where = "An exception" if judgement.past_row is None else f"Past row {judgement.past_row} is an exception"
    return [f"{where}: {judgement.exception}."]


def _shorter(judgement: Judgement) -> list[str]:
    if judgement.shorter is None:
        return []
    if judgement.redundant is not None:
        return [f"Without {judgement.redundant} it still holds: {judgement.shorter.rule}"]
    return [f"A shorter rule holds: {judgement.shorter.rule}"]


def _for(judgement: Judgement) -> list[str]:
    lines = []
    if judgement.quality >= Quality.IRREDUNDANT and judgement.needed:
        lines.append("Nothing in it is redundant: each component alone excludes some counterfactual.")
    if judgement.least is not None:
        lines.append(_compared(judgement, judgement.least))
    if judgement.reason is not None:
        lines.append(f"{judgement.reason[:1].upper()}{judgement.reason[1:]}.")
    return lines


def _compared(judgement: Judgement, least: Number) -> str:
    """The rule's length beside the least there is; weights are spoken of where they make a difference."""
    if judgement.weight == judgement.cardinality:
        return f"Components: {judgement.rule.counted}; the shortest rules for this row have {as_text(least)}."
    return f"It weighs {as_text(judgement.weight)}; the lightest rules for this row weigh {as_text(least)}."
