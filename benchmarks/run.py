"""Each op beside its peers in one run, and each kernel's predicted cycles beside its baseline.

``python -m benchmarks.run [OP ...]`` prints the tables; ``--write`` also keeps them as JSON and as docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
from typing import Any

import numpy as np
import torch

import trnsci
from benchmarks import predictions, registry, report, verify
from benchmarks.report import Against, OpReport, TimedRow
from benchmarks.timing import gpu_seconds, interleave
from trnsci import console
from trnsparse import SparseMatrix


class Disagreement(RuntimeError):
    """Ours and a peer do not compute the same thing, so comparing their speed says nothing."""


def _place(inputs: Any, device: str) -> Any:
    if isinstance(inputs, tuple | list):
        return type(inputs)(_place(x, device) for x in inputs)
    return inputs.to(device) if isinstance(inputs, torch.Tensor | SparseMatrix) else inputs


def _array(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value if value.is_complex() else value.double()).numpy()
    return np.asarray(value)


def _missing(peer: registry.Peer, device: str) -> str | None:
    """Why a peer does not take part, or None."""
    if device not in peer.devices:
        return f"not on {device}"
    if peer.requires and importlib.util.find_spec(peer.requires) is None:
        return "not installed"
    return None


def _called(bench: registry.Bench, peer: str, names: set[str]) -> bool:
    """Whether a peer is the library that ours called, by the names in the ledger; unlike results are no such thing."""
    if bench.comparable is None:
        return False
    return any(peer in name for name in names) or (names == {"torch"} and peer.startswith("torch."))


def _check_agreement(bench: registry.Bench, case: str, peer: str, ours: Any, theirs: Any) -> None:
    if bench.comparable is None:
        return
    a, b = _array(bench.comparable(ours)), _array(bench.comparable(theirs))
    if a.shape != b.shape:
        raise Disagreement(f"{bench.op} {case}: our result has shape {a.shape}, {peer} gives {b.shape}.")
    scale = float(np.abs(b).max(initial=0.0)) or 1.0
    error = float(np.abs(a - b).max(initial=0.0)) / scale
    # written so that a NaN fails
    if not error <= bench.tolerance:
        allowed = f"allowed is {bench.tolerance:.1e}"
        raise Disagreement(f"{bench.op} {case}: we differ from {peer} by {error:.1e}, {allowed}.")


def time_case(bench: registry.Bench, case: registry.Case, *, device: str, rounds: int) -> TimedRow:
    """Time one case on one device, ours and every peer in turn.

    Raises:
        Disagreement: If a peer's result is not ours within the benchmark's tolerance.
    """
    inputs = _place(case.inputs(), device)
    contenders = {"ours": functools.partial(bench.run, *inputs)}
    absent: dict[str, str] = {}
    with trnsci.ledger() as seen:
        ours = contenders["ours"]()
    names = {entry.step.calls for entry in seen.entries if entry.depth == 0} if device == "cpu" else set()
    for peer in bench.peers:
        why = _missing(peer, device)
        if not why and peer.takes is not None and not peer.takes(*inputs):
            why = "does not compute this"
        if why:
            absent[peer.name] = why
            continue
        call = functools.partial(peer.run, *(peer.prepare(*inputs) if peer.prepare else inputs))
        _check_agreement(bench, case.name, peer.name, ours, call())
        contenders[peer.name] = call
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    samples = interleave(contenders, rounds=rounds, wait=wait)
    mine = samples["ours"]
    against = tuple(
        Against(name=p.name, absent=absent[p.name])
        if p.name in absent
        else Against(
            name=p.name,
            called=p.called or _called(bench, p.name, names),
            seconds=samples[p.name].median,
            ratio=mine.over(samples[p.name]),
            difference=mine.minus(samples[p.name]),
        )
        for p in bench.peers
    )
    best = report.fastest(against)
    late = mine.median > report.NOTICED and best is not None and (best.ratio or 0.0) > report.SLOWER
    return TimedRow(
        case=case.name,
        overhead=case.overhead,
        flops=case.flops,
        bytes=case.bytes,
        seconds=mine.median,
        spread=mine.spread,
        against=against,
        busy=gpu_seconds(contenders["ours"]) if device == "cuda" and late else None,
    )


def measure(op: str, *, device: str, rounds: int) -> OpReport:
    """Verify, time and predict one op; a red gate leaves the report without a single figure."""
    bench = registry.load(op)
    console.progress(f"{op}: running {bench.tests}\n")
    verdict = verify.verify(bench, device)
    console.progress(f"{op}: {verdict.line}\n")
    if not verdict.green:
        return OpReport(op=op, tests=verdict.line, green=False, notes=bench.notes, timed=(), predicted=())
    timed = []
    for case in bench.cases:
        if device not in case.devices:
            continue
        console.progress(f"{op}: timing {case.name}\n")
        try:
            timed.append(time_case(bench, case, device=device, rounds=rounds))
        except (RuntimeError, ValueError, TypeError, ArithmeticError) as error:
            # the others keep their figures, and the exit status says that one has none
            why = f"{case.name}: {type(error).__name__}: {error}"
            say(f"{op}: {why}")
            return OpReport(op=op, tests=why, green=False, notes=bench.notes, timed=(), predicted=())
    if device == "cpu":
        console.progress(f"{op}: predicting {len(bench.kernels)} kernels\n")
    predicted = tuple(predictions.predict(bench)) if device == "cpu" else ()
    return OpReport(
        op=op,
        tests=verdict.line,
        green=True,
        notes=bench.notes,
        timed=tuple(timed),
        predicted=predicted,
        slower=bench.slower,
    )


def predict(op: str) -> OpReport:
    """Predict one op's kernels, and neither test nor time it."""
    bench = registry.load(op)
    console.progress(f"{op}: predicting {len(bench.kernels)} kernels\n")
    predicted = tuple(predictions.predict(bench))
    return OpReport(op=op, tests="not run", green=True, notes=bench.notes, timed=(), predicted=predicted)


def say(text: str) -> None:
    """What is not a table goes to stderr, so that the tables can be piped."""
    print(text, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status is one when an op is red or a prediction left its baseline."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", metavar="OP", help="e.g. trnblas.gemm; all when left out")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=15, help="samples per contender (default 15)")
    parser.add_argument("--predicted", action="store_true", help="predicted figures alone, old beside new")
    parser.add_argument("--record", action="store_true", help="accept today's predictions as the new baselines")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results and docs/benchmarks.md")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.ops) - set(registry.names()))
    if unknown:
        parser.error(f"no benchmark for {', '.join(unknown)}; there are: {', '.join(registry.names())}")
    if args.rounds < 2:
        parser.error(f"--rounds is {args.rounds}; the spread needs at least 2")
    if args.write and args.ops:
        parser.error("--write keeps the whole table, so it cannot be given with a choice of ops")
    if args.write and args.predicted:
        parser.error("--write keeps the whole table, so it cannot be given with --predicted")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no NVIDIA GPU on this machine")

    registry.test_on(args.device)
    look = predict if args.predicted else functools.partial(measure, device=args.device, rounds=args.rounds)
    chosen = args.ops or [op for op in registry.names() if args.device in registry.load(op).devices]
    reports = [look(op) for op in chosen]
    print(report.text(reports))
    if args.record:
        for each in reports:
            if each.green and each.predicted:
                say(f"recorded {predictions.record(each.op, each.predicted).relative_to(registry.ROOT)}")
        report.page_path().write_text(report.refreshed(report.page_path().read_text()))
    if args.write:
        for path in report.write(reports, device=args.device):
            say(f"wrote {path}")
    predicted = [each for each in reports if each.green and args.device == "cpu"]
    drift = [line for each in predicted for line in predictions.compare(each.op, each.predicted)]
    for line in drift:
        say(f"baseline: {line}")
    if drift:
        say("A wanted change is accepted with: python -m benchmarks.run --record OP, committed with its reason.")
    return int(bool(drift) or any(not each.green for each in reports))


if __name__ == "__main__":
    sys.exit(main())
