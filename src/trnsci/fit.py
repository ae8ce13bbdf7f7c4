"""Is a program a fit for Trainium? Run it with the ledger on, and say per op what it costs here and would cost there.

Ops of the suite are costed with their kernels on the timing model. Plain torch calls made beside them are measured too,
with the name of the analog that would take them to the device. What neither sees (NumPy, Python, input and output) is
the rest of the wall-clock time.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from trnsci import config
from trnsci.config import TargetName
from trnsci.errors import ArgumentError
from trnsci.ledger import Ledger, ledger, nested
from trnsci.pages import Bar, Bars, page
from trnsci.plans import Step, quantity, seconds
from trnsci.predict import LINKS, device_seconds
from trnsci.show import Table
from trnsci.specs import tensors_in

# torch's own operators by what they are called inside torch, and who does the same here
ANALOGS = {
    "mm": "trnblas.gemm",
    "bmm": "trnblas.gemm",
    "addmm": "trnblas.gemm",
    "baddbmm": "trnblas.gemm",
    "mv": "trnblas.gemv",
    "addmv": "trnblas.gemv",
    "dot": "trnblas.dot",
    "vdot": "trnblas.dotc",
    "triangular_solve": "trnblas.trsm",
    "linalg_solve_triangular": "trnblas.trsm",
    "_fft_c2c": "trnfft.fft",
    "_fft_r2c": "trnfft.rfft",
    "_fft_c2r": "trnfft.irfft",
    "rand": "trnrand.uniform",
    "uniform_": "trnrand.uniform",
    "randn": "trnrand.normal",
    "normal_": "trnrand.normal",
    "randint": "trnrand.randint",
    "randperm": "trnrand.permutation",
    "linalg_cholesky_ex": "trnsolver.cholesky",
    "linalg_lu_factor_ex": "trnsolver.lu_factor",
    "linalg_qr": "trnsolver.qr",
    "_linalg_eigh": "trnsolver.eigh",
    "_linalg_svd": "trnsolver.svd",
    "_linalg_solve_ex": "trnsolver.solve",
    "linalg_inv_ex": "trnsolver.inv",
    "linalg_lstsq": "trnsolver.lstsq",
    "_sparse_mm": "trnsparse.spmm",
    "_scaled_dot_product_flash_attention_for_cpu": "trnsparse.attention",
}


@dataclass(slots=True)
class _Plain:
    """Calls of one torch operator outside the suite."""

    calls: int = 0
    measured: float = 0.0


class _Watch(TorchDispatchMode):
    """Times torch operators that no op of the suite called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: dict[str, _Plain] = defaultdict(_Plain)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with nested() as depth:
            pass
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        if depth == 0:
            plain = self.seen[str(func._schema.name).removeprefix("aten::")]
            plain.calls += 1
            plain.measured += time.perf_counter() - start
        return result


WAYS = ("call by call", "resident", "fused")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTarget:
    """One group of calls on one generation, in seconds: kernels, dispatches, and moving operands and results."""

    kernel: float
    dispatch: float
    transfer: float
    calls: int

    def seconds(self, way: str) -> float:
        """Predicted seconds of all calls.

        ``call by call`` moves operands and results every time; ``resident`` keeps them in device memory; ``fused`` is
        one program on resident operands.
        """
        if way == "call by call":
            return self.kernel + self.dispatch + self.transfer
        return self.kernel + (self.dispatch if way == "resident" else self.dispatch / self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls of one op with the same shapes and options."""

    op: str
    operands: str
    calls: int
    measured: float
    nbytes: int
    flops: int
    targets: dict[str, OnTarget]
    refusal: str | None

    def verdict(self, target: str) -> str:
        """What to do with these calls, and why."""
        if target not in self.targets:
            return f"stays on the host: {self.refusal or f'no kernel of {target} takes it'}"
        there = self.targets[target]
        gain = {way: self.measured / there.seconds(way) for way in WAYS}
        if gain["call by call"] > 1:
            return f"fits: {gain['call by call']:.1f}x by itself"
        if gain["resident"] > 1:
            return f"fits when resident ({gain['resident']:.1f}x); moving its operands costs {seconds(there.transfer)}"
        if gain["fused"] > 1:
            return f"fits when fused ({gain['fused']:.1f}x); {self.calls} dispatches cost {seconds(there.dispatch)}"
        if there.kernel >= self.measured:
            return f"fits badly: its kernels alone take {there.kernel / self.measured:.1f}x the host's time"
        work = quantity(self.flops / self.calls, "FLOP")
        return f"fits badly: {work} a call do not pay for a dispatch of {seconds(there.dispatch / self.calls)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """What one run did, and what it would cost on Trainium: device times are predicted, all others measured."""

    script: str
    wall: float
    groups: tuple[Group, ...]
    plain: tuple[tuple[str, int, float], ...]
    main_target: str
    status: int = 0
    error: str = field(default="")

    @property
    def in_ops(self) -> float:
        """Seconds in ops of the suite."""
        return sum(group.measured for group in self.groups)

    @property
    def in_torch(self) -> float:
        """Seconds in plain torch operators."""
        return sum(time for _, _, time in self.plain)

    @property
    def notable(self) -> tuple[tuple[str, int, float], ...]:
        """Plain operators that have an analog here or take a hundredth of the run."""
        return tuple(row for row in self.plain if row[0] in ANALOGS or row[2] > 0.01 * self.wall)

    def total(self, target: str, way: str) -> float:
        """Predicted seconds of all ops on a generation; calls without a kernel stay on the host."""
        return sum(g.targets[target].seconds(way) if target in g.targets else g.measured for g in self.groups)

    def tables(self) -> tuple[Table, ...]:
        """The report for a terminal."""
        rows = []
        for g in self.groups:
            predicted = [seconds(g.targets[t].kernel) if t in g.targets else "-" for t in config.TARGETS]
            head = (g.op, g.operands, str(g.calls), seconds(g.measured))
            rows.append((*head, *predicted, quantity(g.nbytes, "B"), g.verdict(self.main_target)))
        targets = (f"{target} predicted" for target in config.TARGETS)
        header = ("op", "operands", "calls", "host measured", *targets, "moved", f"verdict for {self.main_target}")
        ops = Table("Ops of the suite", header, rows or [("none", *[""] * (len(header) - 1))])
        sums = [(t, *(seconds(self.total(t, way)) for way in WAYS), seconds(self.in_ops)) for t in config.TARGETS]
        whole = Table(
            "All ops together",
            ("target", *WAYS, "host measured"),
            sums,
            "Predicted. Resident: operands stay in device memory (trnsci.to_device). Fused: one program per row above.",
        )
        named = [(name, str(calls), seconds(spent), ANALOGS.get(name, "")) for name, calls, spent in self.notable]
        plain = Table(
            "Plain torch calls beside them",
            ("operator", "calls", "host measured", "analog"),
            named or [("none", "", "", "")],
            f"The whole run took {seconds(self.wall)}: {seconds(self.in_ops)} in ops, {seconds(self.in_torch)} in plain"
            f" torch, {seconds(max(0.0, self.wall - self.in_ops - self.in_torch))} elsewhere (NumPy, Python, files).",
        )
        return ops, whole, plain

    def html(self) -> str:
        """The report as a page."""
        bars = [Bar("host, measured", self.in_ops, seconds(self.in_ops), True)]
        for target in config.TARGETS:
            totals = [(way, self.total(target, way)) for way in WAYS]
            bars.extend(Bar(f"{target} {way}", total, seconds(total)) for way, total in totals)
        lead = f"{self.script}: {seconds(self.wall)} on this host. Times of Trainium are predicted, not measured."
        note = "Calls without a kernel count with their host time."
        return page("Is it a fit for Trainium?", lead, [Bars("Time in ops", bars, note), *self.tables()])

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "script": self.script,
            "wall_seconds": self.wall,
            "status": self.status,
            "error": self.error,
            "ops": [
                {
                    "op": g.op,
                    "operands": g.operands,
                    "calls": g.calls,
                    "host_seconds_measured": g.measured,
                    "bytes_moved": g.nbytes,
                    "flops": g.flops,
                    "refusal": g.refusal,
                    "predicted_seconds": {
                        target: {"kernel": there.kernel, **{way: there.seconds(way) for way in WAYS}}
                        for target, there in g.targets.items()
                    },
                    "verdict": {t: g.verdict(t) for t in config.TARGETS},
                }
                for g in self.groups
            ],
            "plain_torch": [
                {"operator": name, "calls": calls, "host_seconds_measured": spent, "analog": ANALOGS.get(name)}
                for name, calls, spent in self.plain
            ],
        }


def fit(
    script: str | Path, arguments: Sequence[str] = (), *, progress: Callable[[str], None] | None = None
) -> FitReport:
    """Run a Python program as ``__main__`` and report how it would fit Trainium.

    Args:
        script: path of the program.
        arguments: its ``sys.argv[1:]``.
        progress: called with a line of text before each slow step.

    Raises:
        ArgumentError: there is no such file.
    """
    path = Path(script)
    if not path.is_file():
        raise ArgumentError(op="fit", argument="SCRIPT", got=str(script), expected="a Python file that exists")
    say = progress or (lambda text: None)
    say(f"running {path}")
    status, error = 0, ""
    start = time.perf_counter()
    with ledger(everywhere=True) as book, _Watch() as watch, _as_main(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            error = "" if status == 0 else f"exited with {stop.code}"
    wall = time.perf_counter() - start
    plain = sorted(((name, p.calls, p.measured) for name, p in watch.seen.items()), key=lambda row: -row[2])
    return FitReport(
        script=str(path),
        wall=wall,
        groups=_groups(book, say),
        plain=tuple(plain),
        main_target=config.TARGET.get(),
        status=status,
        error=error,
    )


@contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """``sys.argv`` and ``sys.path`` as ``python SCRIPT`` would have them, restored after."""
    argv, paths = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = paths


def _groups(book: Ledger, say: Callable[[str], None]) -> tuple[Group, ...]:
    found: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    for entry in book:
        if entry.depth == 0:
            found[(entry.step.op, entry.step.args)].append(entry)
    made = []
    for number, entries in enumerate(found.values(), 1):
        step: Step = entries[0].step
        say(f"predicting {number} of {len(found)}: {step.op} {step.operands}")
        made.append(_group(step, len(entries), sum(entry.measured for entry in entries)))
    return tuple(sorted(made, key=lambda g: -g.measured))


def _group(step: Step, calls: int, measured: float) -> Group:
    from trnsci.ops import find

    moved = sum(spec.nbytes for spec in tensors_in(step.args)) + step.cost.written
    targets: dict[str, OnTarget] = {}
    for target in config.TARGETS:
        kernel = device_seconds(step.op, step.args, target)
        if kernel is not None:
            targets[target] = _on(target, kernel, calls, moved)
    return Group(
        op=step.op.replace("::", "."),
        operands=step.operands,
        calls=calls,
        measured=measured,
        nbytes=moved * calls,
        flops=step.cost.flops * calls,
        targets=targets,
        refusal=None if targets else find(step.op).refusal("nki", step.args),
    )


def _on(target: TargetName, kernel: float, calls: int, moved: int) -> OnTarget:
    link = LINKS[target]
    transfer = calls * (link.seconds(moved) - link.dispatch)
    return OnTarget(kernel=calls * kernel, dispatch=calls * link.dispatch, transfer=transfer, calls=calls)
