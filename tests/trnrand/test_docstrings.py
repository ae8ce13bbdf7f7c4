"""Examples in docstrings print what they show."""

import doctest
import importlib
import pkgutil

import torch

import trnrand
from tests.together import together

MODULES = [m.name for m in pkgutil.iter_modules(trnrand.__path__) if not m.ispkg]


@together("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"trnrand.{name}")
    failed, _ = doctest.testmod(module, extraglobs={"trnrand": trnrand, "torch": torch})
    assert failed == 0


def test_public_functions_are_documented_and_methods():
    for name in trnrand.__all__:
        assert getattr(trnrand, name).__doc__ or name == "HAS_NKI"
    generator = trnrand.Generator(0)
    for name in ("uniform", "normal", "gamma", "choice", "orthogonal"):
        assert getattr(generator, name).__doc__ == getattr(trnrand, name).__doc__
