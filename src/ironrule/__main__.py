"""``python -m ironrule``: the command line."""

import sys

from ironrule.cli import main

if __name__ == "__main__":
    sys.exit(main())
