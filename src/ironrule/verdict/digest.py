"""Documents: results as JSON, with a digest which shows whether a field was changed after it was written.

The digest is no signature: a forger can write a new one. What a checker finds true or false does not depend on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from ironrule.errors import InputError, describe_value

DIGEST_FIELD = "digest"


def compute_digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a document's canonical JSON: all fields but the digest, keys in order, no spaces, ASCII alone,
    whole numbers without a decimal point.

    >>> compute_digest({"a": 1.0, "digest": "?"}) == compute_digest({"a": 1})
    True
    """
    rest = {name: value for name, value in document.items() if name != DIGEST_FIELD}
    return hashlib.sha256(to_canonical_json(rest).encode("ascii")).hexdigest()


def to_canonical_json(value: Any) -> str:
    """Plain data as canonical JSON: equal texts for what means the same, and for nothing else.

    >>> to_canonical_json({"b": 2.0, "a": [True, None]})
    '{"a":[true,null],"b":2}'
    """
    return json.dumps(_normalize_numbers(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def add_digest(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its digest as the last field."""
    rest = {name: value for name, value in document.items() if name != DIGEST_FIELD}
    return rest | {DIGEST_FIELD: compute_digest(rest)}


def require_digest(document: Mapping[str, Any]) -> None:
    """Raise InputError if a document is not as it was written; KeyError if it has no digest."""
    if document[DIGEST_FIELD] != compute_digest(document):
        raise InputError("digest mismatch: the document was modified after it was written", code="digest-mismatch")


def write_json(data: Any, indent: int | None) -> str:
    """Plain data as JSON; raises InputError for a path in the place of an indent."""
    if indent is not None and (isinstance(indent, bool) or not isinstance(indent, int)):
        expected = "indent must be a number of blanks or None"
        hint = "the text is returned, not written: write it to a file yourself"
        raise InputError(expected=expected, got=describe_value(indent), hint=hint)
    return json.dumps(data, indent=indent, ensure_ascii=False)


class JsonDocument:
    """A result that can be written as JSON and read again."""

    __slots__ = ()
    DOCUMENT_NAME: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, with a digest of it."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` wrote; raises InputError if the data is nothing of the kind."""
        raise NotImplementedError

    def to_json(self, indent: int | None = None) -> str:
        """The same as JSON."""
        return write_json(self.to_dict(), indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What :meth:`to_json` wrote; raises InputError if the text is nothing of the kind."""
        try:
            return cls.from_dict(json.loads(text))
        except InputError:
            raise
        except (ValueError, RecursionError, TypeError) as error:  # a number of too many digits is a ValueError
            raise InputError(f"the {cls.DOCUMENT_NAME} is not valid JSON: {error}") from None


def _normalize_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normalize_numbers(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return value if set(map(type, value)) <= {int} else [_normalize_numbers(part) for part in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
