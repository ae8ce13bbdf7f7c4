"""What a benchmark file declares: the op, its cases, its peers, its kernels.

``benchmarks/<lib>/<stem>.py`` holds one module constant ``BENCH = Bench(...)``; the folder listing is the registry.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("trn1", "trn2", "trn3")
# The device under test, set by the command line; draws have no operand that would say it.
_under_test = ["cpu"]


def device() -> str:
    """The device under test."""
    return _under_test[0]


def test_on(name: str) -> None:
    """Make a device the one under test."""
    _under_test[0] = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One size of an op.

    Attributes:
        name: Sizes and dtype, e.g. ``"1024x1024x1024 float32"``. Unique within the benchmark.
        inputs: Makes the positional arguments, with a fixed seed. Torch tensors are moved to the device under test.
        flops: Arithmetic the mathematics asks for (``2MNK`` for a GEMM), whatever the implementation does.
        bytes: Inputs read once plus outputs written once.
        overhead: The row reports the difference to each peer in microseconds, not the ratio.
        devices: Where it is timed; sizes that keep a GPU busy would take the host minutes.
    """

    name: str
    inputs: Callable[[], tuple[Any, ...]]
    flops: int
    bytes: int
    overhead: bool = False
    devices: tuple[str, ...] = ("cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another way to compute the same thing, timed in turn with ours.

    Attributes:
        name: As shown in the table, e.g. ``"torch.matmul"``.
        run: Called with the prepared arguments; this alone is timed.
        prepare: Turns the case's inputs into the peer's arguments (to NumPy, to another layout) outside the clock.
        requires: A module the peer needs; when it cannot be found the table says so.
        devices: Where it can run.
        takes: Whether it computes a case, from the case's inputs; without it, every one.
        called: It is what ours calls, in every case; elsewhere the ledger says whether.
    """

    name: str
    run: Callable[..., Any]
    prepare: Callable[..., tuple[Any, ...]] | None = None
    requires: str | None = None
    devices: tuple[str, ...] = ("cpu", "cuda")
    takes: Callable[..., bool] | None = None
    called: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel at one size; its predicted cycles are recorded in ``benchmarks/baselines`` and compared exactly.

    Attributes:
        name: Sizes and dtype. Unique within the benchmark.
        kernel: The ``@jit`` entry of ``kernels/<stem>.py``.
        inputs: Makes its arrays. Only shapes and dtypes matter: the prediction runs without numerics.
        options: Compile-time keyword arguments, or what makes them where that takes long.
        targets: Which generations to predict for.
        ranks: How many run it together, each with these inputs; times are of the slowest, bytes of all.
        slow: Following it takes many seconds: the default test suite leaves it to ``make bench`` and ``make test-all``.
    """

    name: str
    kernel: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    options: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    targets: tuple[str, ...] = TARGETS
    ranks: int | None = None
    slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A call of the op that is several programs, predicted as its plan predicts it and recorded like a kernel.

    Attributes:
        name: Sizes and dtype. Unique among kernels as well.
        inputs: Makes the operands; only shapes and dtypes matter.
        targets: Which generations to predict for.
    """

    name: str
    inputs: Callable[[], tuple[Any, ...]]
    targets: tuple[str, ...] = TARGETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything ``make bench`` knows about one op.

    Attributes:
        op: ``"<lib>.<stem>"``, matching the file's own path.
        run: The public function, called with a case's inputs.
        tests: The op's test file. While it is red no speed is reported.
        cases: Sizes to time.
        peers: What to stand beside.
        kernels: Kernels with recorded predictions; empty only for ops without one.
        wholes: Calls of several programs with recorded predictions.
        comparable: Reduces a result to one array that ours and every peer's must agree on; ``None`` where results
            cannot be compared (random streams).
        tolerance: Largest difference to a peer allowed, relative to the peer's largest entry.
        notes: What a reader of the table should know, losses explained.
        slower: What ours does on a GPU that its peers do not, and that takes longer.
        devices: Where the op runs at all.
    """

    op: str
    run: Callable[..., Any]
    tests: str
    cases: tuple[Case, ...]
    peers: tuple[Peer, ...]
    kernels: tuple[Kernel, ...] = ()
    wholes: tuple[Whole, ...] = ()
    comparable: Callable[[Any], Any] | None = lambda result: result
    tolerance: float = 1e-3
    notes: str = ""
    slower: str = ""
    devices: tuple[str, ...] = ("cpu", "cuda")

    def __post_init__(self) -> None:
        if not (ROOT / self.tests).is_file():
            raise ValueError(f"{self.op}: its tests are missing: {self.tests} does not exist.")
        for kind, names in (
            ("case", [c.name for c in self.cases]),
            ("peer", [p.name for p in self.peers]),
            ("kernel", [k.name for k in (*self.kernels, *self.wholes)]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{self.op}: {kind} names must be unique, these occur twice: {', '.join(twice)}.")


def names() -> list[str]:
    """Every registered op, as ``"<lib>.<stem>"``, from the folder listing."""
    here = Path(__file__).parent
    return sorted(f"{path.parent.name}.{path.stem}" for path in here.glob("trn*/[!_]*.py"))


def load(op: str) -> Bench:
    """Import one benchmark file and return its declaration."""
    bench = importlib.import_module(f"benchmarks.{op}").BENCH
    if not isinstance(bench, Bench) or bench.op != op:
        raise ValueError(f"benchmarks/{op.replace('.', '/')}.py: BENCH must be a Bench with op={op!r}, got {bench!r}.")
    return bench
