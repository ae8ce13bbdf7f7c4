"""Modules and functions that tests replace, and tests that are left out, are those that tests/STAND-INS.md lists."""

import ast
import re
from pathlib import Path

from tests.rules.test_tests import REASONED

PAGE = Path(__file__).parent.parent / "STAND-INS.md"
ROW = re.compile(r"^\| (tests/\S+) \| (module|stub|skip) \|")


def _kind(node):
    """Return whether a node replaces a module or an attribute or leaves a test out, or ``None``."""
    if isinstance(node, ast.Assign | ast.Delete):
        replaced = [ast.unparse(target) for target in node.targets]
        return "module" if any(text.startswith("sys.modules[") for text in replaced) else None
    if not isinstance(node, ast.Call):
        return None
    name, first = ast.unparse(node.func), ast.unparse(node.args[0]) if node.args else ""
    if name.rpartition(".")[2] == "ModuleType" or (name.endswith(".setitem") and first == "sys.modules"):
        return "module"
    if name == "monkeypatch.setattr":
        return "stub"
    return "skip" if name.startswith("pytest.") and name.rpartition(".")[2] in REASONED else None


def _replaced_and_skipped(tree):
    """Return every file with what it does, outside these rules, whose examples are no tests."""
    modules = [m for m in tree.modules("tests/**/*.py") if not m.name.startswith("tests/rules/")]
    return {(module.name, kind) for module in modules for kind in map(_kind, module.nodes) if kind}


def test_every_stand_in_and_every_skip_is_listed(tree):
    listed = [match.groups() for line in PAGE.read_text().splitlines() if (match := ROW.match(line))]
    assert len(listed) == len(set(listed))
    assert set(listed) == _replaced_and_skipped(tree)
