"""The examples of docstrings give what they show."""

import doctest

import torch

import trnfft
from tests.together import together

FUNCTIONS = [getattr(trnfft, name) for name in trnfft.__all__ if ">>>" in (getattr(trnfft, name).__doc__ or "")]


@together("function", FUNCTIONS)
def test_the_example_runs(function):
    namespace = {"torch": torch, **{name: getattr(trnfft, name) for name in trnfft.__all__}}
    for test in doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=namespace):
        found = []
        doctest.DocTestRunner().run(test, out=found.append)
        assert not found, "".join(found)
