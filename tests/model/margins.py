"""Networks against the models that they were read from: wherever a margin is sure, the model must agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from ironrule.model.decision import decision_of
from ironrule.model.network import Network, arithmetic_errors, largest_of
from ironrule.model.readers import read

Floats = np.ndarray


def answers(network: Network, seen: Floats) -> tuple[Floats, Floats]:
    """Where some alternative may be desired, and where one surely is."""
    errors = arithmetic_errors(network, largest_of(list(np.asarray(seen).T)))
    outputs = network.outputs(seen)
    may, must = np.zeros(len(seen), dtype=bool), np.zeros(len(seen), dtype=bool)
    for margins, allowed in zip(network.alternatives, errors, strict=True):
        pairs = [(outputs @ one.coefficients + one.offset, error) for one, error in zip(margins, allowed, strict=True)]
        may |= np.all([value > -error for value, error in pairs], axis=0)
        must |= np.all([value > error for value, error in pairs], axis=0)
    return may, must


def agree(
    model: Any, desired: Any, threshold: float | None, seen: Floats, most_unsure: float = 0.02, table: Any = None
) -> Network:
    """The network decides as the model wherever it is sure, and seldom is not; ``table`` is what a Pipeline gets."""
    final = model if table is None else model.steps[-1][1]
    network = read(final, desired, threshold)
    assert isinstance(network, Network)
    own = decision_of(model, desired, threshold)(seen if table is None else table, len(seen))
    may, must = answers(network, seen)
    assert not (must & ~own).any()
    assert not (own & ~may).any()
    assert (may & ~must).mean() <= most_unsure
    return network


def neighbours(model: Any, desired: Any, threshold: float | None, rows: Floats) -> Floats:
    """Pairs of rows as near as floats can be, between which the model's decision changes."""
    decide, found = decision_of(model, desired, threshold), []
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


def ties(model: Any, desired: Any, threshold: float | None, rows: Floats) -> int:
    """How many rows lie on both sides of decisions one float apart; the network must leave none of them wrong."""
    close = neighbours(model, desired, threshold, rows)
    if len(close):
        agree(model, desired, threshold, close, most_unsure=1.0)
    return len(close)
