"""A device for tests: kernels run on the simulator with the constants of a target file, and with faults on demand.

A JSON file describes it. Nothing here is a measurement of a Trainium: times are those the time model
predicts with the file's constants, and every report says that the device is a stand-in.

| key | |
|---|---|
| ``target`` | ``trn1``, ``trn2`` or ``trn3`` |
| ``target_file`` | a target file whose constants rule the stand-in's times; beside the file, or an absolute path |
| ``noise`` | standard deviation of times, relative; the same for the same kernel and shapes |
| ``faults`` | by name of a kernel: one of ``refuse`` and ``fail`` (messages), ``wrong`` (error of one entry, relative |
| | to the largest), ``hang`` (seconds), ``crash`` (a signal's name), ``memory`` (bytes), ``slow`` (a factor) |
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import trnsim
from benchmarks.validation import profiler
from tests.neuronx.neuronx_faults import FAULTS, break_off, spoil
from trnsci import config, neuron
from trnsci.errors import ArgumentError
from trnsci.specs import ResidentTensor, freeze, map_tensors, tensors_in
from trnsim import target_file
from trnsim.json_reader import read_json
from trnsim.targets import TARGETS, Target


class Machine(neuron.StandIn):
    """The stand-in a file describes. Its clock runs by what its launches take on its time model."""

    def __init__(self, path: Path) -> None:
        said = _read(path)
        self.machine: Target = TARGETS[said["target"]]
        if "target_file" in said:
            self.machine = target_file.read(path.parent / said["target_file"], TARGETS)
        super().__init__(said["target"])
        self.noise: float = said.get("noise", 0.0)
        self.faults: dict[str, dict[str, Any]] = said.get("faults", {})
        self._elapsed = 0.0
        self._runs: dict[Any, tuple[Any, Any]] = {}

    def clock(self) -> float:
        """Return seconds that launches have taken."""
        return self._elapsed

    def run(self, kernel: Callable[..., Any], *args: Any, **static: Any) -> Any:
        """Run the kernel, once for the same operands, and let the clock run."""
        name = str(getattr(kernel, "__name__", kernel))
        fault = self.faults.get(name, {})
        self._held = break_off(fault)
        plain = map_tensors(args, lambda t: t.detach().as_subclass(Tensor))
        key = name, freeze(plain), tuple(sorted(static.items(), key=str)), tuple(map(_digest, tensors_in(plain)))
        if key not in self._runs:
            self._runs[key] = trnsim.profile(kernel, target=self.machine)(*plain, **static)
            if "fail" in fault:
                raise RuntimeError(fault["fail"])
        results, report = self._runs[key]
        self._elapsed += report.benchmark_s * fault.get("slow", 1.0) * self._noise(f"{name} {report.total_s}")
        _inspected(name, report)
        if "wrong" in fault:
            results = map_tensors(results, lambda t: spoil(t, fault["wrong"]))
        return map_tensors(results, lambda t: t.clone().as_subclass(ResidentTensor))

    def _noise(self, what: str) -> float:
        generator = torch.Generator().manual_seed(zlib.crc32(what.encode()))
        return math.exp(self.noise * float(torch.randn((), generator=generator, dtype=torch.float32, device="cpu")))


def _digest(tensor: Tensor) -> bytes:
    return hashlib.blake2b(tensor.flatten().view(torch.uint8).numpy().data).digest()


def _inspected(name: str, report: Any) -> None:
    """Leave what the run time's inspection leaves, where it is switched on: a program, and a trace beside it."""
    folder = profiler.inspected_folder()
    if folder is None:
        return
    busy = {
        f"{engine}_engine_active_time_percent": report.engines[engine].utilisation
        for engine in ("tensor", "vector", "scalar", "gpsimd")
    }
    summary = {"total_time": report.total_s, "dma_active_time_percent": report.engines["dma"].utilisation, **busy}
    (folder / f"{name}.neff").write_bytes(b"\0" * 64 * report.instruction_count)
    (folder / f"{name}.ntff").write_text(json.dumps({name: summary}))


def _read(path: Path) -> dict[str, Any]:
    """Read and check the description."""
    try:
        said = read_json(path)
    except (OSError, ValueError) as error:
        raise _refused(path, str(error), "a JSON file") from None
    if not isinstance(said, dict) or said.get("target") not in config.TARGETS:
        raise _refused(path, said, f"a target: {' | '.join(config.TARGETS)}")
    unknown = set(said) - {"target", "target_file", "noise", "faults"}
    if unknown:
        raise _refused(path, sorted(unknown), "target, target_file, noise, faults")
    for kernel, fault in said.get("faults", {}).items():
        for name, value in fault.items():
            if name not in FAULTS or not isinstance(value, FAULTS[name] if FAULTS[name] is not float else int | float):
                raise _refused(path, f"{name} {value!r} of {kernel}", f"one of {', '.join(FAULTS)} with its value")
    return said


def _refused(path: Path, got: object, expected: str) -> ArgumentError:
    return ArgumentError("machine", str(path), got, expected)
