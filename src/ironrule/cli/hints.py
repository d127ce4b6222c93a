"""Hints of the command line, by the code of an error.

The hints of the library are for Python. Where one names a Python argument, its error has a code, and the hint for the
command line is here. A test looks at every error of the library and fails where one is missing.
"""

from __future__ import annotations

from ironrule.errors import IronruleError

HINTS: dict[str, str | None] = {
    "value-outside-domain": "add --extend-domain, or list the value in a --space file",
    "constant-column": "drop it, declare its domain in a --space file, or add --keep-constant",
    "missing-among-values": "set missing to true for this feature in the --space file instead",
    "desired-required": "add --desired LABEL",
    "threshold-required": "add --threshold T",
    "threshold-per-model": "add --threshold T",
    "unknown-algorithm": None,
    "exact-counterfactuals-unavailable": "add --algorithm geco",
    "batch-without-documents": "explain the row again, or make the batch again without --no-documents",
    "ray-address-without-engine": "add --engine ray",
    "output-required": "save the model with a single output",
    "probabilities-required": "save the model with its sigmoid or softmax, or explain it from Python",
    "network-classes": "save the model with one output, or with two; explain one of more classes from Python",
}


def hint_for(error: IronruleError) -> str | None:
    """The hint that the command line gives with an error.

    >>> from ironrule.errors import OutcomeError
    >>> hint_for(OutcomeError("the desired class is unknown", hint="pass desired=...", code="desired-required"))
    'add --desired LABEL'
    """
    return HINTS.get(error.code, error.hint)
