"""A batch as text for the terminal: how far it is, what is proven, how long rules are, which few cover all."""

from __future__ import annotations

from ironrule.explain.batches import Batch, FewRules

MOST_SHOWN = 10


def batch_text(batch: Batch) -> str:
    """The counts, then the few rules that cover all proven rows."""
    few = batch.few_rules()
    lines = [f"{line}." for line in summary_lines(batch)]
    lines += [f"{few_sentence(few)}:"] if len(few) else []
    lines += [f"  {rule.rows:>8,} rows  {rule.rule}" for rule in few.rules[:MOST_SHOWN]]
    return "\n".join(lines + _and_more(few))


def summary_lines(batch: Batch) -> list[str]:
    """How many rows, with which verdicts, and how long their rules are."""
    done = f"{len(batch):,} denied rows explained"
    lines = [done if batch.complete else f"{done} of {batch.about['total']:,}; run the same again for the others"]
    if len(batch):
        read = batch.columns("minimum", "cardinality", "seconds")
        words = [f"{count:,} {word}" for word, count in sorted(batch.verdicts.items())]
        lines.append(f"Verdicts: {', '.join(words)}; {sum(read['minimum']):,} rules are minimum")
        sizes = sorted(read["cardinality"])
        lines.append(f"Components: {sizes[0]} to {sizes[-1]}, {sizes[len(sizes) // 2]} in the median")
        lines.append(f"Search: {sum(read['seconds']):,.1f} s in all")
    if batch.about["beyond"]:
        lines.append(f"No rule can withstand so much: {batch.about['beyond']:,} denied rows lie within the margin")
    return lines


def few_sentence(few: FewRules) -> str:
    """How many rules cover how much, and whether fewer could."""
    known = "and no fewer do" if few.minimum else f"and at least {few.lower_bound:,} are needed"
    rest = f" ({few.uncovered:,} rows have no proven rule)" if few.uncovered else ""
    return f"{len(few):,} proven rules cover all {few.covered:,} rows that have one{rest}, {known}"


def _and_more(few: FewRules) -> list[str]:
    rest = few.rules[MOST_SHOWN:]
    return [f"  and {len(rest):,} more"] if rest else []
