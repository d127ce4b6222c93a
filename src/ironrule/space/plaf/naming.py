"""The names of a constraint: which feature each one means, and errors that point at the place in the text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ironrule.errors import ConstraintError
from ironrule.space.feature import Feature
from ironrule.space.plaf.meaning import OfInstance, OfPoint, Quantity
from ironrule.space.plaf.syntax import Reference, Subject
from ironrule.space.plaf.tokens import complaint

SHOWN = 12
"""How many names an error lists."""


@dataclass(frozen=True, slots=True)
class Names:
    """The text of one constraint, and the features it may speak of: by name, with their index."""

    text: str
    places: Mapping[str, tuple[int, Feature]]

    def feature(self, reference: Reference) -> Feature:
        """The feature that is meant; raises ConstraintError, suggesting a name, if there is none."""
        return self._place(reference)[1]

    def index(self, reference: Reference) -> int:
        """The index of the feature that is meant."""
        return self._place(reference)[0]

    def lookup(self, reference: Reference, numbers: Iterable[float]) -> Quantity:
        """The feature's value as a quantity, given the number of each value in the domain; missing is NaN."""
        index, feature = self._place(reference)
        padded = chain(numbers, [np.nan] * feature.missing)
        table = np.fromiter(padded, dtype=np.float64, count=feature.size)
        return OfPoint(index, table) if reference.subject is Subject.POINT else OfInstance(index, table)

    def error(self, column: int, **fields: str) -> ConstraintError:
        """The error that points at a column of the text."""
        return complaint(self.text, column, **fields)

    def _place(self, reference: Reference) -> tuple[int, Feature]:
        if reference.name not in self.places:
            raise self.error(
                reference.column,
                statement=f"unknown feature {reference.name!r}",
                hint=self._suggest(reference),
                code="unknown-feature",
            )
        return self.places[reference.name]

    def _suggest(self, reference: Reference) -> str:
        """The name that was probably meant, or those there are."""
        folded = {name.casefold(): name for name in self.places}
        close = difflib.get_close_matches(reference.name.casefold(), folded, n=1)
        if close:
            return f"did you mean {Reference(reference.subject, folded[close[0]])}?"
        listed = ", ".join(list(self.places)[:SHOWN]) + (", ..." if len(self.places) > SHOWN else "")
        return f"the features are {listed}" if listed else "the space has no features"
