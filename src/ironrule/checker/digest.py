"""Canonical JSON, and the digest of a document: it tells that a document was modified since it was written.

It is no signature: whoever alters a document on purpose can write a new digest. Nothing that is checked rests on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def compute_digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a document's canonical JSON: all fields but the digest.

    >>> compute_digest({"a": 1.0, "digest": "?"}) == compute_digest({"a": 1})
    True
    """
    rest = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(write_canonical(rest).encode("ascii")).hexdigest()


def write_canonical(value: Any) -> str:
    """Plain data as canonical JSON, equal for what means the same and for nothing else: names in order, no spaces,
    ASCII alone, whole numbers without a decimal point.

    >>> write_canonical({"b": 2.0, "a": [True, None]})
    '{"a":[true,null],"b":2}'
    """
    return json.dumps(_simplify(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _simplify(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _simplify(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return value if set(map(type, value)) <= {int} else [_simplify(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
