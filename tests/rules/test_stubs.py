"""What type checkers read of the libraries is what the signatures say."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tools import stubs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("library", stubs.LIBRARIES)
def test_a_stub_follows_the_signatures(library):
    for path, text in stubs.write_stubs(library).items():
        assert path.read_text() == text, f"signatures have changed: python -m tools.stubs ({path.name})"


def test_every_function_of_arrays_answers_in_kind():
    tree = ast.parse((ROOT / "src" / "trnsolver" / "_types.pyi").read_text())
    returns = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            returns.setdefault(node.name, []).append(ast.unparse(node.returns))
    assert returns["solve"] == ["Tensor", "Array", "Tensor"]
    assert returns["eigh"] == ["Eigh", "Eigh[Array]", "Eigh"]
    assert returns["cg"] == ["Result", "Result[Array]", "Result"]


@pytest.mark.slow
def test_type_checkers_find_the_planted_mistakes_and_nothing_else():
    done = subprocess.run([sys.executable, "-m", "tests.types"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
