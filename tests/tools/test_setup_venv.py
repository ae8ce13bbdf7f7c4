"""Setting up: every way it can fail ends in a sentence a person can act on."""

import importlib.util
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def setup_venv():
    spec = importlib.util.spec_from_file_location("setup_venv", TOOLS / "setup_venv.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def find_python(folder, **environment):
    """Run the finder on a machine whose PATH holds only ``folder``."""
    (folder / "head").symlink_to(shutil.which("head"))
    command = ["/bin/sh", str(TOOLS / "find_python.sh"), "-c", "print('chosen')"]
    return subprocess.run(command, env={"PATH": str(folder), **environment}, capture_output=True, text=True)


def test_without_python_the_finder_says_how_to_get_one(tmp_path):
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert "no Python 3.11 or newer on the PATH (found: no python3 at all)" in done.stderr
    assert "apt install python3" in done.stderr


def test_an_old_python_is_named(tmp_path):
    script(tmp_path / "python3", 'test "$1" = --version && echo Python 3.9.2; test "$1" = --version')
    done = find_python(tmp_path)
    assert done.returncode == 1
    assert "(found: Python 3.9.2)" in done.stderr


def test_a_shim_that_refuses_is_passed_over(tmp_path):
    script(tmp_path / "python3.11", "echo 'shim: not found' >&2; exit 127")
    (tmp_path / "python3").symlink_to(sys.executable)
    assert find_python(tmp_path).stdout == "chosen\n"


def test_a_python_given_by_name_must_be_new_enough(tmp_path):
    old = script(tmp_path / "old", 'test "$1" = --version && echo Python 3.8.0; test "$1" = --version')
    (tmp_path / "python3").symlink_to(sys.executable)
    done = find_python(tmp_path, PYTHON=str(old))
    assert done.returncode == 1
    assert f"PYTHON={old} is not Python 3.11 or newer: Python 3.8.0." in done.stderr


def test_too_little_disk_is_refused_before_anything_is_installed(setup_venv, monkeypatch, tmp_path):
    monkeypatch.setattr(setup_venv.shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 1_500_000_000))
    with pytest.raises(SystemExit, match=r"has 1\.5 GB free and the packages need 3 GB\. Free some space"):
        setup_venv.check_disk(tmp_path)


def test_a_python_without_venv_is_told_the_package(setup_venv, monkeypatch, tmp_path):
    monkeypatch.setattr(setup_venv.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=rf"has no venv module.*python3\.{sys.version_info.minor}-venv"):
        setup_venv.create(tmp_path / "venv")


def test_a_folder_that_is_something_else_is_left_alone(setup_venv, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(SystemExit, match="exists and is not a virtual environment"):
        setup_venv.create(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize(
    ("complaint", "sentence"),
    [
        ("Failed to establish a new connection: Name or service not known", "the package index cannot be reached"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found for torch==2.13.0", "has none for this Python or platform"),
        ("SSL: CERTIFICATE_VERIFY_FAILED", "Point PIP_CERT"),
        ("something new", "the lines above say why"),
    ],
)
def test_a_failing_pip_is_translated(setup_venv, tmp_path, capfd, complaint, sentence):
    pip = script(tmp_path / "python", f"echo '{complaint}'; exit 1")
    with pytest.raises(SystemExit) as stopped:
        setup_venv.install(pip, tmp_path, "dev")
    assert sentence in str(stopped.value)
    assert complaint in capfd.readouterr().err
    assert complaint in (tmp_path / "setup.log").read_text()


def test_lowest_versions_are_the_bounds_of_the_project_and_pins_override_them(setup_venv):
    lowest, newest = (setup_venv.constraints(versions, ("torch==2.13.0",)) for versions in ("lowest", "newest"))
    assert {"numpy==2.0", "scipy==1.14", "torch==2.13.0", "pytest==9.2.0"} <= set(lowest)
    assert {"numpy>=2.0", "scipy>=1.14", "torch==2.13.0"} <= set(newest)
    assert sum(line.startswith("torch") for line in lowest) == 1
    assert "scipy==1.17.1" in setup_venv.constraints("pinned")
    with pytest.raises(SystemExit, match="choose pinned, lowest or newest"):
        setup_venv.constraints("oldest")


def test_makefile_names_no_tool_outside_the_environment():
    makefile = (TOOLS.parent / "Makefile").read_text()
    recipes = [line.strip().lstrip("@") for line in makefile.splitlines() if line.startswith("\t")]
    # validate runs where the device's PyTorch is
    known = ("$(BIN)/", "$(PYTEST)", "$(INSTALL)", "$(or $(PYTHON),python3) -m trnsci.cli validate", "echo ", "touch ")
    known += ("rm ", "find ", "$(MAKE) ")
    assert [line for line in recipes if not line.startswith(known)] == []


def test_help_lists_every_target():
    done = subprocess.run(["make", "-s", "help"], cwd=TOOLS.parent, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "test-all", "check", "bench", "docs", "setup", "format", "clean"):
        assert f"make {target} " in done.stdout
