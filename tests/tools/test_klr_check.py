"""What the cross-check reads out of a gathered kernel; the front end itself is tried where a checkout is given."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import klr_check

ROOT = Path(__file__).resolve().parents[2]
HEADER = """
lean_object* Python_Expr_name(lean_object*,uint8_t);
lean_object* Python_Const_float(double);
extern lean_object* Python_Const_none;
extern uint8_t Python_Ctx_load;
"""


def test_every_constructor_of_the_header_gets_a_stand_in():
    made = klr_check.constructors(HEADER)
    assert 'lean_object *Python_Expr_name(lean_object* a0, uint8_t a1) { return node("Python_Expr_name", 2' in made
    assert "real(a0)" in made
    assert "lean_object *Python_Const_none = &Python_Const_none_;" in made
    assert "uint8_t Python_Ctx_load" in made


def test_a_path_without_the_sources_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"has no gather\.c.*leanprover/KLR"):
        klr_check.build(tmp_path, tmp_path / "made")


def read(name):
    return ["Python_Expr_mk", ["Python_Expr_name", name, "1"], []]


def function(name, line, *reads):
    return ["Python_Fun_mk", name, __file__, str(line), "", ["list"], [], ["list", *map(read, reads)]]


def tree(*functions):
    empty = ["list"]
    return ["Python_Kernel_mk", "kernel", ["list", *functions], empty, empty, empty, empty]


LIMIT = 3


def _part():
    return LIMIT


def test_a_name_bound_to_another_function_is_a_collision():
    module = __name__
    (found,) = klr_check.collisions(tree(function("_part", 1), function(f"{module}._user", 9, "_part")))
    assert found.startswith(f"_part in {module}._user means")


def test_a_name_bound_to_what_it_means_is_none():
    line = _part.__code__.co_firstlineno
    gathered = tree(function("_part", line), function(f"{__name__}._user", 9, "_part"))
    assert list(klr_check.collisions(gathered)) == []


def _user():
    return _part()


def test_a_constant_of_two_values_is_a_collision(monkeypatch):
    other = type(sys)("other_module")
    exec("LIMIT = 4\ndef far():\n  return LIMIT\n", vars(other))
    other.far.__module__ = "other_module"
    monkeypatch.setitem(sys.modules, "other_module", other)
    gathered = tree(function(f"{__name__}._part", 1, "LIMIT"), function("other_module.far", 2, "LIMIT"))
    assert list(klr_check.collisions(gathered)) == [f"LIMIT is 3 in {__name__}._part and 4 in other_module.far"]


@pytest.mark.slow
@pytest.mark.skipif("KLR_CHECKOUT" not in os.environ, reason="KLR_CHECKOUT names no checkout of leanprover/KLR")
def test_the_front_end_gathers_every_kernel():
    words = [sys.executable, "-m", "tools.klr_check", os.environ["KLR_CHECKOUT"]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
