"""Certificates: what others need to check a proof without trusting the search that found it.

That a rule holds is shown by a *cover* of its box: the box is cut in two, and the parts again, until every piece is so
small that a bound shows that no point of it is desired. A cover says where to cut, nothing else: a checker
computes the pieces and their bounds anew. A model whose reading has several alternatives has one cover for each. Where
the model was asked about every point of the box there is nothing to cut; to check that is to ask again.

As plain data (JSON): ``splits`` lists the distinct cuts, each a feature's position and the ranges of codes (first and
last) that go to the first part, the other codes go to the second; ``tree`` is the cuts in order, as positions in that
list, each followed by all of its first part and then all of its second; -1 stands for a piece that is not cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from ironrule.arrays import BoolArray
from ironrule.errors import InputError, build_format_error, describe_value
from ironrule.space.reduced import ReducedSpace
from ironrule.wording import format_repr

CERTIFICATE_FORMAT = 2
SIZE_FIELDS = {"cover": "pieces", "enumeration": "points"}  # by method
NO_SPLIT = -1
SplitRange = tuple[int, int]
CoverSplit = tuple[int, tuple[SplitRange, ...]]


def find_code_ranges(flags: BoolArray) -> tuple[SplitRange, ...]:
    """The runs of neighbouring codes whose flags are set, as first and last code."""
    # With zeros at both ends, flags change an even number of times: where a run begins, and after its end.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]])))
    return tuple((first, end - 1) for first, end in edges.reshape(-1, 2).tolist())


class CoverSource(Protocol):
    """A cover, or what one can be built from: a search makes many proofs, and few of them are ever shown."""

    def cover(self) -> Cover:
        """The cover itself."""
        ...


@dataclass(frozen=True, slots=True)
class Cover:
    """How a box is cut into pieces."""

    splits: tuple[CoverSplit, ...]
    tree: tuple[int, ...]

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return len(self.tree) // 2 + 1

    def cover(self) -> Cover:
        """The cover itself."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The cover as plain data."""
        splits = [[feature, [list(part) for part in ranges]] for feature, ranges in self.splits]
        return {"splits": splits, "tree": list(self.tree)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cover:
        """The cover that :meth:`to_dict` wrote."""
        splits = tuple(
            (require_integer(feature), tuple((require_integer(first), require_integer(last)) for first, last in ranges))
            for feature, ranges in data["splits"]
        )
        return cls(splits, tuple(require_integer(place) for place in data["tree"]))


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedCover:
    """A cover whose features are some of those of a larger space; ``kept`` are their positions there."""

    source: CoverSource
    kept: tuple[int, ...]

    def cover(self) -> Cover:
        """The cover in the larger space."""
        cover = self.source.cover()
        return Cover(tuple((self.kept[feature], ranges) for feature, ranges in cover.splits), cover.tree)


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """How it was proven that a box holds no desired point.

    ``low`` and ``high`` are the box: for every feature the first and the last code; ``points`` says how many points the
    model was asked about or how many pieces the covers have; ``space`` and ``model`` are the fingerprints of the scope.
    """

    method: Literal["cover", "enumeration"]
    points: int
    space: str
    model: str
    low: tuple[int, ...] = field(repr=False)
    high: tuple[int, ...] = field(repr=False)
    covers: tuple[CoverSource, ...] = field(default=(), repr=False)

    def embed(self, reduced: ReducedSpace) -> Certificate:
        """What it shows in the whole space, where the model ignores the features that the reduced space leaves out."""
        low, high = np.zeros(len(reduced.whole), dtype=np.int32), reduced.whole.sizes - 1
        low[reduced.kept], high[reduced.kept] = self.low, self.high
        kept = tuple(reduced.kept.tolist())
        return replace(
            self,
            space=reduced.whole.fingerprint,
            low=tuple(low.tolist()),
            high=tuple(high.tolist()),
            covers=tuple(EmbeddedCover(source, kept) for source in self.covers),
        )

    def with_built_covers(self) -> Certificate:
        """The certificate with all its covers built."""
        if all(isinstance(source, Cover) for source in self.covers):
            return self
        covers = tuple(source.cover() for source in self.covers)
        return replace(self, points=sum(cover.pieces for cover in covers), covers=covers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.method, self.space, self.model, self.low, self.high))

    def __reduce__(self) -> tuple[Any, ...]:
        built = self.with_built_covers()
        return Certificate, tuple(getattr(built, name) for name in self.__slots__)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain data."""
        built = self.with_built_covers()
        return {
            "format": CERTIFICATE_FORMAT,
            "method": self.method,
            SIZE_FIELDS[self.method]: built.points,
            "space": self.space,
            "model": self.model,
            "low": list(self.low),
            "high": list(self.high),
            "covers": [source.cover().to_dict() for source in built.covers],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping) or data.get("format") != CERTIFICATE_FORMAT:
            got = data.get("format") if isinstance(data, Mapping) else f"a {type(data).__name__}"
            raise build_format_error("a certificate", CERTIFICATE_FORMAT, got, "explain the row again")
        method = data.get("method")
        if method not in ("cover", "enumeration"):
            raise InputError(
                expected="a certificate's method must be 'cover' or 'enumeration'", got=describe_value(method)
            )
        try:
            low, high = (tuple(require_integer(code) for code in data[name]) for name in ("low", "high"))
            covers = tuple(Cover.from_dict(cover) for cover in data["covers"])
            points = require_integer(data[SIZE_FIELDS[method]])
            space, model = require_text(data["space"]), require_text(data["model"])
            return cls(method=method, points=points, space=space, model=model, low=low, high=high, covers=covers)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"cannot read the certificate: {error!r}") from None

    def __str__(self) -> str:
        if self.method == "cover":
            return "no point of the rule's box can be desired"
        if self.points == 1:
            return "the only point of the rule's box is undesired"
        return f"all {self.points:,} points of the rule's box are undesired"

    def __repr__(self) -> str:
        return format_repr(self)


def require_integer(value: Any) -> int:
    """An integer and nothing that only looks like one; raises TypeError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, got {value!r}")
    return value


def require_text(value: Any) -> str:
    """A string; raises TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return value
