"""What all tests share. That this file is here also puts the helper modules beside it on the path of every
test.

The examples that Hypothesis draws are the same in every run, so that a change is judged by what it changed. To hunt for
what they miss, ``pytest --hypothesis-profile=hunt`` draws others each time, and more of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("hunt", max_examples=500, deadline=None)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def _own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep the key of their audit logs in a folder of their own, never in that of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("IRONRULE_AUDIT_KEY_FILE", raising=False)
        patch.delenv("IRONRULE_AUDIT_HEADS", raising=False)
        yield
