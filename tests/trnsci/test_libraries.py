"""Libraries announce themselves: those of the suite, and a stranger's that the suite does not know."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from trnsci import ArgumentError, libraries
from trnsci.analogs import analog, replacing
from trnsci.drop_in import _operator

STRANGER = Path(__file__).parent / "stranger"
# what its user does, in a process of its own
PROGRAM = """
import json, sys, warnings
import numpy as np, torch, trnsci
from trnsci.cli import main

x = torch.ones(4, dtype=torch.float64)
plain = torch.special.modified_bessel_i0(x), np.i0(x.numpy())
with warnings.catch_warnings(record=True) as warned, trnsci.drop_in(min_size=0) as seen:
    ours = torch.special.modified_bessel_i0(x), np.i0(x.numpy())
    x.reshape(2, 2) @ x.reshape(2, 2)
assert torch.equal(ours[0], plain[0]) and np.allclose(ours[1], plain[1], rtol=1e-15)
print(json.dumps({"seen": sorted(seen.substituted), "warned": [str(w.message) for w in warned]}))
warnings.simplefilter("ignore")
assert main(["explain", "astro.bessel", "--shapes", "8"]) == 0
assert main(["info", "--json"]) == 0
"""


def _use(folder):
    environment = {**os.environ, "PYTHONPATH": str(folder), "ASTRO_FORCE_BACKEND": "pytorch"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    first, _, rest = done.stdout.partition("\n")
    explained, _, facts = rest.partition("\n{")
    return json.loads(first), explained, json.loads("{" + facts)


def _unpack(folder):
    """Lay the files out as an installer does, without the time that takes."""
    shutil.copy(STRANGER / "astro.py", folder)
    information = folder / "astro-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: astro\nVersion: 0.1\n")
    entries = "[trnsci.libraries]\nastro = astro\nmissing = astro.missing\n"
    (information / "entry_points.txt").write_text(entries)


def _install(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    source = folder.parent / "source"
    shutil.copytree(STRANGER, source)
    subprocess.run([*command, "--target", str(folder), str(source)], check=True)


@pytest.mark.parametrize("prepare", [_unpack, pytest.param(_install, marks=pytest.mark.slow)])
def test_a_strangers_library_joins(tmp_path, prepare):
    folder = tmp_path / "installed"
    folder.mkdir()
    prepare(folder)
    dropped, explained, facts = _use(folder)
    pairs = {tuple(pair) for pair in dropped["seen"]}
    assert pairs == {
        ("torch.special_modified_bessel_i0", "astro.bessel"),
        ("numpy.i0", "astro.bessel"),
        ("torch.mm", "trnblas.gemm"),
    }
    # a library that is announced and not there is said so, and nothing else is lost
    assert [text for text in dropped["warned"] if text.startswith("missing announces itself to trnsci")]
    assert "astro::bessel float32[8] runs on pytorch" in explained
    assert "ASTRO_FORCE_BACKEND=pytorch" in explained
    library = {"name": "astro", "backend": "pytorch", "source": "ASTRO_FORCE_BACKEND=pytorch"}
    assert library in facts["libraries"]
    assert "missing" not in {row["name"] for row in facts["libraries"]}
    assert {f"ASTRO_{suffix}" for suffix in ("FORCE_BACKEND", "REQUIRE_NKI", "USE_SIMULATOR")} <= {
        row["name"] for row in facts["settings"]
    }


def test_a_checkout_that_is_not_installed_announces_its_own(monkeypatch):
    installed = dict(libraries.entry_points_of(libraries.LIBRARIES))
    monkeypatch.setattr(libraries, "entry_points", lambda group: ())
    assert dict(libraries.entry_points_of.__wrapped__(libraries.LIBRARIES)) == installed
    assert {"trnblas", "trnchem"} <= set(installed)


def test_an_installed_wheel_has_its_entry_points_from_its_metadata(monkeypatch, tmp_path):
    entry = EntryPoint("astro", "astro", libraries.LIBRARIES)
    monkeypatch.setattr(libraries, "entry_points", lambda group: (entry,))
    monkeypatch.setattr(libraries, "_FOLDER", tmp_path / "site-packages")
    assert dict(libraries.entry_points_of.__wrapped__(libraries.LIBRARIES)) == {"astro": entry}


def test_two_functions_that_replace_one_are_refused_with_both_names(monkeypatch):
    libraries.load()
    both = {name: analog.Analog(name=f"{name}.gemm", arguments=analog.given) for name in ("trnfft", "trnblas")}
    monkeypatch.setattr(analog, "_DECLARED", {("aten::mm", False): both})
    with pytest.raises(ArgumentError, match=r"trnblas\.gemm and trnfft\.gemm for aten::mm"):
        analog.declarations.__wrapped__()
    # one that only resembles it stands back
    both["trnfft"] = analog.Analog(name="trnfft.gemm")
    assert analog.declarations.__wrapped__()["aten::mm", False].name == "trnblas.gemm"


def test_what_is_declared_by_a_library_that_is_not_announced_does_not_count(monkeypatch):
    libraries.load()
    stray = {"astro": analog.Analog(name="astro.mm")}
    monkeypatch.setattr(analog, "_DECLARED", {("aten::mm", False): stray})
    assert analog.declarations.__wrapped__() == {}


def test_a_declaration_of_what_does_not_exist_is_named():
    with pytest.raises(ArgumentError, match=r"operator is 'aten::nonsense', expected one that torch"):
        _operator("nonsense")
    with pytest.raises(ArgumentError, match=r"function is 'numpy\.nonsense', expected one that is installed"):
        replacing._resolve("numpy.nonsense")
