"""Sharded calls: three processes, any placement of any operand, judged as the call on one rank is."""

import atexit
import functools
import itertools
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch

import trnchem
import trnrand
import trnsci
import trnsparse
from benchmarks.ranks import Ranks, RemoteError
from tests.campaign.draw import COMPLEX, REAL, Draw
from tests.campaign.oracles import narrow, summed, wide, within_range
from tests.campaign.sparse import sparse
from tests.campaign.trial import SPECS, Outside, Trial, spec
from tests.trnchem.arguments import arguments
from trnsci import distributed
from trnsci.testing import assert_within

SIZE = 3
SHARDED = (
    *(f"trnblas.{stem}" for stem in ("gemm", "gemv", "symm", "hemm", "syrk", "trmm", "trsm")),
    *(f"trnfft.{stem}" for stem in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")),
    *(f"trnfft.{back}{kind}{tail}" for back in ("", "i") for kind in ("fft", "rfft") for tail in "2n"),
    *(f"trnsolver.{stem}" for stem in ("cholesky", "solve", "solve_spd", "solve_triangular", "inv", "inv_spd")),
    *(f"trnsolver.{stem}" for stem in ("qr", "lstsq", "eigh", "eigvalsh", "cg")),
    *(f"trnsolver.{stem}" for stem in ("cholesky_solve", "lu_factor", "lu_solve", "svd_randomized", "eigh_randomized")),
    *(f"trntensor.{stem}" for stem in ("einsum", "ao_to_mo_transform", "mp2_energy")),
)


# One call at a time: the ranks take part in it together.
TURN = threading.Lock()
# A call that fails after ranks began to exchange leaves its process groups behind, and their threads wake up for good.
REFUSALS = 25
refusals = itertools.count(1)


@functools.cache
def ranks() -> Ranks:
    team = Ranks(SIZE)
    atexit.register(team.close)
    return team


def on_a_rank(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], places: tuple[int | None, ...]) -> Any:
    """Shard the operands, call, and gather; or what went wrong."""
    mesh = distributed.mesh()
    given = iter(places)

    def sharded(value: Any) -> Any:
        return distributed.shard(value, mesh, next(given)) if isinstance(value, torch.Tensor) else value

    def gathered(value: Any) -> Any:
        if isinstance(value, torch.distributed.tensor.DTensor):
            return distributed.gather(value)
        if hasattr(value, "_fields"):
            return type(value)(*map(gathered, value))
        if is_dataclass(value):
            return replace(
                value, **{item.name: gathered(getattr(value, item.name)) for item in fields(value) if item.init}
            )
        return tuple(map(gathered, value)) if isinstance(value, tuple | list) else value

    try:
        operands = [sharded(value) for value in args]
        return gathered(function(*operands, **{name: sharded(value) for name, value in kwargs.items()}))
    except trnsci.TrnError as error:
        return f"{type(error).__name__}: {error}"


@spec(*(f"{name} on ranks" for name in SHARDED), promise="that of the call on one rank, or a typed error on every rank",
      when="three ranks, each operand cut along any axis or copied")  # fmt: skip
def sharded(draw: Draw, name: str) -> Trial:
    one = SPECS[name.split()[0]](draw)
    tensors = [x for x in (*one.args, *one.kwargs.values()) if isinstance(x, torch.Tensor)]
    if any(isinstance(x, tuple | list) for x in one.args) or sum(x.numel() for x in tensors) > 20000:
        raise Outside
    places = tuple(draw.among(None, *range(x.ndim)) if x.ndim else None for x in tensors)
    draw.log.append(f"cut along {places}")

    return agreed(lambda: ranks().run(on_a_rank, one.function, one.args, one.kwargs, places), one.judge)


def product_on_a_rank(dense: torch.Tensor, b: torch.Tensor, options: dict[str, Any], place: int | None) -> Any:
    """The product of a matrix cut along its rows with a dense operand, gathered; or what went wrong."""
    mesh = distributed.mesh()
    function = trnsparse.spmm if b.ndim == 2 else trnsparse.spmv
    try:
        a = trnsparse.shard_rows(trnsparse.CSRMatrix.from_dense(dense), mesh)
        return distributed.gather(function(a, distributed.shard(b, mesh, place), **options))
    except trnsci.TrnError as error:
        return f"{type(error).__name__}: {error}"


def agreed(run: Callable[[], Any], judge: Callable[[Any], None]) -> Trial:
    """A call on every rank: all give what is right, or all refuse."""

    def together() -> Any:
        try:
            with TURN:
                results = run()
                if any(isinstance(result, str) for result in results) and next(refusals) % REFUSALS == 0:
                    ranks().close()
                    ranks.cache_clear()
                return results
        except RemoteError as error:
            raise AssertionError(f"ranks raised: {error}") from error

    def check(results: Any, kernel: bool) -> None:
        refused = [isinstance(result, str) for result in results]
        assert all(refused) or not any(refused), f"some ranks refuse: {results}"
        for result in results if not any(refused) else ():
            judge(result)

    return Trial(together, (), kernels=False, check=check, differentiable=False, compiles=False, repeats=False)


@spec("trnsparse.spmm on ranks", "trnsparse.spmv on ranks", promise="that of the call on one rank",
      when="three ranks, the dense operand cut along any axis or copied")  # fmt: skip
def products(draw: Draw, name: str) -> Trial:
    dtype, m, k, n = draw.dtype(*REAL, *COMPLEX), draw.size(1, 40), draw.size(1, 40), draw.size(1, 9)
    dense, b = sparse(draw, m, k, dtype), draw.tensor((k, n) if "spmm" in name else (k,), dtype)
    options, place = draw.among({}, {}, {"alpha": 2.0}), draw.among(None, *range(b.ndim))
    draw.log.append(f"{options} cut along {place}")
    a, x = wide(dense), wide(b)
    # not the bits: MKL adds a row in an order that depends on where the row begins in memory
    exact, size = (options.get("alpha", 1.0) * (left @ right) for left, right in ((a, x), (np.abs(a), np.abs(x))))
    within_range(dtype, size)
    bound = summed(k, size, exact, dtype)

    def judge(result: torch.Tensor) -> None:
        assert_within(result, narrow(exact), bound)

    return agreed(lambda: ranks().run(product_on_a_rank, dense, b, options, place), judge)


DRAWS: dict[str, dict[str, Any]] = {
    "uniform": {}, "normal": {"loc": 1.0}, "exponential": {}, "gamma": {"shape": 0.7}, "poisson": {"rate": 3.0},
    "randint": {"high": 1 << 33}, "bernoulli": {"p": 0.3}, "binomial": {"n": 50, "p": 0.3},
}  # fmt: skip


def draw_on_a_rank(name: str, shape: tuple[int, ...], start: tuple[int, int], place: int | None) -> Any:
    """Numbers drawn into a spread array, gathered."""
    generator = trnrand.Generator(start[0]).advance(start[1])
    one = getattr(trnrand, name)(1, generator=trnrand.Generator(0), **DRAWS[name])
    out = distributed.shard(torch.zeros(shape, dtype=one.dtype), distributed.mesh(), place)
    return distributed.gather(getattr(trnrand, name)(*shape, out=out, generator=generator, **DRAWS[name]))


@spec(*(f"trnrand.{stem} on ranks" for stem in DRAWS), promise="the bits of the draw on one rank",
      when="three ranks, the array cut along any axis or copied")  # fmt: skip
def spread(draw: Draw, name: str) -> Trial:
    stem, shape = name.split()[0].split(".")[1], tuple(draw.size(1, 30) for _ in range(draw.among(1, 2, 3)))
    start, place = (draw.among(0, 5), draw.among(0, 1, 7)), draw.among(None, *range(len(shape)))
    draw.log.append(f"{stem} {shape} from {start}, cut along {place}")

    def judge(result: torch.Tensor) -> None:
        generator = trnrand.Generator(start[0]).advance(start[1])
        assert torch.equal(result, getattr(trnrand, stem)(*shape, generator=generator, **DRAWS[stem])), "other bits"

    return agreed(lambda: ranks().run(draw_on_a_rank, stem, shape, start, place), judge)


def energy_on_a_rank(molecule: tuple[str, str], options: dict[str, Any]) -> Any:
    """The energy of a molecule whose pairs the ranks share."""
    return float(trnchem.dfmp2(molecule[0], **arguments(basis=molecule[1], mesh=distributed.mesh(), **options)).e_corr)


@spec("trnchem.dfmp2 on ranks", promise="`1e-9` Ha of the call on one rank, `1e-6` in fp32", when="three ranks")
def shared(draw: Draw) -> Trial:
    molecule = draw.among("water", "ammonia", "methane"), draw.among("sto-3g", "6-31g")
    options = draw.among({}, {"precision": "fp32"}, {"frozen": "core"}, {"method": "laplace"}, {"resident": False})
    draw.log.append(f"{molecule} {options}")

    def judge(result: float) -> None:
        alone = trnchem.dfmp2(molecule[0], **arguments(basis=molecule[1], **options)).e_corr
        assert abs(result - alone) <= (1e-6 if "precision" in options else 1e-9), (result, alone)

    return agreed(lambda: ranks().run(energy_on_a_rank, molecule, options), judge)
