"""Where the processes of a batch look for modules: in the folders of this process, never beside the data by accident.

A folder with data may hold anything, a file ``random.py`` too. Python puts the current folder before all others for
``python -c`` and for interactive sessions, so a worker that was started plainly would run such a file. Workers are
therefore started with ``-P``, which leaves the current folder out, and are told the folders of this process, in their
order: that of a user's script is among them, and what was added to ``sys.path`` or named by PYTHONPATH.

One entry is treated apart. The empty one stands for the current folder, and Python puts it there by itself. It is
handed over only if this process has imported a module from that folder, such as one with the class of a model beside a
notebook; and then it comes last, where it cannot hide a module of Python or of an installed package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import ModuleType

import ironrule


def list_import_folders() -> list[str]:
    """The folders in which a worker looks for modules; all are absolute."""
    here = os.getcwd()
    folders = [os.path.abspath(entry) for entry in sys.path if entry]
    if "" in sys.path and here not in folders and _is_imported_from(here, list(sys.modules.values())):
        folders.append(here)
    folders.append(os.path.dirname(os.path.dirname(os.path.abspath(ironrule.__file__))))  # mostly there already
    return list(dict.fromkeys(folders))


def build_worker_command(statement: str) -> list[str]:
    """A command that runs a Python statement with these folders, whatever lies in the current one."""
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {list_import_folders()!r}; {statement}"]


def build_worker_environment() -> dict[str, str]:
    """The environment of such a command: without PYTHONPATH, an empty entry of which would mean the current folder."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONSAFEPATH": "1"}


def _is_imported_from(folder: str, modules: Iterable[ModuleType]) -> bool:
    """Whether one of these is a module or a package that lies in a folder."""
    for module in modules:
        name, file = getattr(module, "__name__", "."), getattr(module, "__file__", None)
        if "." in name or name == "__main__" or not isinstance(file, str):
            continue
        home = os.path.dirname(os.path.abspath(file))
        if folder == (os.path.dirname(home) if hasattr(module, "__path__") else home):
            return True
    return False
