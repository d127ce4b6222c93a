"""The command that checks an explanation again, from the options that it was made with."""

from __future__ import annotations

import argparse

from ironrule.report.recheck import DATA, EXPLANATION, MODEL, Recheck


def recheck_of(options: argparse.Namespace, explanation: str = EXPLANATION) -> Recheck:
    """The check with all options that say what was explained; where files are not known, their place is named."""
    more: list[str] = []
    for name in ("target", "space", "threshold"):
        value = getattr(options, name, None)
        more += [] if value is None else [f"--{name}", str(value)]
    more += ["--margin", str(options.margin)] if getattr(options, "margin", 0.0) else []
    for name in ("keep_constant", "extend_domain", "intervals", "trust_pickle"):
        more += [f"--{name.replace('_', '-')}"] if getattr(options, name) else []
    for name in ("desired", "constraint", "models", "trust"):
        values = getattr(options, name, None)
        more += [f"--{name}", *map(str, values)] if values else []
    return Recheck(explanation, str(options.model or MODEL), str(options.data or DATA), tuple(more))
