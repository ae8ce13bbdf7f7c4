"""One job in its own process: what it finds is appended to a file stage by stage, so that a death tells how far it got.

``python -m benchmarks.validation.one KIND NAME CASE FILE``; the parent holds the limits.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import trnsci
from benchmarks import registry
from benchmarks.validation import cases, probes, profiler
from trnsci import config, neuron, neuron_host, tuned
from trnsci.errors import UnsupportedError
from trnsci.info import info
from trnsci.kernel_launcher import Launcher, OnDevice, Predictor, Simulator, using
from trnsci.nki import launch
from trnsci.specs import map_tensors, tensors_in
from trnsim.arrays import to_numpy
from trnsim.lint import lint
from trnsim.targets import TARGETS

Say = Callable[..., None]
# how often a launch is measured at most, and for how many of the device's seconds
REPEATS, ENOUGH = 10, 1.0
# how far a device may be from the simulator, relative to the largest entry: sums in other orders, function tables
ALIKE = 1e-3


def about(say: Say) -> None:
    """The machine: device, versions, settings that are set, cores of a logical core."""
    device, why = neuron.find_device()
    found = info()
    target = device.target if device else config.TARGET.get()
    say(
        "about",
        device=None if device is None else "emulated" if device.is_emulated else device.kind,
        why=why,
        target=target,
        logical_cores=neuron.logical_cores(target),
        instance=neuron_host.instance(),
        versions=found.versions,
        settings={s.name: s.problem or s.value for s in found.settings if s.is_set},
        profiler=profiler.tool(),
    )


def probe(say: Say, name: str) -> None:
    """One assumption about the arithmetic."""
    found = getattr(probes, name)()
    say("probe", holds=found.holds, text=found.text)


def kernel(say: Say, name: str, case: str) -> None:
    """Predict, compile, run, measure, and compare with the simulator."""
    bench = registry.load(name)
    registered, tensors, static = cases.kernel_of(name, case)
    device = _device()
    rules = sorted({finding.rule for finding in lint(registered.kernel, strict=True)})
    predicted = _launch_kernel(Predictor(device.target), registered.kernel, map_tensors(tensors, _shape), static)[0]
    engines = {engine: busy / (predicted.active or 1.0) for engine, busy in predicted.busy.items()}
    say(
        "predict",
        total_s=predicted.seconds,
        active_s=predicted.active,
        benchmark_s=predicted.active + predicted.launches * TARGETS[device.target].timing.launch * 1e-9,
        low_s=predicted.low,
        high_s=predicted.high,
        engines=engines,
        instructions=predicted.longest[0],
        launches=predicted.launches,
        lint=rules,
        choices=tuned.chosen(registered.kernel, device.target, tensors, static),
    )
    resident = map_tensors(tensors, device.put)
    begin = time.perf_counter()
    say("compile begins")
    _, results = _launch_kernel(OnDevice(device), registered.kernel, resident, static)
    device.synchronize()
    say("compile", seconds=time.perf_counter() - begin, neff_bytes=profiler.neff_bytes(profiler.inspected_folder()))
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        start = device.clock()
        _launch_kernel(OnDevice(device), registered.kernel, resident, static)
        device.synchronize()
        times.append(device.clock() - start)
    say("measure", seconds=statistics.median(times), least_s=min(times), most_s=max(times), repeats=len(times))
    got = map_tensors(results, device.fetch)
    _, expected = _launch_kernel(Simulator(device.target), registered.kernel, tensors, static)
    say("compare", **difference(got, expected, min(bench.tolerance, ALIKE)))


def alone(say: Say, name: str, case: str) -> None:
    """Compile a kernel by itself, as a call with arrays does; program and arrays are left for `device_clock`."""
    registered, tensors, static = cases.kernel_of(name, case)
    device, kernel = _device(), registered.kernel
    arrays = map_tensors(tensors, to_numpy)
    folder = Path(config.environment({})["NKI_ARTIFACTS_DIR"])
    raw = [x.view(np.uint16) if x.dtype.name == "bfloat16" else x for x in arrays if isinstance(x, np.ndarray)]
    np.savez(folder / "arrays.npz", *raw)
    say("compile begins")
    choices = tuned.chosen(kernel, device.target, tensors, static)
    (kernel[device.cores] if neuron.needs_bracket(device.cores) else kernel)(*arrays, **static, **choices)
    say("alone")


def op(say: Say, name: str, case: str) -> None:
    """The public function on the device, beside its definition in float64, within the bound it states."""
    bench = registry.load(name)
    inputs = next(c for c in bench.cases if c.name == case).inputs()
    _device()
    say("compile begins")
    with trnsci.backend("nki", strict=False), trnsci.ledger() as book:
        result = bench.run(*inputs)
    ran = [entry for entry in book if entry.step.backend == "nki"]
    reason = next((entry.step.reason for entry in book if entry.step.backend != "nki"), "nothing was dispatched")
    bounds = [entry.error_bound for entry in ran if entry.depth == 0]
    say("run", kernels=len(ran), reason="" if ran else reason, fallbacks=book.fallbacks)
    if not ran:
        return
    with trnsci.backend("pytorch"):
        expected = bench.run(*inputs)
        try:
            wide = bench.run(*map_tensors(inputs, _widen)) if bench.comparable is not None else expected
        except (TypeError, ValueError, NotImplementedError, RuntimeError):
            # an op without float64: its own dtype is the definition
            wide = expected
    stated = bounds[0] if len(bounds) == 1 else None
    say("compare", **_within(bench, result, wide, stated))


def _within(bench: registry.Bench, result: Any, expected: Any, stated: float | None) -> dict[str, Any]:
    if bench.comparable is None:
        # streams: the same words on every backend; functions of them may differ in their last bits
        limit = 2.0**-20 if result.is_floating_point() else 0.0
        return difference(result, expected, limit) | {"against": "the definition"}
    have, want = (_numbers(bench.comparable(value)) for value in (result, expected))
    found = difference(have, want, stated or bench.tolerance)
    return found | {"against": "the stated bound" if stated else "the benchmark's tolerance"}


def _numbers(value: Any) -> Any:
    return value if isinstance(value, Tensor) else torch.as_tensor(value)


def difference(got: Any, expected: Any, tolerance: float) -> dict[str, Any]:
    """The largest difference over the largest entry, the limit it is held to, and whether it is within."""
    worst, limit, exact = 0.0, tolerance, True
    for have, want in zip(tensors_in(got), tensors_in(expected), strict=True):
        have, want = have.detach().cpu().as_subclass(Tensor), want.detach().cpu().as_subclass(Tensor)
        if have.shape != want.shape:
            return {"error": None, "limit": limit, "right": False, "text": f"shape {have.shape}, expected {want.shape}"}
        if want.dtype.is_floating_point or want.is_complex():
            exact = False
            limit = max(limit, 2 * torch.finfo(have.dtype).eps) if tolerance else 0.0
            scale = float(want.abs().nan_to_num(0.0, 0.0, 0.0).max()) if want.numel() else 0.0
            # infinite or not a number on both sides is agreement
            same = (have == want) | (have.isnan() & want.isnan())
            apart = torch.where(same, 0.0, (have.to(want.dtype) - want).abs().nan_to_num(torch.inf))
            worst = max(worst, float(apart.max()) / (scale or 1.0) if apart.numel() else 0.0)
        elif not torch.equal(have.to(torch.int64), want.to(torch.int64)):
            worst = torch.inf
    limit = 0.0 if exact else limit
    finite = worst if worst < torch.inf else None
    return {"error": finite, "limit": limit, "right": worst <= limit, "against": "the simulator"}


def _launch_kernel(launcher: Any, kernel: Any, tensors: tuple[Any, ...], static: dict[str, Any]) -> tuple[Any, Any]:
    made: Launcher
    with using(launcher) as made:
        return made, launch(kernel, *tensors, **static)


def _device() -> neuron.Device:
    device, why = neuron.find_device()
    if device is None:
        raise UnsupportedError(op="validate", reasons=[("nki", why)])
    return device


def _shape(tensor: Tensor) -> Tensor:
    return tensor.to("meta")


def _widen(tensor: Tensor) -> Tensor:
    wide = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.complex64: torch.complex128}
    return tensor.to(wide.get(tensor.dtype, tensor.dtype))


def main(words: list[str]) -> int:
    """Run one job; what it raises is its last line."""
    kind, name, case, file = words
    begun = time.monotonic()

    def say(stage: str, **facts: Any) -> None:
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"stage": stage, "at_s": round(time.monotonic() - begun, 3), **facts}) + "\n")

    run = {"about": about, "probe": probe, "kernel": kernel, "alone": alone, "op": op}[kind]
    try:
        run(say, *filter(None, (name, case)))
    except Exception as error:  # noqa: BLE001
        # whatever a compiler, a run time or a kernel raises is a finding
        say("raised", type=type(error).__name__, message=str(error)[:4000])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
