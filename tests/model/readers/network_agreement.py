"""Networks against the models that they were read from: wherever a margin is sure, the model must agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.model.decision import build_decision
from ironrule.model.normal_form.network import Network, bound_arithmetic_errors, find_largest_sizes
from ironrule.model.readers.registry import read_estimator

Floats = np.ndarray


def decide_by_margins(network: Network, seen: Floats) -> tuple[Floats, Floats]:
    """Where some alternative may be desired, and where one surely is."""
    errors = bound_arithmetic_errors(network, find_largest_sizes(list(np.asarray(seen).T)))
    outputs = network.outputs(seen)
    may, must = np.zeros(len(seen), dtype=bool), np.zeros(len(seen), dtype=bool)
    for margins, allowed in zip(network.alternatives, errors, strict=True):
        pairs = [(outputs @ one.coefficients + one.offset, error) for one, error in zip(margins, allowed, strict=True)]
        may |= np.all([value > -error for value, error in pairs], axis=0)
        must |= np.all([value > error for value, error in pairs], axis=0)
    return may, must


def require_agreement(
    model: Any, desired: Any, threshold: float | None, seen: Floats, most_unsure: float = 0.02, table: Any = None
) -> Network:
    """The network decides as the model wherever it is sure, and seldom is not; ``table`` is what a Pipeline gets."""
    final = model if table is None else model.steps[-1][1]
    network = read_estimator(final, desired, threshold)
    assert isinstance(network, Network)
    own = build_decision(model, desired, threshold)(seen if table is None else table, len(seen))
    may, must = decide_by_margins(network, seen)
    assert not (must & ~own).any()
    assert not (own & ~may).any()
    assert (may & ~must).mean() <= most_unsure
    return network


def neighbours(model: Any, desired: Any, threshold: float | None, rows: Floats) -> Floats:
    """Pairs of rows as near as floats can be, between which the model's decision changes."""
    decide, found = build_decision(model, desired, threshold), []
    own = decide(rows, len(rows))
    for start, end in zip(rows[own][:3], rows[~own][:3], strict=False):
        low, high = 0.0, 1.0
        while np.nextafter(low, 1.0) < high:
            middle = 0.5 * (low + high)
            if decide(_between(start, end, middle), 1)[0]:
                low = middle
            else:
                high = middle
        found += [_between(start, end, low), _between(start, end, high)]
    return np.concatenate([rows[:0], *found])


def _between(start: Floats, end: Floats, share: float) -> Floats:
    return (start + (end - start) * share)[None, :].astype(start.dtype)


def count_ties(model: Any, desired: Any, threshold: float | None, rows: Floats) -> int:
    """How many rows lie on both sides of decisions one float apart; the network must leave none of them wrong."""
    close = neighbours(model, desired, threshold, rows)
    if len(close):
        require_agreement(model, desired, threshold, close, most_unsure=1.0)
    return len(close)
