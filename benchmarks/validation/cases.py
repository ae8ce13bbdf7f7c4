"""What ``trnsci validate`` runs: probes, kernels at their benchmarks' sizes, ops; from cheap to expensive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks import predictions, registry
from benchmarks.registry import Bench, Kernel
from trnsci import libraries
from trnsci.errors import ArgumentError
from trnsim.targets import TARGETS

# what is not known first, then what kernels assume, and times at last
PROBES = (
    *("wide", "complexes", "integers", "copies", "events", "sends"),
    *("products", "sums", "rounding", "tables", "gathers"),
)


class Job(NamedTuple):
    """One process: a probe, a kernel at one size, or the smallest case of an op; ``cost`` is predicted seconds.

    ``turn`` is 0 for probes, 1 for each kernel's first, and 2 for the rest.
    """

    kind: str
    name: str
    case: str
    cost: float
    turn: int = 2

    @property
    def key(self) -> str:
        """What tells it from the others, and is the same in every run."""
        return f"{self.kind} {self.name} {self.case}".strip()


def jobs(target: str, only: Sequence[str] = ()) -> list[Job]:
    """Everything to run on a target: probes, each kernel once where it is cheapest, then the other sizes and the ops.

    A construct that AWS's compiler refuses is so met early, before time goes to larger programs of those that work,
    and `walk.walk` knows how long each kernel compiles when it comes to the rest.
    """
    known = registry.names()
    for part in only:
        if not any(_within(name, part) for name in (*known, "probes")):
            expected = f"a library ({', '.join(libraries.names())}), an op such as trnblas.gemm, or probes"
            raise ArgumentError(op="validate", argument="only", got=part, expected=expected)
    wanted = [name for name in known if not only or any(_within(name, part) for part in only)]
    first: list[Job] = []
    walk: list[Job] = []
    for name in wanted:
        if name.partition(".")[0] not in libraries.names():
            continue
        bench = registry.load(name)
        mine = [Job("kernel", name, k.name, _cost(name, k, target)) for k in bench.kernels if _runs(k, target)]
        if mine:
            cheapest = min(mine, key=lambda job: (job.cost, job.case))
            first.append(cheapest._replace(turn=1))
            walk += [job for job in mine if job is not cheapest]
            walk += [Job("op", name, _smallest(bench), cheapest.cost)] if bench.cases else []
    probes = [Job("probe", probe, "", 0.0, 0) for probe in PROBES] if not only or "probes" in only else []
    return probes + [job for part in (first, walk) for job in sorted(part, key=_by_cost)]


def _by_cost(job: Job) -> tuple[float, str, str]:
    return job.cost, job.name, job.kind


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _runs(kernel: Kernel, target: str) -> bool:
    # one process has one device: kernels of several ranks need a launcher
    return target in kernel.targets and kernel.ranks is None


def _cost(op: str, kernel: Kernel, target: str) -> float:
    facts = predictions.recorded(op).get((kernel.name, target), {})
    return facts.get("cycles", 0) / (TARGETS[target].clock_ghz["tensor"] * 1e9)


def _smallest(bench: Bench) -> str:
    # kernels compute in 32 bits: where there is a choice, so does the case
    timed = [case for case in bench.cases if "cpu" in case.devices]
    return min(timed, key=lambda case: ("float64" in case.name or "complex128" in case.name, case.flops)).name


def kernel_of(op: str, case: str) -> tuple[Kernel, tuple[Any, ...], dict[str, Any]]:
    """Return a registered kernel, its operands with numbers in them, and its compile-time arguments."""
    kernel = next(k for k in registry.load(op).kernels if k.name == case)
    options = kernel.options() if callable(kernel.options) else kernel.options
    return kernel, tuple(filled(value, index) for index, value in enumerate(kernel.inputs())), dict(options)


def filled(value: Any, seed: int) -> Any:
    """Numbers where a benchmark gives shapes: positive definite where a matrix is square, the same on every machine."""
    if isinstance(value, np.ndarray):
        value = _as_tensor(value)
        if value.is_floating_point() and not bool(value.any()):
            value = value.to("meta")
    if not isinstance(value, Tensor) or not value.is_meta:
        return value
    generator = torch.Generator().manual_seed(1000 + seed)
    shape = tuple(value.shape)
    if not value.dtype.is_floating_point:
        # the same row on every partition, as the starts of streams are
        row = torch.randint(0, 1 << 31, shape[-1:], generator=generator)
        return row.expand(shape).contiguous().to(value.dtype)
    made = torch.randn(shape, generator=generator)
    if len(shape) >= 2 and shape[-1] == shape[-2] and shape[-1] > 1:
        n = shape[-1]
        made = (made + made.mT) / (4 * math.sqrt(n)) + torch.eye(n)
    return made.to(value.dtype)


def _as_tensor(array: np.ndarray) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))
