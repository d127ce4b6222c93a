"""The comparison as tables of Markdown, for RESULTS.md: one line per system, figures as "paper / CARLA / ours".

The last commit of CARLA stands for CARLA where no answers of its release are stored. "-" is a figure that nobody has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.carla.findings import PUT_RIGHT

EVERYBODY, MEASURED = ("paper", "CARLA", "ours"), ("CARLA", "ours")
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "success": ("success", EVERYBODY),
    "redundancy": ("redundancy", EVERYBODY),
    "with a tolerance": ("redundancy with tolerance", MEASURED),
    "violations": ("violations", EVERYBODY),
    "CPU s": ("CPU s", EVERYBODY),
    "changes": ("l0 with tolerance", MEASURED),
    "l1": ("l1", MEASURED),
    "yNN": ("yNN", MEASURED),
    "possible": ("possible", MEASURED),
    "changes beyond the optimum": ("gap by fewest", MEASURED),
    "l1 beyond the optimum": ("gap by l1", MEASURED),
}


def format_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """The lines of one model as a table."""
    systems = list(dict.fromkeys(line["system"] for line in lines if "note" not in line))
    heads = [f"{title}: {' / '.join(who)}" for title, (_, who) in COLUMNS.items()]
    rows = [f"| system | {' | '.join(heads)} |", "|---" + "|--:" * len(heads) + "|"]
    for system in systems:
        by_who = {_name_source(line["who"]): line for line in lines if line["system"] == system}
        cells = [" / ".join(_format(by_who.get(one, {}).get(name)) for one in who) for name, who in COLUMNS.values()]
        rows.append(f"| {system} | {' | '.join(cells)} |")
        for who in [name for name in by_who if name not in EVERYBODY]:
            cells = [_format(by_who[who].get(name)) for name, _ in COLUMNS.values()]
            rows.append(f"| {system}, {who} | {' | '.join(cells)} |")
    notes = [f"Left out: {line['system']}, {line['note']}." for line in lines if "note" in line]
    return "\n".join([*rows, "", *notes])


def _name_source(who: str) -> str:
    """CARLA's answers as they are, of whatever version; other packages by their names."""
    return "CARLA" if who.startswith("CARLA") and not who.endswith(PUT_RIGHT) else who


def _format(figure: Any) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, int):
        return str(figure)
    return f"{figure:.2g}" if abs(figure) < 1 else f"{figure:.3g}"
