"""The examples of docstrings give what they show."""

import doctest

import pytest
import torch

import trnfft

FUNCTIONS = [getattr(trnfft, name) for name in trnfft.__all__ if ">>>" in (getattr(trnfft, name).__doc__ or "")]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_example_runs(function):
    namespace = {"torch": torch, **{name: getattr(trnfft, name) for name in trnfft.__all__}}
    for test in doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=namespace):
        found = []
        doctest.DocTestRunner().run(test, out=found.append)
        assert not found, "".join(found)
