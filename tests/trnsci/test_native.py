"""Compiling C helpers: once, cached, and switched off by one variable."""

import ctypes

import pytest

from trnsci import native

SOURCE = "int twice(int x) { return 2 * x; }\n"


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "twice.c"
    path.write_text(SOURCE)
    return path


@pytest.mark.skipif(native.compiler() is None, reason="needs a C compiler")
def test_a_helper_is_compiled_once_and_runs(source, tmp_path):
    loaded = native.load(source)
    assert isinstance(loaded, ctypes.CDLL)
    assert loaded.twice(21) == 42
    assert native.load(source) is loaded
    assert [p.suffix for p in (tmp_path / "cache" / "native").iterdir()] == [".so"]


def test_the_variable_switches_helpers_off(source, monkeypatch):
    monkeypatch.setenv("TRNSCI_NATIVE", "0")
    assert native.load(source) is None
    assert native.why_not() == "TRNSCI_NATIVE=0"


def test_a_machine_without_a_compiler_says_so(source, monkeypatch):
    monkeypatch.setattr(native, "compiler", lambda: None)
    assert native.load(source) is None
    assert "no C compiler" in native.why_not()
