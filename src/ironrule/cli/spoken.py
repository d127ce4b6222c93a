"""What the library advises, in the words of the command line: a message that names an argument names an option here.

The library speaks to those who call it from Python. A test looks at every message of the library for such words, and
fails where one is missing here.
"""

from __future__ import annotations

ADVICE = {
    "(desired=...)": "(--desired LABEL)",
    "with desired=...": "with --desired LABEL",
    "pass threshold=...": "add --threshold T",
    "or a threshold=... that": "or a --threshold T that",
    "use algorithm='geco'": "use --algorithm geco",
    "make the batch with documents=True": "make the batch anew without --no-documents",
    "extend the domain: Explainer(..., space=space.extended(row)), or --extend-domain on the command line":
        "add --extend-domain, or list the value in a --space file",
    "make the space with Space.infer(data, constant='keep') (on the command line: --keep-constant)":
        "add --keep-constant",
    ", or an object such as GreedyRuleCF()": "",
    "set missing=True instead": "say missing = true instead",
    "or leave intervals=True out": "or leave --intervals out",
}  # fmt: skip


def spoken(message: str) -> str:
    """A message of the library as the command line says it.

    >>> spoken("the desired class must be named (desired=...), one of ['no', 'yes'], but none came")
    "the desired class must be named (--desired LABEL), one of ['no', 'yes'], but none came"
    """
    for python, option in ADVICE.items():
        message = message.replace(python, option)
    return message
