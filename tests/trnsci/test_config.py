import os
import subprocess
import sys
from pathlib import Path

import pytest

from trnsci import ArgumentError, cache, config, libraries


def test_defaults_without_environment(monkeypatch):
    for setting in config.settings():
        monkeypatch.delenv(setting.name, raising=False)
        assert setting.get() == setting.default
        assert not setting.is_set


def test_every_setting_has_a_name_a_meaning_and_accepted_values():
    names = [setting.name for setting in config.settings()]
    assert len(set(names)) == len(names)
    assert all(setting.meaning and setting.accepts for setting in config.settings())
    for library in libraries.names():
        for suffix in ("FORCE_BACKEND", "REQUIRE_NKI", "USE_SIMULATOR"):
            assert f"{library.upper()}_{suffix}" in names


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("TRNSCI_BACKEND", "simulator", "simulator"),
        ("TRNSCI_TARGET", " trn1 ", "trn1"),
        ("TRNSCI_CACHE_DIR", "/tmp/x", Path("/tmp/x")),
        ("TRNSCI_PLAN_CACHE_COUNT", "7", 7),
        ("TRNFFT_REQUIRE_NKI", "1", True),
        ("TRNFFT_USE_SIMULATOR", "off", False),
        ("TRNRAND_FORCE_BACKEND", "nki", "nki"),
        ("TRNSCI_BACKEND", "", "auto"),
    ],
)
def test_values_are_read(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    assert next(s for s in config.settings() if s.name == name).get() == value


@pytest.mark.parametrize(
    ("name", "text", "accepts"),
    [
        ("TRNSCI_BACKEND", "cuda", "auto | nki | simulator | pytorch"),
        ("TRNSCI_TARGET", "trn9", "trn1 | trn2 | trn3"),
        ("TRNSCI_PLAN_CACHE_BYTES", "-1", "a non-negative integer"),
        ("TRNBLAS_REQUIRE_NKI", "maybe", "0 or 1"),
    ],
)
def test_unknown_values_name_variable_value_and_choices(monkeypatch, name, text, accepts):
    monkeypatch.setenv(name, text)
    with pytest.raises(ArgumentError) as caught:
        next(s for s in config.settings() if s.name == name).get()
    assert (caught.value.argument, caught.value.got) == (name, text)
    assert str(caught.value) == f"trnsci.config: {name} is {text!r}, expected {accepts}."


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"])
def test_what_a_launcher_says_is_a_number(monkeypatch, name):
    for known in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.setenv(known, "x" if known == name else "1")
    with pytest.raises(ArgumentError, match=f"{name} is 'x', expected a number, as a launcher sets it"):
        config.launch_place()


def test_a_library_outside_the_suite_has_the_same_three():
    assert config.library_settings("mylib").require_nki.name == "MYLIB_REQUIRE_NKI"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A cache folder that is not there yet."""
    monkeypatch.setenv("TRNSCI_CACHE_DIR", str(tmp_path / "new" / "cache"))
    return tmp_path / "new" / "cache"


def test_the_cache_is_made_for_its_owner_alone(folder):
    mask = os.umask(0)
    try:
        assert cache.read("x") is None
        path = cache.write("x", "text")
    finally:
        os.umask(mask)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert cache.read("x") == "text"
    assert [p.name for p in folder.iterdir()] == ["x"]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_cache_that_others_may_write_is_refused_with_a_sentence(folder, mode):
    cache.write("x", "text")
    folder.chmod(mode)
    for use in (cache.folder, lambda: cache.read("x"), lambda: cache.write("x", "y")):
        with pytest.raises(ArgumentError) as caught:
            use()
        assert str(caught.value) == (
            f"trnsci: cache {folder} is 'writable by others (mode {mode:o})', expected writable by its owner alone. "
            f"Run chmod go-w {folder}, or name another folder with TRNSCI_CACHE_DIR."
        )
    folder.chmod(0o700)
    (folder / "x").chmod(0o666)
    with pytest.raises(ArgumentError, match="writable by others"):
        cache.read("x")


def test_a_cache_of_somebody_else_is_refused(folder, monkeypatch):
    cache.write("x", "text")
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    for use in (cache.folder, lambda: cache.read("x")):
        with pytest.raises(ArgumentError, match=f"owned by user {mine}', expected owned by user {mine + 1}"):
            use()


def test_links_in_the_cache_are_not_followed(folder, tmp_path):
    (tmp_path / "secret").write_text("mine")
    cache.folder()
    (folder / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(ArgumentError, match="a link"):
        cache.read("x")
    cache.write("x", "text")
    assert (tmp_path / "secret").read_text() == "mine"
    assert cache.read("x") == "text"


def test_a_refused_cache_does_not_end_a_calculation(folder, monkeypatch):
    from trnsci import predict

    cache.write("host.json", '{"machine": "x"}')
    folder.chmod(0o777)
    predict.host.cache_clear()
    with pytest.warns(RuntimeWarning, match="writable by others"):
        assert predict.host().float32 > 0
    predict.host.cache_clear()


HOMELESS = """
import os, pwd

def nobody(*args):
    raise KeyError("getpwuid(): uid not found")

pwd.getpwuid = pwd.getpwnam = nobody
import trnblas, trnchem, trnfft, trnrand, trnsolver, trnsparse, trntensor, torch
from trnsci import config, distributed, predict
a = distributed.shard(torch.eye(4), distributed.mesh(), 0)
assert trnblas.gemm(1.0, a, a).to_local().sum() == 4
print(config.CACHE_DIR.get(), predict.host().float32 > 0)
"""


@pytest.mark.slow
def test_a_program_runs_without_a_home_and_without_a_name(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "USER", "LOGNAME")}
    environment |= {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", HOMELESS], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{tmp_path}/trnsci-{os.geteuid()} True"
