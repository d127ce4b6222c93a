"""Certificates that are not what a search has made: any cover at all, and good ones with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tiny_settings import Setting

from ironrule.checker import document
from ironrule.checker.certificates import check_certificate
from ironrule.checker.result import ClaimFailed
from ironrule.rule.box import Box
from ironrule.verdict.certificate import Certificate, Cover
from tiny_cases import exceptions_in


def claim_of(certificate: Certificate) -> document.CertificateClaim:
    """A certificate as the checker reads it."""
    covers = tuple(
        document.CoverClaim(one.splits, one.tree) for one in (source.cover() for source in certificate.covers)
    )
    drawn = certificate.with_built_covers()
    fields = (drawn.method, drawn.points, drawn.space, drawn.model, drawn.low, drawn.high)
    return document.CertificateClaim(*fields, covers)


def confirm(made: Setting, certificate: Certificate) -> str:
    """What the checker says of a certificate."""
    return check_certificate(claim_of(certificate), made.scope, made.answers)


def accepted(made: Setting, certificate: Certificate) -> bool:
    try:
        confirm(made, certificate)
    except ClaimFailed:
        return False
    return True


def has_exception(made: Setting, certificate: Certificate) -> bool:
    low, high = (np.array(codes, dtype=np.int32) for codes in (certificate.low, certificate.high))
    return len(exceptions_in(made.case, Box(low, high))) > 0


@st.composite
def covers(draw: st.DrawFn, sizes: list[int]) -> Cover:
    """Any cover at all, well formed or nearly so."""
    splits = []
    for _ in range(draw(st.integers(0, 3))):
        feature = draw(st.integers(0, len(sizes) - 1))
        first = draw(st.integers(0, sizes[feature] - 1))
        splits.append((feature, ((first, draw(st.integers(first, sizes[feature] - 1))),)))
    return Cover(tuple(splits), tuple(draw(_walk(len(splits)))))


@st.composite
def _walk(draw: st.DrawFn, splits: int) -> list[int]:
    tree, missing = list[int](), 1
    while missing and len(tree) < 15:
        tree.append(draw(st.integers(-1, splits - 1)) if splits and len(tree) < 8 else -1)
        missing += 1 if tree[-1] >= 0 else -1
    return tree


def corrupted(draw: Any, certificate: Certificate, sizes: list[int]) -> Certificate:
    """The certificate with one thing changed: the box, a split, the tree, the covers."""
    covers = [source.cover() for source in certificate.covers]
    place = draw(st.integers(0, len(covers) - 1))
    cover, j = covers[place], draw(st.integers(0, len(sizes) - 1))
    kind = draw(st.sampled_from(["box", "tree", "drop", "split", "swap", "fewer"]))
    if kind == "box":
        low = (*certificate.low[:j], 0, *certificate.low[j + 1 :])
        return replace(certificate, low=low, high=(*certificate.high[:j], sizes[j] - 1, *certificate.high[j + 1 :]))
    if kind == "fewer":
        return replace(certificate, covers=certificate.covers[1:])
    entry = draw(st.integers(0, len(cover.tree) - 1))
    if kind == "tree":
        tree = (*cover.tree[:entry], draw(st.integers(-2, len(cover.splits))), *cover.tree[entry + 1 :])
        covers[place] = Cover(cover.splits, tree)
    if kind == "drop":
        covers[place] = Cover(cover.splits, (*cover.tree[:entry], *cover.tree[entry + 1 :]))
    if kind == "swap":
        covers[place] = Cover(cover.splits[::-1], cover.tree)
    if kind == "split" and cover.splits:
        feature, _ = cover.splits[0]
        first = draw(st.integers(-1, sizes[feature]))
        last = draw(st.integers(-1, sizes[feature]))
        covers[place] = Cover(((feature, ((first, last),)), *cover.splits[1:]), cover.tree)
    return replace(certificate, covers=tuple(covers), points=sum(one.pieces for one in covers))
