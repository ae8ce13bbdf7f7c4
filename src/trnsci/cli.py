"""The command ``trnsci``: ``info explain fit run rosetta launch bench validate``, and what libraries announce."""

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trnsci
from trnsci import console, neuron_host
from trnsci.config import TARGETS
from trnsci.errors import ArgumentError, TrnError
from trnsci.libraries import COMMANDS, entry_points_of
from trnsci.rosetta import LIBRARIES
from trnsim.cli import from_checkout, output_file, program
from trnsim.interrupts import leaving
from trnsim.terminal import Parser

# Commands that import torch; the others answer at once.
_COMPUTING = ("info", "explain", "fit", "run", "bench", "validate")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Mistakes end in one sentence on stderr."""
    given = list(sys.argv[1:] if argv is None else argv)
    command = given[0] if given else ""
    try:
        # before torch, which loads AWS's libraries; what is started from here inherits it
        neuron_host.settle()
        if command in (*_COMPUTING, *entry_points_of(COMMANDS)) and not {"-h", "--help"} & set(given):
            with leaving(f"trnsci {command}"):
                importlib.import_module("torch")
        if command in _CHECKOUT:
            return from_checkout("trnsci", command, _CHECKOUT[command], given[1:])
        parser = _parser(given)
        args, rest = parser.parse_known_args(given)
        # argparse gives a list its first run of words, and there are more after an option
        if rest and (command != "explain" or any(word.startswith("-") for word in rest)):
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        elif rest:
            args.values += rest
        command = args.command
        status: int = args.run(args)
    except TrnError as error:
        console.say(f"trnsci {command}", str(error).removeprefix(f"{command}: "))
        return 1
    except BrokenPipeError:
        # the reader of the pipe has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        console.say(f"trnsci {command}", str(error))
        return 1
    except KeyboardInterrupt:
        print(f"trnsci {command}: interrupted", file=sys.stderr)
        return 130
    return status


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(prog="trnsci", description="Scientific computing on AWS Trainium.")
    parser.add_argument("--version", action="version", version=f"trnsci {trnsci.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    info = _command(commands, "info", _info, "what this machine has and what the suite would do on it")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.add_argument("--probe", action="store_true", help="also run the libraries' self-tests of kernel arithmetic")

    _module(commands, "explain", given, "which backends take a call, why not, and the plan", _explain)

    fit = _command(commands, "fit", _fit, "run a Python program and say what it would cost on Trainium")
    fit.add_argument("--html", metavar="FILE", type=output_file, help="write the report as one page")
    _add_random(fit)
    _program(fit, "the program; a CUDA source is read instead")

    ran = _command(commands, "run", _run, "run a Python program with its calls of torch, NumPy and SciPy made ours")
    ran.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), help="where they run")
    ran.add_argument("--emulate", choices=TARGETS, help="on an emulated device, and say what it did not keep there")
    ran.add_argument("--earlier", action="store_true", help="give the program the names of the earlier suite")
    also = "rewrite products of this package's modules as well as of the program's own; may be repeated"
    ran.add_argument("--also", metavar="PACKAGE", action="append", default=[], help=also)
    ran.add_argument("--report", metavar="FILE", type=output_file, help="write what happened as one page")
    ran.add_argument("--min-size", metavar="N", type=int, help="elements from which a call is substituted; 0 for all")
    _add_random(ran)
    _program(ran, "the program")

    rosetta = _command(commands, "rosetta", _rosetta, "what takes the place of a CUDA library's symbol")
    rosetta.add_argument("symbol", metavar="SYMBOL", nargs="?", help="a name or a part of one, e.g. cublasSgemm, potrf")
    rosetta.add_argument("--library", choices=tuple(LIBRARIES), help="of this library alone; without SYMBOL, all of it")
    rosetta.add_argument("--coverage", action="store_true", help="how much is covered, and what is not, with reasons")
    rosetta.add_argument("--json", action="store_true", help="print JSON")

    _module(commands, "launch", given, "start a program on several ranks", _launch)
    for name, entry in entry_points_of(COMMANDS).items():
        _module(commands, name, given, f"a command of {entry.module.partition('.')[0]}", entry.load)

    # listed here for the help; their arguments are those of modules of benchmarks and never reach this parser
    commands.add_parser("bench", help="every op beside its peers (from a source checkout)")
    commands.add_parser("validate", help="every kernel on this machine's Trainium, and a report (likewise)")
    return parser


def _add_random(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--random", action="store_true", help="also torch's random numbers, which are others then")


def _program(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON (the program's own output goes to stderr)")
    program(parser, text)


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _module(commands: Any, name: str, given: Sequence[str], text: str, load: Callable[[], Any]) -> None:
    """Add a command that is a module of its own, which is imported where the command is given."""
    parser = _command(commands, name, lambda args: load().run(args), text)
    if name in given:
        load().arguments(parser)


def _explain() -> Any:
    return importlib.import_module("trnsci.explain_cli")


def _launch() -> Any:
    return importlib.import_module("trnsci.launch_cli")


def _info(args: argparse.Namespace) -> int:
    from trnsci.info import info

    report = info(probe=args.probe)
    if args.json:
        console.as_json(report.to_dict())
    else:
        console.tables(*report.tables())
    return 0


def _fit(args: argparse.Namespace) -> int:
    return _report(args, args.html, substitute=False)


def _run(args: argparse.Namespace) -> int:
    if args.earlier:
        from trnsci import earlier

        earlier.install()
    if args.emulate:
        if args.random or args.min_size is not None:
            raise ArgumentError(
                "run", "--emulate", args.emulate, "it without --random and --min-size: no call is replaced"
            )
        return _emulate(args)
    with trnsci.backend(args.backend) if args.backend else contextlib.nullcontext():
        return _report(args, args.report, substitute=True, min_size=args.min_size, also=args.also)


def _emulate(args: argparse.Namespace) -> int:
    """Run a program as it is on an emulated device, and report what it did there."""
    from trnsci.fit import as_main, require_source, run_program

    require_source("run", args.script, args.module)
    device = trnsci.emulate(args.emulate)
    quiet = contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext()
    within = trnsci.backend(args.backend) if args.backend else contextlib.nullcontext()
    with as_main(Path(args.script), args.arguments), quiet, within:
        status, error = run_program(args.script, args.module)
    if args.json:
        console.as_json(device.record.to_dict())
    else:
        _show_beside(*device.tables())
    if args.report:
        args.report.write_text(str(device) + "\n", encoding="utf-8")
    if error:
        print(f"trnsci run: {args.script} {error}", file=sys.stderr)
    return status


def _show_beside(*each: console.Table) -> None:
    """Print tables on stderr: standard output is the program's, and may be a pipe."""
    with contextlib.redirect_stdout(sys.stderr):
        console.tables(*each)


def _report(args: argparse.Namespace, page: Path | None, **options: Any) -> int:
    from trnsci.fit import fit

    def say(text: str) -> None:
        console.say(f"trnsci {args.command}", text)

    def progress(text: str) -> None:
        console.progress(f"trnsci {args.command}: {text}")

    for option in ("--html", "--report", "--json", "--random"):
        if option in args.arguments and hasattr(args, option[2:]):
            say(f"{option} was handed to {args.script}; what is for trnsci {args.command} goes before the program")
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        report = fit(args.script, args.arguments, module=args.module, random=args.random, progress=progress, **options)
    console.progress("")
    if args.json:
        console.as_json(report.to_dict())
    else:
        (_show_beside if args.command == "run" else console.tables)(*report.tables())
    if page is not None:
        page.write_text(report.html(), encoding="utf-8", errors="backslashreplace")
        say(f"wrote {page}")
    if report.error:
        say(f"{args.script} {report.error}")
    return report.status


def _rosetta(args: argparse.Namespace) -> int:
    from trnsci.rosetta_report import answer

    answers, parts = answer(args.symbol, args.library, args.coverage)
    if args.json:
        console.as_json(answers)
        return 0
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            console.tables(part)
    return 0


_CHECKOUT = {"bench": "benchmarks.run", "validate": "benchmarks.validation.__main__"}


if __name__ == "__main__":
    sys.exit(main())
