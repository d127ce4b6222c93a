"""A batch as text for the terminal: how far it is, what is proven, how long rules are, which few cover all."""

from __future__ import annotations

from ironrule.counting import counted
from ironrule.explain.batches import Batch, FewRules

MOST_SHOWN = 10


def batch_text(batch: Batch) -> str:
    """The counts, then the few rules that cover all proven rows."""
    few = batch.few_rules()
    lines = [f"{line}." for line in summary_lines(batch)]
    lines += [f"{few_sentence(few)}:"] if len(few) else []
    lines += [f"  {counted(rule.rows, 'row'):>13}  {rule.rule}" for rule in few.rules[:MOST_SHOWN]]
    return "\n".join(lines + _and_more(few))


def summary_lines(batch: Batch) -> list[str]:
    """How many rows, with which verdicts, and how long their rules are."""
    done = f"{counted(len(batch), 'denied row')} explained"
    lines = [done if batch.complete else f"{done} of {batch.about['total']:,}; run the same again for the others"]
    if len(batch):
        read = batch.columns("minimum", "cardinality", "seconds", "covered_by")
        words = [f"{count:,} {word}" for word, count in sorted(batch.verdicts.items())]
        minimum = counted(sum(read["minimum"]), "rule is minimum", "rules are minimum")
        lines.append(f"Verdicts: {', '.join(words)}; {minimum}")
        sizes = sorted(read["cardinality"])
        lines.append(f"Components: {sizes[0]} to {sizes[-1]}, {sizes[len(sizes) // 2]} in the median")
        lines.append(f"Search: {sum(read['seconds']):,.1f} s in all{_served(read['covered_by'])}")
    if batch.about["beyond"]:
        lie = counted(batch.about["beyond"], "denied row lies", "denied rows lie")
        lines.append(f"No rule can withstand so much: {lie} within the margin")
    return lines


def _served(covered_by: list[int | None]) -> str:
    """How many rows are covered by another row's rule, and were not searched for."""
    served = sum(row is not None for row in covered_by)
    return f"; {counted(served, 'row')} needed none, covered by the rule of another" if served else ""


def few_sentence(few: FewRules) -> str:
    """How many rules cover how much, and whether fewer could."""
    known = (
        "and no fewer do"
        if few.minimum
        else f"and at least {few.lower_bound:,} {'is' if few.lower_bound == 1 else 'are'} needed"
    )
    rest = f" ({counted(few.uncovered, 'row has', 'rows have')} no proven rule)" if few.uncovered else ""
    rules = counted(len(few), "proven rule covers", "proven rules cover")
    rows = counted(few.covered, "row that has", "rows that have")
    return f"{rules} {'the' if few.covered == 1 else 'all'} {rows} one{rest}, {known}"


def _and_more(few: FewRules) -> list[str]:
    rest = few.rules[MOST_SHOWN:]
    return [f"  and {len(rest):,} more"] if rest else []
