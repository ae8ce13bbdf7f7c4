"""The notebooks run from top to bottom, and their pages show what they hold."""

import pytest

from tools import notebook_pages

# the others take longer than the default group allows
QUICK = "kernel_timing"
NAMES = notebook_pages.names()


def test_there_are_notebooks_for_three_readers():
    assert set(NAMES) == {"chemistry", "fit", "geometry", "kernel_timing"}


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_notebook(name):
    written = (notebook_pages.PAGES / f"{name}.md").read_text()
    assert written == notebook_pages.page(notebook_pages.read(name), name), "python -m tools.notebook_pages"
    assert '<div class="output">' in written
    assert "Traceback" not in written


@pytest.mark.sim
@pytest.mark.parametrize("name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_the_notebook_runs(name):
    stored, now = notebook_pages.read(name), notebook_pages.run(name)
    kinds = [[[output.output_type for output in cell.get("outputs", [])] for cell in nb.cells] for nb in (stored, now)]
    assert kinds[0] == kinds[1]
