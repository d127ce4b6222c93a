"""Parts of the space that somebody asks about: constraints on what can occur, given with a question.

A rule then speaks only of what satisfies them. The document of the explanation names them, so whoever reads it later,
and the checker, know of which part it speaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ironrule.errors import ConstraintError
from ironrule.explain import Explainer
from ironrule.server.problem import brief
from ironrule.server.recent import Texts
from ironrule.space import Space, bind, parse

MOST_CONSTRAINTS, LONGEST_CONSTRAINT = 16, 500


@dataclass(frozen=True)
class Part:
    """The explainer of a part of the space, and how often every code of every feature occurs among its past rows."""

    explainer: Explainer

    @cached_property
    def frequencies(self) -> tuple[npt.NDArray[np.int64], ...]:
        """One array per feature."""
        columns, sizes = self.explainer.codes.columns, self.explainer.space.sizes.tolist()
        return tuple(np.bincount(column, minlength=size) for column, size in zip(columns, sizes, strict=True))


def constraints_of(given: Sequence[str], space: Space) -> Texts:
    """The constraints that somebody gives, each once; raises ConstraintError if one cannot be used."""
    texts = tuple(dict.fromkeys(text.strip() for text in given))
    if len(texts) > MOST_CONSTRAINTS:
        raise ConstraintError(
            expected=f"at most {MOST_CONSTRAINTS} constraints are allowed", got=len(texts), hint="join some with and"
        )
    for text in texts:
        if len(text) > LONGEST_CONSTRAINT or not text.isprintable():
            expected = f"a constraint must be one line of at most {LONGEST_CONSTRAINT} characters"
            raise ConstraintError(expected=expected, got=brief(text))
        constraint = parse(text)
        if constraint.mentions_instance:
            raise ConstraintError(
                expected="a constraint on the space must name cf only",
                got=brief(text),
                hint="use the value instead of x",
            )
        bind(constraint, space.features)
    return texts


def further(constraints: Texts, space: Space) -> Texts | None:
    """Those that come on top of a space's own; None if they do not go on from these."""
    own = tuple(map(str, space.constraints))
    return constraints[len(own) :] if constraints[: len(own)] == own else None
