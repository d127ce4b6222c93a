"""The notebooks of the documentation run, and their pages have what they print.

A few quick ones run by default, all of them with ``pytest -m notebooks``.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tools.notebook_pages import render_cell, render_notebook
from tools.notebooks import list_notebooks, run_notebook

QUICK = {"black_box", "validator", "xgboost"}
NEEDED = {"torch": "torch"}  # extras that the tests do not install


def mark_notebook(path: Path) -> Any:
    marks = []
    if path.stem not in QUICK:
        marks.append(pytest.mark.notebooks)
    if path.stem in NEEDED:
        missing = importlib.util.find_spec(NEEDED[path.stem]) is None
        marks.append(pytest.mark.skipif(missing, reason=f"{NEEDED[path.stem]} is not installed"))
    return pytest.param(path, id=path.stem, marks=marks)


def read_code(notebook: Any) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client")
@pytest.mark.parametrize("path", [mark_notebook(path) for path in list_notebooks()])
def test_a_notebook_runs(path: Path) -> None:
    notebook = run_notebook(path)
    assert all(cell["execution_count"] for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", list_notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs_and_without_an_error(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    page = render_notebook(path)
    assert all(code in page for code in read_code(notebook))


def test_an_output_is_escaped_unless_it_is_html() -> None:
    cell = {
        "cell_type": "code",
        "source": ["print('<b>')"],
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["<b>\n"]},
            {"output_type": "execute_result", "data": {"text/plain": ["b"], "text/html": ["<b>\n", "\n", "b</b>"]}},
        ],
    }
    assert list(render_cell(cell)) == [
        "```python\nprint('<b>')\n```",
        '<pre class="notebook-output">&lt;b&gt;</pre>',
        '<div class="notebook-output">\n<b>\nb</b>\n</div>',
    ]
