"""A batch as a piece of HTML, for notebooks. No scripts, no network, everything escaped."""

from __future__ import annotations

from html import escape

from ironrule.explain.batches import Batch
from ironrule.report.batch_text import few_sentence, summary_lines
from ironrule.report.html import COLOURS

MOST_SHOWN = 25


def batch_html(batch: Batch) -> str:
    """The counts, a badge per verdict, and the few rules that cover all proven rows."""
    few = batch.few_rules()
    badges = "".join(_badge(word, count) for word, count in sorted(batch.verdicts.items()))
    told = "".join(f"<p>{escape(line)}.</p>" for line in summary_lines(batch))
    cell = 'style="padding:2px 10px;text-align:left;vertical-align:top;border-bottom:1px solid #ccc"'
    rows = "".join(
        f"<tr><td {cell}>{rule.rows:,}</td><td {cell}><code>{escape(rule.rule)}</code></td></tr>"
        for rule in few.rules[:MOST_SHOWN]
    )
    table = f"<p>{escape(few_sentence(few))}:</p><table>{rows}</table>" if rows else ""
    style = "font-family:system-ui,sans-serif;max-width:60em;line-height:1.45"
    return f'<div style="{style}"><p>{badges}</p>{told}{table}</div>'


def _badge(word: str, count: int) -> str:
    style = f"background:{COLOURS[word]};color:#fff;border-radius:4px;padding:2px 8px;margin-right:6px"
    return f'<span style="{style}">{count:,} {word}</span>'
