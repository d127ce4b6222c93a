"""Equal rows of a batch: explained once, as :meth:`ironrule.Explainer.explain_many` does, and recorded each.

An explanation speaks of a row's values alone, so equal rows have the same. What one batch still needs is kept, and
nothing longer: a batch may be long, and so may proofs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ironrule.explain import Explanation
from ironrule.server.applicants import Applicants


class Twins:
    """The rows of one batch, and the explanations that later ones among them share."""

    def __init__(self, applicants: Applicants, rows: Sequence[int]) -> None:
        self._applicants = applicants
        self._left = Counter(map(self._values, rows))
        self._known: dict[bytes, Explanation] = {}

    def explained(self, row: int, explain: Callable[[], Explanation]) -> Explanation:
        """The explanation of an equal row, or a new one; whatever that raises, each row raises by itself."""
        values = self._values(row)
        self._left[values] -= 1
        found = self._known.pop(values, None) or explain()
        if self._left[values] > 0 and found.statistics.stopped is None:  # one that was stopped may do better next time
            self._known[values] = found
        return found

    def _values(self, row: int) -> bytes:
        return self._applicants.codes.row(self._applicants.place(row)).tobytes()
