"""Ask the model about small tables on one thread.

Libraries that are parallel by OpenMP, such as scikit-learn's HistGradientBoosting and XGBoost, wake all
processors for every call, and at its end their threads wait for each other. For a handful of rows that costs more than
it saves; where other programs run, a hundred times the work itself. Answers do not depend on the number of threads,
since each row is decided on its own. LightGBM sets its own number of threads, which this does not change.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL_ROWS = 1_000
_known: tuple[int, ThreadpoolController | None] = (0, None)  # how many modules were loaded when it looked around


def limit_threads(rows: int) -> AbstractContextManager[Any]:
    """Within this block OpenMP uses one thread, if there are only a few rows; afterwards as many as before."""
    if rows > SMALL_ROWS:
        return nullcontext()
    limited: AbstractContextManager[Any] = _find_libraries().limit(limits=1, user_api="openmp")
    return limited


def _find_libraries() -> ThreadpoolController:
    """The libraries that are loaded now. To look for them takes milliseconds, and they come with modules."""
    global _known
    count, controller = _known
    if controller is None or count != len(sys.modules):
        count, controller = len(sys.modules), ThreadpoolController()
        _known = count, controller
    return controller
