"""A digest of a document: whoever keeps it notices that a field was altered since, a text or a number.

It is no signature: whoever alters a document on purpose can write a new digest. What a checker finds true or false does
not rest on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIELD = "digest"


def digest_of(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a document's canonical JSON: all fields but the digest, keys in order, no spaces, ASCII alone,
    whole numbers without a decimal point.

    >>> digest_of({"a": 1.0, "digest": "?"}) == digest_of({"a": 1})
    True
    """
    rest = {name: value for name, value in document.items() if name != FIELD}
    return hashlib.sha256(canonical(rest).encode("ascii")).hexdigest()


def canonical(value: Any) -> str:
    """Plain data as canonical JSON: equal texts for what means the same, and for nothing else.

    >>> canonical({"b": 2.0, "a": [True, None]})
    '{"a":[true,null],"b":2}'
    """
    return json.dumps(_plainest(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def with_digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its digest as the last field."""
    rest = {name: value for name, value in document.items() if name != FIELD}
    return rest | {FIELD: digest_of(rest)}


def _plainest(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plainest(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return value if set(map(type, value)) <= {int} else [_plainest(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
