"""Every public function has an example, and every example shows what the function returns."""

import doctest

import torch

import trnsolver
from tests.together import together

FUNCTIONS = [
    name
    for name in trnsolver.__all__
    if name.islower() and callable(getattr(trnsolver, name)) and name not in ("get_backend", "set_backend")
]


@together("name", FUNCTIONS)
def test_the_example_runs(name):
    function, found = getattr(trnsolver, name), []
    namespace = {"torch": torch, **{each: getattr(trnsolver, each) for each in trnsolver.__all__}}
    tests = doctest.DocTestFinder(recurse=False).find(function, name, globs=namespace)
    assert sum(len(test.examples) for test in tests) > 0
    for test in tests:
        doctest.DocTestRunner().run(test, out=found.append)
    assert not found, "\n".join(found)
