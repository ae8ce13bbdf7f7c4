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


@pytest.mark.skipif(native.compiler() is None, reason="needs a C compiler")
def test_a_cache_that_cannot_be_written_is_done_without(source, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(blocked / "cache"))
    assert native.load(source).twice(21) == 42


@pytest.mark.skipif(native.compiler() is None, reason="needs a C compiler")
def test_a_compiler_that_fails_is_warned_of_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "broken.c"
    path.write_text("int twice(int x) { return 2 * y; }\n")
    with pytest.warns(RuntimeWarning, match=r"broken\.c.*TRNSCI_NATIVE=0") as caught:
        first = native.load(path)
    assert first is None
    assert native.load(path) is None
    assert len(caught) == 1
    assert "undeclared" in str(caught[0].message)
