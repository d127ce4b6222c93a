"""``python -m ironrule``: the command line.

``-m`` puts the current folder before all others, and a folder with data may hold anything, a file ``random.py`` too. So
it is taken out again before anything else is imported. What Python itself imports to come here (``runpy``, and
``ironrule``) can only be protected by ``python -P -m``; the command ``ironrule`` never looks there.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

    from ironrule.cli import run_process

    sys.exit(run_process())
