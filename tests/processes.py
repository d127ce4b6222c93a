"""The server as a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``ironrule serve`` on a free port in a folder, and the address it says it has."""
    command = [sys.executable, "-m", "ironrule", "serve", "--port", "0", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("IRONRULE_")}
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)  # fmt: skip
    try:
        yield server, _address(server)
    finally:
        server.kill()
        server.communicate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    said = ""
    for line in server.stderr:
        said += line
        if found := re.search(r"http://[^/\s]+", line):
            return found[0]
    raise AssertionError(f"the server did not start: {said}")
