"""python -m tools.notebooks [NAME ...]: run the notebooks of docs/notebooks, and store what they print.

Without names, all of them. A notebook runs in a folder of its own, which is deleted, with the Python that runs this
command. What differs from run to run is not stored: times, progress bars and what compiling says.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
# Libraries that use all processors for small work wait for each other on a busy machine:
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
SECONDS = 600  # per cell, on a busy machine
# nbformat's functions have no types:
_read: Any = nbformat.read
_write: Any = nbformat.write


def list_notebooks() -> list[Path]:
    """All notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def run_notebook(path: Path) -> Any:
    """The notebook with what its cells print now; an error in a cell is raised."""
    notebook = _read(path, as_version=4)
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources)
        client.execute(env=environment | {"IPYTHONDIR": folder})
    return remove_volatile(notebook)


def remove_volatile(notebook: Any) -> Any:
    """Take out what differs from run to run: times, and what is written to stderr, such as progress bars."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _join_texts([output for output in cell.outputs if output.get("name") != "stderr"])
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = {}
    return notebook


def _join_texts(outputs: list[Any]) -> list[Any]:
    """The outputs; what was printed in a row is one text, in however many pieces it arrived."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main() -> None:
    """Run the named notebooks, or all, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a notebook without its ending (default: all)")
    names = parser.parse_args().names
    for path in [FOLDER / f"{name}.ipynb" for name in names] or list_notebooks():
        _write(run_notebook(path), path)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
