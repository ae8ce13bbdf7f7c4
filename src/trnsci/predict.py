"""Predicted seconds: of a call's kernel on Trainium, of its transfers, and of the same call on this host."""

import contextlib
import functools
import json
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import torch

from trnsci import cache, neuron
from trnsci.backends import SCOPE, Scope, entering
from trnsci.config import TargetName
from trnsci.errors import ArgumentError
from trnsci.kernel_launcher import Predictor, current, using
from trnsci.links import Link, link
from trnsci.plans import Cost, seconds
from trnsci.programs import Size, limits
from trnsci.specs import tensors_in, thaw
from trnsim.json_reader import MalformedJson, check_fields, is_finite, parse_json


class _NoKernel(Exception):
    """An op inside a prediction has no kernel for its arguments."""


class _Predicting:
    """Makes ops inside a prediction run their kernels on the timing model too."""

    def __init__(self) -> None:
        self.remarks: list[str] = []

    def call(self, call: Any, out: Any = None) -> Any:
        if call._op.refusal(call, "nki") is not None:
            raise _NoKernel
        if not hasattr(call, "prediction"):
            result = call.nki()
            return result if out is None else out
        call.prediction()
        return call.fake() if out is None else out


class Prediction(NamedTuple):
    """Predicted seconds of an op's kernels: in all, between first and last instruction, and of each engine's work.

    ``low`` and ``high`` are the ends of the kernels' intervals (`trnsim.timing.Report.interval`). ``programs`` counts
    the kernels it starts; an implementation that leaves small work to the host starts none. ``compilations`` of them
    differ. ``instructions`` are those of all launches; ``longest`` has the most instructions, and the most matmuls, of
    one program, ``on_chip`` the most bytes of an SBUF partition and the most PSUM banks. ``remarks`` say
    what depends on data, which a prediction does not see.
    """

    seconds: float
    active: float
    busy: Mapping[str, float]
    programs: int
    low: float
    high: float
    compilations: int = 0
    instructions: int = 0
    longest: tuple[int, int] = (0, 0)
    on_chip: tuple[int, int] = (0, 0)
    remarks: tuple[str, ...] = ()


def device_seconds(call: Any, target: TargetName) -> float | None:
    """Predicted seconds of a frozen call's kernels, without dispatch and transfers; ``None`` where none takes the call.

    An implementation that leaves all its work to the host starts no kernel, and nothing is predicted of it. Of an op
    that iterates the seconds are those of one iteration.
    """
    result = _predict_launch(call, target)
    return None if result is None else result.seconds / _at_once(call)


def _predict_launch(call: Any, target: TargetName) -> Prediction | None:
    """Return the prediction of a frozen call that starts kernels."""
    result = prediction(call, target)
    return None if result is None or (result.programs == 0 and call._op.cost(call).flops > 0) else result


def _at_once(call: Any) -> int:
    """Return how many iterations a prediction of the call counts: what one launch takes."""
    return call.chunk() if hasattr(call, "chunk") else 1


def device_interval(call: Any, target: TargetName) -> tuple[float, float] | None:
    """Return the interval of seconds predicted for a frozen call's kernels; ``None`` without a prediction."""
    result, many = _predict_launch(call, target), _at_once(call)
    return None if result is None else (result.low / many, result.high / many)


def prediction(call: Any, target: TargetName) -> Prediction | None:
    """Return what the timing model says of a frozen call's kernels; ``None`` where none takes the call."""
    return _predict_call(call, target, limits(), neuron.logical_cores(target), link(target))


def obstacle(call: Any, target: TargetName) -> str | None:
    """Return why a device cannot run a frozen call: a program too long to compile; else ``None``."""
    result = prediction(call, target)
    if result is None:
        return None
    return Size(*result.longest).excess or None


# Typed: calls of two ops with the same fields are equal as tuples.
@functools.lru_cache(maxsize=8192, typed=True)
def _predict_call(call: Any, target: TargetName, limit: Size, cores: int, over: Link) -> Prediction | None:
    predicting = _Predicting()
    scope = replace(SCOPE.get() or Scope(), interceptor=predicting, ledgers=())
    with torch.no_grad(), entering(scope), using(Predictor(target)) as predictor:
        try:
            predicting.call(thaw(call))
        except _NoKernel:
            return None
    if predictor.hosted:
        predicting.remarks.append(
            f"blocks on the host: {predictor.hosted}, counted with {seconds(predictor.waited)}, transfers included"
        )
    same = ("seconds", "active", "busy", "low", "high", "compilations", "instructions", "longest", "on_chip")
    told = {name: getattr(predictor, name) for name in same}
    remarks = tuple(dict.fromkeys(predicting.remarks))
    return Prediction(**told, programs=predictor.launches, remarks=remarks)


def on_host(call: Any, implementation: str = "pytorch") -> Any:
    """Compute a call on the host as part of an implementation for the device; predictions count it, with transfers."""
    result = getattr(call, implementation)()
    predictor = current()
    if isinstance(predictor, Predictor):
        operands, cost = list(tensors_in(call)), call._op.cost(call)
        moved = sum(x.nbytes for x in (*operands, *tensors_in(result)))
        predictor.wait_for_host(host().seconds(cost, operands[0].dtype) + link(predictor.target).transfer(moved))
    return result


def offload_seconds(call: Any, cost: Cost, target: TargetName) -> float | None:
    """Predicted seconds of a call sent to the device: dispatch, operands that are not resident, kernel, result."""
    result = _predict_launch(call, target)
    if result is None:
        return None
    specs = list(tensors_in(call))
    moved = sum(spec.nbytes for spec in specs if not spec.resident)
    if not any(spec.resident for spec in specs):
        moved += cost.written
    return result.seconds + max(1, result.programs) * link(target).dispatch + link(target).transfer(moved)


def cheaper(call: Any, cost: Cost, target: TargetName) -> tuple[str, str]:
    """Return ``nki`` or ``pytorch``, whichever is predicted to finish first, and the comparison in words."""
    if any(spec.device.type == "neuron" for spec in tensors_in(call)) and obstacle(call, target) is None:
        return "nki", "its operands are in device memory, where torch starts an operator for each step"
    dtype = next((spec.dtype for spec in tensors_in(call)), torch.float32)
    here = host().seconds(cost, dtype) * _at_once(call)
    # The host is done before a program would even start, so there is nothing to predict.
    start = link(target).dispatch
    if here <= start:
        words = f"host estimate {seconds(here)}, starting an op on {target} takes {seconds(start)}"
        return "pytorch", f"{words} ({link(target).name})"
    refused = obstacle(call, target)
    if refused is not None:
        return "pytorch", f"nki refuses: {refused}"
    there = offload_seconds(call, cost, target)
    if there is None:
        return "nki", f"nothing predicts its time on {target}, host estimate {seconds(here)}"
    words = f"predicted {seconds(there)} on {target} with transfers, host estimate {seconds(here)}"
    result = prediction(call, target)
    if result is not None and there - result.seconds + result.low <= here <= there - result.seconds + result.high:
        words += ", which is within the prediction's interval"
    return ("nki" if there < here else "pytorch"), words


@dataclass(frozen=True, slots=True)
class Host:
    """This machine on PyTorch: what a call costs before any work, and the rates of its work."""

    overhead: float
    float32: float
    float64: float
    bandwidth: float

    def seconds(self, cost: Cost, dtype: torch.dtype) -> float:
        """Estimate a call by the slower of arithmetic and memory."""
        rate = self.float64 if dtype in (torch.float64, torch.complex128) else self.float32
        return self.overhead + max(cost.flops / rate, (cost.read + cost.written) / self.bandwidth)


# Seconds and rates that a machine can have.
_CREDIBLE = (1e-12, 1e18)


@functools.cache
def host() -> Host:
    """Return the calibration of this machine, measured once and kept in the cache directory."""
    machine = f"{platform.node()} {torch.__version__} {torch.get_num_threads()} threads"
    try:
        text = cache.read("host.json")
    except ArgumentError as error:
        # files that others can write are neither believed nor written
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return _calibrate()
    try:
        kept = check_fields(parse_json(text or ""), machine=str, host=dict)
        rates = check_fields(kept["host"], **{each.name: float for each in fields(Host)})
        if kept["machine"] == machine and all(is_finite(value, *_CREDIBLE) for value in rates.values()):
            return Host(**rates)
    except MalformedJson:
        # No file, or none of ours: measure again.
        pass
    measured = _calibrate()
    with contextlib.suppress(OSError, ArgumentError):
        cache.write("host.json", json.dumps({"machine": machine, "host": asdict(measured)}, indent=2))
    return measured


def _calibrate() -> Host:
    n = 768
    a32, a64 = torch.ones(n, n, dtype=torch.float32, device="cpu"), torch.ones(n, n, dtype=torch.float64, device="cpu")
    small, big = a32.new_ones(2, 2), a32.new_ones(1 << 23)
    flops = 2.0 * n**3
    return Host(
        overhead=_best(lambda: small @ small),
        float32=flops / _best(lambda: a32 @ a32),
        float64=flops / _best(lambda: a64 @ a64),
        bandwidth=2.0 * big.nbytes / _best(big.clone),
    )


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
