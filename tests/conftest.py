"""What all tests share. That this file is here also puts the helper modules beside it on the path of every
test.

The examples that Hypothesis draws are the same in every run, so that a change is judged by what it changed. To hunt for
what they miss, ``pytest --hypothesis-profile=hunt`` draws others each time, and more of them.

Collecting builds millions of objects that live as long as the process, mostly syntax trees and code. Python's search
for unreachable objects would go through them over and over: it pauses until the tests are collected, and leaves them
alone then.

Libraries for numbers use one thread in each process, and in the processes that it starts. There is a process of tests
for every processor, the arrays are small, and threads that wait for each other take several times the processor time of
the work itself.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy and the others are imported, which nothing has done so far

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("hunt", max_examples=500, deadline=None)
settings.load_profile("same")

gc.disable()


def pytest_collection_finish() -> None:
    """What is there now stays: later searches for unreachable objects skip it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep the key of their audit logs in a folder of their own, never in that of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("IRONRULE_AUDIT_KEY_FILE", raising=False)
        patch.delenv("IRONRULE_AUDIT_HEADS", raising=False)
        yield
