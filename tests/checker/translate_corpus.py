"""Translate stored explanations of format 4 to format 5, which has other field names and no other content.

``python tests/checker/translate_corpus.py`` does so to all files of the corpus. A file is taken as text, so that
malformed ones are translated too and stay malformed in the same way. A digest is computed anew only where it was
right: one that was wrong on purpose stays wrong. What is translated already is left alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ironrule.verdict.digest import compute_digest

CORPUS = Path(__file__).parent / "certificates"
FIELDS = {
    "bound": "exception_bound",
    "limits": "wider_witnesses",
    "models": "model_count",
    "operators": "operator_seconds",
    "pattern": "one_hot_columns",
    "permitted": "restrictions",
    "undecided": "undecided_components",
    "unread": "unreadable_reason",
    "widest": "wider_is_maximal",
}
OLD_FIELD = re.compile(f'"({"|".join(FIELDS)})":')
CERTIFICATE = re.compile(r'"version": (\d+), "method": ("\w+"), "points":')


def translate(text: str) -> str:
    """The text of a document under the new names."""
    named = OLD_FIELD.sub(lambda found: f'"{FIELDS[found[1]]}":', text)
    named = CERTIFICATE.sub(_translate_certificate, named).replace('"format": 4', '"format": 5', 1)
    try:
        before, after = json.loads(text), json.loads(named)
        right = before["digest"] == compute_digest(before)
    except (ValueError, LookupError, TypeError, RecursionError):  # malformed
        return named
    return named.replace(before["digest"], compute_digest(after)) if right else named


def _translate_certificate(found: re.Match[str]) -> str:
    size = "points" if found[2] == '"enumeration"' else "pieces"
    return f'"format": {int(found[1]) + 1}, "method": {found[2]}, "{size}":'


if __name__ == "__main__":
    for path in sorted(CORPUS.glob("*/*.json")):
        path.write_text(translate(path.read_text()))
