"""The two labels of a model that is written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError

Labels = tuple[Any, Any]


def two_labels(labels: Sequence[Any]) -> Labels:
    """Two distinct labels; raises InputError otherwise."""
    given = tuple(labels) if not isinstance(labels, str) else (labels,)
    if len(given) != 2 or given[0] == given[1]:
        raise InputError(expected="classes must be two distinct labels", got=repr(labels))
    return given[0], given[1]


def chosen(second: npt.NDArray[np.bool_], labels: Labels) -> npt.NDArray[Any]:
    """The second label where it holds, the first elsewhere."""
    return np.array(labels)[second.astype(np.intp)]
