"""The campaign itself: it knows every public function, and finds what is planted."""

import contextlib
import functools
import importlib
import inspect
import json

import numpy as np
import pytest
import torch

import trnsci
from tests.campaign import __main__ as command
from tests.campaign import trial
from tests.campaign.trial import EXEMPT, PROMISES, SPECS, Trial, attempt, functions, load

load()


def test_every_public_function_is_tried_or_exempt_with_a_reason():
    public = set(functions())
    assert not public - set(SPECS) - set(EXEMPT)
    assert not set(SPECS) & set(EXEMPT)
    assert all(EXEMPT.values())
    assert all(promise for promise, _ in PROMISES.values())
    # a variant of a function, "gemm with precision=", is one of a public function; classes and modules may be tried too
    others = {name.split(" ")[0] for name in SPECS} | set(EXEMPT) - public
    for library, stem in (name.split(".") for name in others):
        assert stem in importlib.import_module(library).__all__, f"{library}.{stem} is not public"


def test_the_page_has_every_function_and_the_counts_that_are_kept():
    page = command.PAGE.read_text()
    assert command.table() in page, "run python -m tests.campaign --docs"
    kept = json.loads(command.COUNTS.read_text())
    assert set(kept["tried"]) == set(SPECS)


# Options no drawn call gives: devices and meshes, memory, which the way "out" gives, and what is deprecated.
ELSEWHERE = {"device", "out", "return_error", "mesh"}


@pytest.mark.slow
@pytest.mark.parametrize("library", ["trnfft", "trnrand", "trntensor"])
def test_some_call_gives_every_option(library, monkeypatch):
    given = {name: set() for name in functions() if name.startswith(library) and name not in EXEMPT}

    def noting(name, function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def noted(*args, **kwargs):
            for option, value in signature.bind(*args, **kwargs).arguments.items():
                if value is not signature.parameters[option].default:
                    given[name].add(option)
            return function(*args, **kwargs)

        return noted

    options = {name: inspect.signature(trial.public(name)).parameters for name in given}
    for name in given:
        monkeypatch.setattr(name, noting(name, trial.public(name)))
    for name, seed in [(name, seed) for name in SPECS for seed in range(40)]:
        if name.startswith(library) and not name.endswith("on ranks"):
            with contextlib.suppress(trnsci.TrnError):
                trial.drawn(name, seed, largest=9)[0].run()
    empty = inspect.Parameter.empty
    missing = {
        (name, option)
        for name, seen in given.items()
        for option in set(options[name]) - seen - ELSEWHERE
        if options[name][option].default is not empty
    }
    assert not missing


PLANTED = {
    "wrong": (lambda x: x + 1e-3, "exceed the bound"),
    "raw": (lambda x: x.no_such_thing, "raised AttributeError"),
    "changing": (lambda x: x.mul_(1 + 1e-16).add_(0.5).sub_(0.5), "an operand was changed"),
    "restless": (lambda x: x + 1e-13 * torch.rand(()), "other bits"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name, monkeypatch):
    function, sentence = PLANTED[name]

    def spec(draw):
        x = draw.tensor((5,), torch.float64, kind="gaussian")
        return Trial(function, (x,), {}, lambda: x.numpy().copy(), lambda e: 1e-12 + 0 * np.abs(e), kernels=False)

    monkeypatch.setitem(trial.SPECS, "planted", spec)
    found = [attempt("planted", seed) for seed in range(3)]
    assert all(why is not None and sentence in why for why in found), found


@pytest.mark.parametrize("library", trial.LIBRARIES)
def test_wrong_arguments_get_typed_errors(library):
    failures = []
    for name in [name for name in SPECS if name.startswith(library)]:
        for seed in range(2):
            tried, _ = trial.drawn(name, seed, largest=9 if "davidson" not in name else 13)
            try:
                trial._mistaken(tried)
            except AssertionError as error:
                failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPECS))
def test_a_few_calls_of_every_function(name):
    for seed in range(3):
        assert (why := attempt(name, seed)) is None, why
