"""Sharded calls: three processes, any placement of any operand, judged as the call on one rank is."""

import atexit
import functools
import threading
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch

import trnsci
from tests.campaign.draw import Draw
from tests.campaign.trial import SPECS, Outside, Trial, spec
from trnsci import distributed
from trnsci.testing.ranks import Ranks, RemoteError

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

    def run() -> Any:
        try:
            with TURN:
                return ranks().run(on_a_rank, one.function, one.args, one.kwargs, places)
        except RemoteError as error:
            raise AssertionError(f"ranks raised: {error}") from error

    def check(results: Any, kernel: bool) -> None:
        refused = [isinstance(result, str) for result in results]
        assert all(refused) or not any(refused), f"some ranks refuse: {results}"
        for result in results if not any(refused) else ():
            one.judge(result)

    return Trial(run, (), kernels=False, check=check, differentiable=False, compiles=False, repeats=False)
