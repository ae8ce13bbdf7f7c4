"""The campaign itself: it knows every public function, and finds what is planted."""

import contextlib
import functools
import importlib
import inspect
import itertools
import json

import numpy as np
import pytest
import torch

import trnsci
import trnsolver
import trnsparse
import trntensor
from tests.campaign import __main__ as command, trial
from tests.campaign.trial import EXEMPT, PROMISES, SPECS, Trial, attempt, functions, load
from tests.samples import MASKS

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


# Options no drawn call gives: devices and meshes, and memory, which the way "out" gives.
ELSEWHERE = {"device", "out", "mesh"}


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


CALLS_SO_FAR = itertools.count()
# No chance decides: a change of every operand, and one of every second result by many units in the last place.
PLANTED = {
    "wrong": (lambda x: x + 1e-3, "exceed the bound"),
    "raw": (lambda x: x.no_such_thing, "raised AttributeError"),
    "changing": (lambda x: x.copy_(x.round(decimals=3)), "an operand was changed"),
    # no two calls agree, whatever number of them the campaign makes between those it compares
    "restless": (lambda x: x * (1 + 2.0**-52 * (next(CALLS_SO_FAR) % 512)), "other bits"),
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


_A = 4 * torch.eye(6) + torch.diag(torch.ones(5), 1) + torch.diag(torch.ones(5), -1)
_S, _B, _V = trnsparse.CSRMatrix.from_dense(_A), torch.ones(6, 2), torch.ones(6)
_TWO = {"mean": torch.zeros(2), "covariance": torch.eye(2)}
_BLOCKS = trntensor.block_sparse(_A, ((2, 4), (2, 4)))
_STEPS = {"x0": _V, "tol": 1e-3, "max_iterations": 50}
_SPARSE = {"kind": "lu", "values": None, "ordering": "amd", "method": "auto"}
_MOLECULE = {"basis": "sto-3g", "charge": 0, "spin": 0, "reference": "rhf"}
# right arguments of functions that no drawn call is made of directly
CALLS = {
    "trnblas.error_bound": ((5, torch.float32), {"precision": "fp32"}),
    "trnfft.plan": (((8,), torch.complex64), {"dim": 0, "kind": "fft", "n": 8, "norm": None, "precision": "fp32"}),
    "trnrand.choice": ((5, 2), {"replace": True, "p": None, "device": None, "generator": None}),
    "trnrand.integers": ((0, 5, 3), {"endpoint": False, "dtype": None}),
    "trnrand.manual_seed": ((1,), {}),
    "trnrand.default_rng": ((1,), {}),
    "trnrand.multivariate_normal": ((2,), {**_TWO, "method": "cholesky"}),
    **{f"trnrand.{name}": ((2,), {"dtype": None, "device": None}) for name in ("random", "standard_normal")},
    "trnsolver.block_jacobi_preconditioner": ((_A, 2), {}),
    "trnsolver.chebyshev_preconditioner": ((_A, 1.0, 9.0), {"degree": 3}),
    "trnsolver.ssor_preconditioner": ((_A,), {"omega": 1.0}),
    "trnsolver.count_eigenvalues": ((_S, (0.0, 4.0)), {"ordering": "amd"}),
    "trnsolver.eigsh": (
        (_S, 2),
        {"sigma": 1.5, "which": "LM", "tol": 1e-6, "maxiter": 99, "method": "auto", "seed": 0},
    ),
    "trnsolver.factor_sparse": ((_S,), _SPARSE),
    "trnsolver.solve_sparse": ((_S, _B), {**_SPARSE, "target_error": None}),
    "trnsolver.orgbr": ((trnsolver.gebrd(_A), "q"), {}),
    "trnsolver.ormbr": ((trnsolver.gebrd(_A), _B, "q"), {"left": True, "transpose": False}),
    "trnsparse.add": ((_S, _S), {"alpha": 1.0, "beta": 2.0}),
    "trnsparse.ilu0": ((_S,), {"boost": (1e-8, 1e-4)}),
    "trnsparse.norm": ((_S, "fro"), {}),
    "trnsparse.power_iteration": ((_S,), _STEPS),
    "trnsparse.cg": ((_S, _V), _STEPS),
    "trnsparse.choose": ((_S, 4), {"where": "trn2", "block": 4}),
    "trnsparse.triangle": ((_S,), {"lower": True, "offset": 0}),
    "trnsparse.solve_triangular": ((_S, _B), {"lower": True, "unit_diagonal": False, "trans": False}),
    "trnsparse.spmm": ((_S, _B), {"alpha": 1.0, "beta": 1.0, "c": _B, "trans": False, "format": "auto"}),
    "trnsparse.spmm_op": ((_S, _B), {"multiply": torch.mul, "add": "sum", "epilogue": None, "empty": 0.0}),
    "trnsparse.sddmm": ((_S, _B, _B.T), {"alpha": 1.0, "beta": 1.0, "epilogue": None}),
    "trnsparse.screened_spmm": ((_S, _V, _V, _B, 0.1), {}),
    "trnsparse.attention": ((*[torch.ones(1, 4, 2)] * 3, None, 1.0), {"block": 2}),
    "trnsparse.blocks": ((torch.ones(2, 2) > 0, 4), {}),
    "trnsparse.documents": ((torch.tensor([0, 0, 1]),), {}),
    **{f"trnsparse.{name}": ((2,), {}) for name in MASKS},
    "trnsparse.eye": ((3,), {"dtype": torch.float32, "device": None}),
    "trnsparse.shard_rows": ((_S, (2,)), {}),
    "trntensor.block_einsum": (("ij,jk->ik", _BLOCKS, _BLOCKS), {"alpha": 1.0, "c": None, "precision": "fp32"}),
    "trntensor.fuse": (("ij,jk->ik",), {"epilogue": None, "extras": (), "reduce": None}),
    "trntensor.multi_einsum": (([("ij,jk->ik", _A, _A)],), {"precision": "fp32", "optimize": "auto"}),
    "trntensor.plan": (("ij,jk->ik", (3, 4), (4, 5)), {"precision": "fp32", "memory_limit": None, "optimize": "auto"}),
    "trnchem.mean_field": (("water",), _MOLECULE),
    "trnchem.plan": (("water",), {"memory": 10**9, "ranks": 1}),
    "trnchem.extrapolate": (((-1.0, -0.2), (-1.1, -0.25), (2, 3)), {}),
    "trnchem.read_xyz": (("nowhere.xyz",), {}),
}


@pytest.mark.parametrize("library", trial.LIBRARIES)
def test_errors_name_the_function_that_was_called(library):
    failures = []
    for name, (args, kwargs) in CALLS.items():
        if not name.startswith(library):
            continue
        for place in (*range(len(args)), *kwargs):
            for wrong in trial.WRONG:
                given = [wrong if i == place else x for i, x in enumerate(args)]
                named = {key: wrong if key == place else x for key, x in kwargs.items()}
                try:
                    trial.refused(trial.public(name), given, named, f"{name}: {wrong!r} as {place}")
                except AssertionError as error:
                    failures.append(str(error))
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SPECS))
def test_a_few_calls_of_every_function(name):
    for seed in range(3):
        assert (why := attempt(name, seed)) is None, why
