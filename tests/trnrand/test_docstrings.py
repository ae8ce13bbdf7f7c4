"""Examples in docstrings print what they show."""

import doctest
import importlib
import inspect
import pkgutil
import re

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


def test_every_argument_is_documented_those_that_distributions_share_as_well():
    for name in trnrand.__all__:
        function = getattr(trnrand, name)
        doc = inspect.getdoc(function) or ""
        if inspect.isfunction(function) and "Args:" in doc:
            said = re.findall(r"^    (\w+): .", doc.partition("Args:")[2].partition("\n\n")[0], re.MULTILINE)
            assert said == sorted(said, key=list(inspect.signature(function).parameters).index), name
            assert set(said) == set(inspect.signature(function).parameters), name
    assert "Raises:" in inspect.getdoc(trnrand.laplace)
