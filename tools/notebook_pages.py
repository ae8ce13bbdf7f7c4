"""Run the notebooks of the examples and write them as pages: ``python -m tools.notebook_pages [NAME ...]``.

``examples/notebooks/NAME.ipynb`` is run and saved with its outputs; ``docs/notebooks/NAME.md`` shows the same: prose as
it stands, code, and what it printed or drew. Times that were measured differ from run to run, so a test compares the
page with the notebook, and another one runs the notebook.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "examples" / "notebooks"
PAGES = ROOT / "docs" / "notebooks"
# what Jupyter shows where it can draw nothing
TEXT = "text/plain"


def names() -> list[str]:
    """Every notebook."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def read(name: str) -> Any:
    """Return a notebook as it is stored."""
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def run(name: str) -> Any:
    """Return a notebook with the outputs of a fresh run; a cell that raises ends it."""
    notebook = read(name)
    place = {"metadata": {"path": NOTEBOOKS}}
    # a busy machine sends what a cell prints in several pieces
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place, coalesce_streams=True).execute()
    for number, cell in enumerate(notebook.cells):
        # these differ from run to run without telling anything
        cell.metadata = {}
        cell.id = f"cell-{number}"
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def page(notebook: Any, name: str) -> str:
    """Return a notebook as a page."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(re.sub(r"\(https://trnsci\.dev/([\w/-]+)/\)", r"(../\1.md)", cell.source))
        else:
            parts.append(f"```python\n{cell.source}\n```")
            parts += [shown for output in cell.outputs if (shown := _output(output))]
    first, *rest = parts
    link = f"*This page is a notebook, run: `examples/notebooks/{name}.ipynb`.*"
    return "\n\n".join([first, link, *rest]) + "\n"


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    data = output.get("data", {})
    if "text/html" in data:
        # a blank line would end the block of HTML
        return '<div class="output">' + re.sub(r"\n\s*\n", "\n", data["text/html"]).strip() + "</div>"
    return f"```text\n{data[TEXT].rstrip()}\n```" if TEXT in data else ""


def main() -> None:
    """Run and write the notebooks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", help=", ".join(names()))
    PAGES.mkdir(exist_ok=True)
    for name in parser.parse_args().name or names():
        notebook = run(name)
        nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
        (PAGES / f"{name}.md").write_text(page(notebook, name), encoding="utf-8")
        print(f"{name}: {(NOTEBOOKS / f'{name}.ipynb').stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
