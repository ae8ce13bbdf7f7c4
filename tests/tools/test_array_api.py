"""The page of functions that take torch tensors holds what a run finds."""

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "array-api.md"


@pytest.mark.slow
def test_functions_agree_and_the_page_has_them():
    # a process of its own: SciPy looks for the setting when it is imported
    done = subprocess.run([sys.executable, "-m", "tools.array_api"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in done.stdout.splitlines() if line.startswith("| `")]
    assert len(rows) > 30
    assert [row for row in rows if row not in page] == []
