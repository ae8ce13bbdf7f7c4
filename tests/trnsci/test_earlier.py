"""The way over from the earlier suite: its programs run after `install`; without it an error has the spelling."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import trnblas
import trnrand
from tools import earlier_page
from trnchem import cli
from trnsci.earlier.table import ROWS

PROGRAMS = sorted((Path(__file__).parent / "earlier").glob("*.py"))
# every public name with its signature, by module
API = json.loads((Path(__file__).parent / "earlier" / "names.json").read_text(encoding="utf-8"))

NOT_OURS = [f"{library}.nki" for library in ("trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")]


def _run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=300)


def test_programs_of_the_earlier_suite_run_unchanged():
    # one process for all of them: each starts with what the others left
    source = "import runpy, sys, trnsci.earlier; trnsci.earlier.install(); [runpy.run_path(p) for p in sys.argv[1:]]"
    ended = _run("-W", "error::DeprecationWarning", "-c", source, *map(str, PROGRAMS))
    assert ended.returncode == 0, ended.stderr


def test_the_command_gives_a_program_the_earlier_names():
    ended = _run("-m", "trnsci", "run", "--earlier", str(PROGRAMS[-1]))
    assert ended.returncode == 0, ended.stderr


_WALK = """
import importlib, inspect, json, sys
import trnsci.earlier
trnsci.earlier.install()
trnsci.earlier.install()
found = {}
for path, names in json.load(open(sys.argv[1])).items():
    module = importlib.import_module(path)
    for name in names:
        value = getattr(module, name)
        found[f"{path}.{name}"] = list(inspect.signature(value).parameters) if callable(value) else None
print(json.dumps(found))
"""


def test_every_name_of_the_earlier_suite_exists_and_takes_its_arguments():
    ended = _run("-c", _WALK, str(Path(__file__).parent / "earlier" / "names.json"))
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    for path, names in API.items():
        for name, parameters in names.items():
            # a class that stands for one of ours shows what builds it
            if parameters and found[f"{path}.{name}"] is not None and "args" not in found[f"{path}.{name}"]:
                assert found[f"{path}.{name}"][: len(parameters)] == parameters, f"{path}.{name}"


def test_without_it_every_name_that_is_not_ours_says_how_to_write_it():
    checked = 0
    for path, names in API.items():
        if path in NOT_OURS:
            with pytest.raises(ModuleNotFoundError, match=r"write .*trnsci\.earlier\.install\(\) first"):
                importlib.import_module(path)
            continue
        module = importlib.import_module(path)
        for name in names.keys() - set(vars(module)):
            with pytest.raises(AttributeError, match=r": write .*trnsci\.earlier\.install\(\) first"):
                getattr(module, name)
            checked += 1
    assert checked > 40


def test_spellings_in_the_table_exist_and_rows_of_names_of_ours_have_none():
    for path, rows in ROWS.items():
        public = set(getattr(importlib.import_module(path), "__all__", ()))
        for name, row in rows.items():
            assert bool(row.here) is (name not in public), f"{path}.{name}"
            assert row.here or row.differs or row.spelled, f"{path}.{name}"
            ours, _, member = row.here.partition("(")[0].partition(" ")[0].rstrip(":,").partition(".")
            if ours.startswith("trn") and member:
                found = importlib.import_module(ours)
                for part in member.split("."):
                    found = getattr(found, part, None) or importlib.import_module(f"{ours}.{part}")


def test_ours_are_ours_until_then():
    assert list(inspect.signature(trnblas.axpy).parameters)[:2] == ["x", "y"]
    with pytest.raises(TypeError, match="transA"):
        trnblas.gemm(1.0, None, None, transA=True)
    with pytest.raises(TypeError, match="mean"):
        trnrand.normal(3, mean=1.0)
    with pytest.raises(AttributeError, match=r"module 'trnblas' has no attribute 'what'$"):
        _ = trnblas.what
    with pytest.raises(AttributeError, match=r"write trnblas.nothing, within trnsci.backend\('nki'\)"):
        _ = trnblas.nki_nothing


def test_the_page_is_written_from_the_table():
    assert earlier_page.PAGE.read_text(encoding="utf-8") == earlier_page.page()


def test_fused_energy_of_the_example_says_what_it_is(capsys):
    assert cli.main(["no-such-molecule", "--fused-energy"]) == 1
    assert "energies of pairs are always fused" in capsys.readouterr().err


def test_the_example_takes_its_earlier_option():
    pytest.importorskip("pyscf", reason="the example starts from a mean field of PySCF")
    example = Path(__file__).parents[2] / "examples" / "quantum_chemistry" / "df_mp2.py"
    ended = _run("-m", "trnsci", "run", "--earlier", str(example), "--fused-energy", "--basis", "sto-3g")
    assert ended.returncode == 0, ended.stderr
