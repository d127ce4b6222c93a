"""A hook of mkdocs: notebooks are pages of the site: their text, their code as blocks, and below each what it printed.

Nothing is run here: ``python -m tools.notebooks`` does that, and stores the outputs. Of the forms that an output is
stored in, the page has the first of :data:`FORMS`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "notebooks"
FORMS = ("text/html", "image/svg+xml", "image/png", "text/plain")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every notebook."""
    for path in sorted((Path(config.docs_dir) / FOLDER).glob("*.ipynb")):
        files.append(File.generated(config, f"{FOLDER}/{path.stem}.md", content=render_notebook(path)))
    return files


def render_notebook(path: Path) -> str:
    """The page of a notebook, in Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in render_cell(cell)) + "\n"


def render_cell(cell: dict[str, Any]) -> Iterator[str]:
    """The parts of a page for one cell."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
    elif cell["cell_type"] == "code" and source.strip():
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            yield render_output(output)


def render_output(output: dict[str, Any]) -> str:
    """What a cell printed or showed."""
    if output["output_type"] == "stream":
        return show_text("".join(output["text"]))
    form = next(form for form in FORMS if form in output["data"])
    content = output["data"][form]
    text = content if isinstance(content, str) else "".join(content)
    if form == "text/plain":
        return show_text(text)
    if form == "image/png":
        text = f'<img alt="The plot of the cell above" src="data:image/png;base64,{text.strip()}">'
    # A blank line would end the block of HTML for some parsers of Markdown.
    lines = "\n".join(line for line in text.splitlines() if line.strip())
    return f'<div class="notebook-output">\n{lines}\n</div>'


def show_text(text: str) -> str:
    """Printed text, as HTML: unlike a block of Markdown it has no button to copy it."""
    return f'<pre class="notebook-output">{html.escape(text.rstrip())}</pre>'
