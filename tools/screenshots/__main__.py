"""Takes the pictures of the documentation: python -m tools.screenshots [NAME ...]

Needs Chromium and the extra test. All of them show the bundled data. A name is that of a picture (applicants-desktop,
report-person, notice), or of a part: pages, reports, terminal. Without names all are taken, which takes some minutes.
"""

from __future__ import annotations

import sys

from tools.screenshots import pages, reports, terminal

PARTS = {"pages": pages, "reports": reports, "terminal": terminal}


def main(names: list[str]) -> None:
    """Take the pictures with these names."""
    known = {name: part for part in PARTS.values() for name in part.NAMES}
    unknown = [name for name in names if name not in known and name not in PARTS]
    if unknown:
        sys.exit(f"no picture is called {unknown[0]!r}; there are {', '.join([*PARTS, *sorted(known)])}")
    for title, part in PARTS.items():
        wanted = part.NAMES if not names or title in names else part.NAMES & set(names)
        if wanted:
            print(f"{title}: {', '.join(sorted(wanted))}", flush=True)
            part.take_pictures(wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
