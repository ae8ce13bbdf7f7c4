"""Examples in docstrings print what they show."""

import doctest
import importlib

import pytest

import trnchem

MODULES = [f"trnchem.{name}" for name in ("dfmp2", "references", "solver", "fitting", "extrapolation", "budget")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    names = {key: getattr(trnchem, key) for key in trnchem.__all__}
    found = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
