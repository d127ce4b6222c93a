"""What all tests share. That this file is here also puts the helper modules beside it on the path of every
test.

The examples that Hypothesis draws are the same in every run, so that a change is judged by what it changed. To hunt for
what they miss, ``pytest --hypothesis-profile=hunt`` draws others each time, and more of them.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("hunt", max_examples=500, deadline=None)
settings.load_profile("same")
