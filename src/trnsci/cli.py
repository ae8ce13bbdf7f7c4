"""The command ``trnsci``: ``info``, ``explain``, ``demo``, ``fit``, ``rosetta``, ``launch``, ``bench``."""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import trnsci
from trnsci import config, launch, show
from trnsci.errors import ArgumentError, TrnError
from trnsci.rosetta import LIBRARIES


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Mistakes end in one sentence on stderr."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["bench"]:
        return _bench(given[1:])
    args = _parser().parse_args(given)
    try:
        status: int = args.run(args)
    except TrnError as error:
        print(f"trnsci {args.command}: {str(error).removeprefix(f'{args.command}: ')}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # the reader of the pipe has seen enough
        sys.stderr.close()
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trnsci", description="Scientific computing on AWS Trainium.")
    parser.add_argument("--version", action="version", version=f"trnsci {trnsci.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    info = _command(commands, "info", _info, "what this machine has and what the suite would do on it")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.add_argument("--probe", action="store_true", help="also run the libraries' self-tests of kernel arithmetic")

    explain = _command(commands, "explain", _explain, "which backends take a call, why not, and the plan")
    explain.add_argument("op", metavar="OP", help="a public function, e.g. trnblas.gemm")
    explain.add_argument(
        "--shapes", required=True, help="shapes of the array arguments in order, e.g. 512x256,256x512 or scalar,64"
    )
    explain.add_argument("--dtype", default="float32", help="of every array (default float32)")
    explain.add_argument("--backend", choices=config.BACKENDS, help="ask as if this backend had been chosen")
    explain.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other argument, e.g. precision=fast; numbers the function requires count as 1 when left out",
    )
    explain.add_argument("--json", action="store_true", help="print JSON")

    demo = _command(commands, "demo", _demo, "a calculation on PyTorch and the simulator, and what Trainium would do")
    demo.add_argument("name", metavar="NAME", nargs="?", default="water", help="water (default) or speech")
    demo.add_argument("--html", metavar="FILE", type=Path, help="where the page goes (default: the cache folder)")
    demo.add_argument("--json", action="store_true", help="print JSON")

    fit = _command(commands, "fit", _fit, "run a Python program and say what it would cost on Trainium")
    fit.add_argument("--html", metavar="FILE", type=Path, help="write the report as one page")
    fit.add_argument("--json", action="store_true", help="print JSON (the program's own output goes to stderr)")
    fit.add_argument("script", metavar="SCRIPT.py", help="the program")
    fit.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")

    rosetta = _command(commands, "rosetta", _rosetta, "what takes the place of a CUDA library's symbol")
    rosetta.add_argument("symbol", metavar="SYMBOL", nargs="?", help="a name or a part of one, e.g. cublasSgemm, potrf")
    rosetta.add_argument("--library", choices=tuple(LIBRARIES), help="of this library alone; without SYMBOL, all of it")
    rosetta.add_argument("--coverage", action="store_true", help="how much is covered, and what is not, with reasons")
    rosetta.add_argument("--json", action="store_true", help="print JSON")

    launched = _command(commands, "launch", _launch, "start a program on several ranks of this machine (torchrun)")
    launch.arguments(launched)

    # listed here for the help; its arguments are those of benchmarks.run and never reach this parser
    commands.add_parser("bench", help="every op beside its peers (from a source checkout)")
    return parser


def _launch(args: argparse.Namespace) -> int:
    return launch.run(args)


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    made.set_defaults(run=run)
    return made


def _info(args: argparse.Namespace) -> int:
    from trnsci.info import info

    found = info(probe=args.probe)
    if args.json:
        show.as_json(found.to_dict())
    else:
        show.tables(*found.tables())
    return 0


def _explain(args: argparse.Namespace) -> int:
    function = _function(args.op)
    given = dict(_setting(text) for text in args.set)
    arrays = [torch.empty(shape, dtype=_dtype(args.dtype), device="meta") for shape in _shapes(args.shapes)]
    arguments = _arguments(args.op, function, arrays, given)
    if args.backend:
        with trnsci.backend(args.backend):
            return _explained(function, arguments, args.json)
    return _explained(function, arguments, args.json)


def _explained(function: Callable[..., Any], arguments: dict[str, Any], as_json: bool) -> int:
    explanation = trnsci.explain(function, **arguments)
    admitted = all(call.chosen != "none" for call in explanation.calls)
    plan = trnsci.plan(function, **arguments) if admitted else None
    if as_json:
        calls = [
            {
                "op": call.op,
                "operands": call.operands,
                "chosen": call.chosen,
                "reason": call.reason,
                "backends": {v.backend: {"takes": v.takes, "refusal": v.refusal} for v in call.verdicts},
            }
            for call in explanation.calls
        ]
        show.as_json({"calls": calls, "plan": None if plan is None else _plan_dict(plan)})
    else:
        print(explanation)
        if plan is not None:
            print(f"\n{plan}")
    return 0 if admitted else 1


def _plan_dict(plan: trnsci.Plan) -> dict[str, Any]:
    return {
        "op": plan.op,
        "backend": plan.backend,
        "reason": plan.reason,
        "flops": plan.flops,
        "bytes_read": plan.bytes_read,
        "bytes_written": plan.bytes_written,
        "peak_bytes": plan.peak_bytes,
        "predicted_seconds": plan.predicted,
        "predicted_interval_seconds": plan.interval,
        "steps": [{"op": step.op, "operands": step.operands, "backend": step.backend} for step in plan.steps],
    }


def _wrong(argument: str, got: object, expected: str, hint: str = "") -> ArgumentError:
    return ArgumentError(op="explain", argument=argument, got=got, expected=expected, hint=hint)


def _function(name: str) -> Callable[..., Any]:
    library, _, stem = name.partition(".")
    if library not in config.LIBRARIES or not stem:
        raise _wrong("OP", name, f"LIBRARY.FUNCTION with one of {', '.join(config.LIBRARIES)}")
    try:
        module = importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise _wrong("OP", name, "a library that is installed", f"{library} is not") from None
    public = [n for n in getattr(module, "__all__", ()) if inspect.isfunction(getattr(module, n))]
    if stem not in public:
        near = difflib.get_close_matches(stem, public, cutoff=0.5)
        shown = ", ".join(f"{library}.{n}" for n in near or public)
        raise _wrong("OP", name, f"a function of {library}", f"Nearest: {shown}" if near else f"It has {shown}")
    found: Callable[..., Any] = getattr(module, stem)
    return found


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise _wrong("--dtype", name, "a torch dtype such as float32, bfloat16, float64 or complex64")
    return dtype


def _shapes(text: str) -> list[tuple[int, ...]]:
    shapes = []
    for part in text.split(","):
        sizes = [] if part in ("scalar", "-") else part.split("x")
        if not all(size.isdecimal() for size in sizes):
            raise _wrong("--shapes", text, "sizes joined by x, shapes by commas: 512x256,256x512")
        shapes.append(tuple(map(int, sizes)))
    return shapes


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise _wrong("--set", text, "NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        # a bare word is a string: precision=fast
        return name, value


def _arguments(
    op: str, function: Callable[..., Any], arrays: Sequence[torch.Tensor], given: dict[str, Any]
) -> dict[str, Any]:
    """Give the arrays to the array parameters in order, the named values to theirs, and 1 to numbers still required."""
    parameters = inspect.signature(function).parameters
    unknown = sorted(set(given) - set(parameters))
    if unknown:
        raise _wrong("--set", unknown[0], f"a parameter of {op}: {', '.join(parameters)}")
    values, left = dict(given), list(arrays)
    for name, parameter in parameters.items():
        kind = str(parameter.annotation)
        if name in given or name == "out":
            continue
        if "Tensor" in kind and left:
            values[name] = left.pop(0)
        elif parameter.default is parameter.empty and ("float" in kind or "complex" in kind):
            values[name] = 1.0
        elif parameter.default is parameter.empty:
            raise _wrong(
                "--shapes" if "Tensor" in kind else "--set", f"without {name}", f"every required argument of {op}"
            )
    if left:
        raise _wrong("--shapes", f"{len(arrays)} shapes", f"at most {len(arrays) - len(left)}, the arrays {op} takes")
    return values


def _demo(args: argparse.Namespace) -> int:
    # The demonstrations stand on the top floor, which this one does not import.
    demonstrations = importlib.import_module("trnchem.demo")
    status: int = demonstrations.demo(args.name, html=args.html, as_json=args.json)
    return status


def _fit(args: argparse.Namespace) -> int:
    from trnsci.fit import fit

    def progress(text: str) -> None:
        print(f"trnsci fit: {text}", file=sys.stderr)

    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        report = fit(args.script, args.arguments, progress=progress)
    if args.json:
        show.as_json(report.to_dict())
    else:
        show.tables(*report.tables())
    if args.html is not None:
        args.html.write_text(report.html(), encoding="utf-8")
        progress(f"wrote {args.html}")
    if report.error:
        progress(f"{args.script} {report.error}")
    return report.status


def _rosetta(args: argparse.Namespace) -> int:
    from trnsci.rosetta_report import answer

    found, parts = answer(args.symbol, args.library, args.coverage)
    if args.json:
        show.as_json(found)
        return 0
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            show.tables(part)
    return 0


def _bench(arguments: Sequence[str]) -> int:
    root = Path(__file__).resolve().parents[2]
    if not (root / "benchmarks" / "run.py").is_file():
        print(
            "trnsci bench: the benchmarks are part of the source tree, not of the installed package. Clone it and run"
            " make bench.",
            file=sys.stderr,
        )
        return 1
    return subprocess.run([sys.executable, "-m", "benchmarks.run", *arguments], cwd=root, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
