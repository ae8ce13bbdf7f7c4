from pathlib import Path

import pytest

from trnsci import ArgumentError, config


def test_defaults_without_environment(monkeypatch):
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
        assert setting.get() == setting.default
        assert not setting.is_set


def test_every_setting_has_a_name_a_meaning_and_accepted_values():
    names = [setting.name for setting in config.SETTINGS]
    assert len(set(names)) == len(names)
    assert all(setting.meaning and setting.accepts for setting in config.SETTINGS)
    for library in config.LIBRARIES:
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
    assert next(s for s in config.SETTINGS if s.name == name).get() == value


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
        next(s for s in config.SETTINGS if s.name == name).get()
    assert (caught.value.argument, caught.value.got) == (name, text)
    assert str(caught.value) == f"trnsci.config: {name} is {text!r}, expected {accepts}."


def test_a_library_outside_the_suite_has_the_same_three():
    assert config.library_settings("mylib").require_nki.name == "MYLIB_REQUIRE_NKI"
