"""Comparisons of two batches as text, as HTML and as a plot of the features that rules name."""

from __future__ import annotations

from collections.abc import Sequence

from ironrule.report.plots import drawing
from ironrule.report.plots.drawing import Drawing, LineSegment, Rectangle, Shape, TextLine
from ironrule.report.templating import render_template
from ironrule.results.comparison import BatchComparison, ComparedRule, ShareChange
from ironrule.wording import format_count, format_percent, join_lines

MAX_TEXT_ROWS = 8
MAX_HTML_ROWS = 60
MAX_DRAWN = 15
NAME_WIDTH, ROW_HEIGHT, BAR_HEIGHT = 230.0, 36.0, 13.0
BAR_LENGTH = drawing.CANVAS_WIDTH - NAME_WIDTH - 60.0
OLD_FILL, NEW_FILL = "#b8b8b8", "#2f6fa7"
STATUS_WORDS = {
    "holds": "hold now: a rule proven in the second batch is wider",
    "breaks": "have an exception now, somebody with the desired outcome",
    "open": "are open: only the new model can say (ironrule recheck)",
}
RECHECKED_WORDS = {
    "holds": "hold for the new model, by proof",
    "breaks": "have an exception now, or their row is approved",
    "open": "are undecided",
}


def summarize_comparison(comparison: BatchComparison) -> list[str]:
    """What changed, in sentences without a full stop."""
    old, new, matched = comparison.old, comparison.new, comparison.matched
    lines = [f"Explained: {format_count(old.explained, 'row')} before, {new.explained:,} now"]
    if old.desired or new.desired:
        lines.append(f"Denied: {format_percent(old.denied_share)} before, {format_percent(new.denied_share)} now")
    verdicts = sorted({*old.verdicts, *new.verdicts})
    counts = [f"{old.verdicts.get(word, 0):,} {word} before, {new.verdicts.get(word, 0):,} now" for word in verdicts]
    lines.append(f"Verdicts: {'; '.join(counts)}")
    lines.append(f"Bounds per rule: median {old.median_length} before, {new.median_length} now")
    if comparison.same_model:
        lines.append("Both were explained with the same model")
    if matched.both:
        parts = [f"{matched.same_rule:,} with the same rule", f"{matched.shorter:,} with a shorter one"]
        parts += [f"{matched.longer:,} with a longer one", f"{matched.other_rule:,} with another of the same length"]
        lost = f"; {matched.lost_proof:,} lost their proof" if matched.lost_proof else ""
        lines.append(f"The same people in both: {matched.both:,}, {', '.join(parts)}{lost}")
    else:
        lines.append("Nobody is in both")
    lines.append(f"Only before: {matched.only_old:,}; only now: {matched.only_new:,}")
    return lines


def describe_rules(comparison: BatchComparison) -> list[str]:
    """What became of the rules of the first batch, in sentences."""
    counts, words = comparison.rule_counts, RECHECKED_WORDS if comparison.rechecked else STATUS_WORDS
    total = format_count(len(comparison.rules), "proven rule", "different proven rules")
    parts = [f"{counts[status]:,} {words[status]}" for status in counts if counts[status]]
    return [f"Of {total} from before, {'; '.join(parts)}"] if parts else []


def format_comparison(comparison: BatchComparison) -> str:
    """The figures, the features and reasons that changed most, and what became of the old rules."""
    lines = [f"{sentence}." for sentence in (*summarize_comparison(comparison), *describe_rules(comparison))]
    broken = [f"  {rule.status}: {rule.rule}" for rule in comparison.rules if rule.status == "breaks"]
    lines += broken[:MAX_TEXT_ROWS]
    if len(broken) > MAX_TEXT_ROWS:
        lines.append(f"  and {len(broken) - MAX_TEXT_ROWS:,} more that break")
    lines += _format_shares("Features that rules name", comparison.features)
    if comparison.reasons is not None:
        lines += _format_shares("Reasons given", comparison.reasons)
    return join_lines(lines)


def _format_shares(title: str, changes: Sequence[ShareChange]) -> list[str]:
    shown = [
        f"  {format_percent(one.old_share):>5} {format_percent(one.new_share):>5}  {one.shown_name}"
        for one in changes[:MAX_TEXT_ROWS]
    ]
    hidden = len(changes) - MAX_TEXT_ROWS
    more = [f"  and {hidden:,} more that changed less"] if hidden > 0 else []
    return [f"{title}, share of explanations before and now:", *shown, *more] if shown else []


def draw_comparison(comparison: BatchComparison) -> Drawing:
    """Two bars per feature: the share of explanations that name it, before and now."""
    changes = comparison.features[:MAX_DRAWN]
    shapes: list[Shape] = [drawing.draw_title("Which features rules name, before and now")]
    top = 40.0
    for at, (name, fill) in enumerate((("before", OLD_FILL), ("now", NEW_FILL))):
        shapes += [Rectangle(NAME_WIDTH + 100 * at, top - 11, 22, 13, fill=fill)]
        shapes.append(TextLine(NAME_WIDTH + 100 * at + 28, top, name, 12))
    first = top = top + 16
    for one in changes:
        label = drawing.wrap_text(one.shown_name, NAME_WIDTH - 8, 12)[0]
        shapes.append(TextLine(NAME_WIDTH - 8, top + 17, label, 12, "end"))
        for at, (share, fill) in enumerate(((one.old_share, OLD_FILL), (one.new_share, NEW_FILL))):
            y, length = top + at * (BAR_HEIGHT + 1), BAR_LENGTH * share
            shapes.append(Rectangle(NAME_WIDTH, y, length, BAR_HEIGHT, fill=fill))
            shapes.append(TextLine(NAME_WIDTH + length + 6, y + 11, format_percent(share), 11, fill=drawing.GREY))
        top += ROW_HEIGHT
    shapes.append(LineSegment(NAME_WIDTH, first - 3, NAME_WIDTH, top - 4, stroke=drawing.INK, width=1))
    hidden = len(comparison.features) - len(changes)
    if hidden > 0:
        shapes.append(drawing.draw_caption(0, top + 10, f"and {hidden:,} more that changed less"))
        top += 16
    described = "; ".join(
        f"{one.shown_name}: {format_percent(one.old_share)}, {format_percent(one.new_share)}" for one in changes
    )
    return Drawing(tuple(shapes), top + 8, f"Shares of explanations before and now. {described}.")


def render_comparison(comparison: BatchComparison) -> str:
    """A comparison as HTML for a notebook."""
    return render_template("notebook_comparison.html", **_build_view(comparison, MAX_DRAWN))


def render_comparison_page(comparison: BatchComparison) -> str:
    """A comparison as one HTML page."""
    return render_template(
        "comparison.html", title="How explanations changed", **_build_view(comparison, MAX_HTML_ROWS)
    )


def _build_view(comparison: BatchComparison, most: int) -> dict[str, object]:
    sizes = sorted({*comparison.old.lengths, *comparison.new.lengths})
    old, new = comparison.old, comparison.new
    return {
        "sentences": [*summarize_comparison(comparison), *describe_rules(comparison)],
        "plot": draw_comparison(comparison),
        "lengths": [(size, f"{old.lengths.get(size, 0):,}", f"{new.lengths.get(size, 0):,}") for size in sizes],
        "features": [_build_share_row(one) for one in comparison.features[:most]],
        "reasons": [_build_share_row(one) for one in (comparison.reasons or ())[:most]],
        "rules": [_build_rule_row(rule) for rule in comparison.rules[:most]],
        "hidden_rules": max(0, len(comparison.rules) - most),
    }


def _build_share_row(one: ShareChange) -> tuple[str, ...]:
    difference = f"{100 * one.difference:+.0f} points"
    return (
        one.shown_name,
        f"{format_percent(one.old_share)} ({one.old_count:,})",
        f"{format_percent(one.new_share)} ({one.new_count:,})",
        difference,
    )


def _build_rule_row(rule: ComparedRule) -> tuple[str, ...]:
    return rule.status, f"{rule.rows:,}", rule.rule, rule.shown_by or ""
