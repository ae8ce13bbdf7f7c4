"""The command line of ``trnsim``. What it does is in `trnsim.commands`, imported when it is asked for."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trnsim.interrupts import leaving
from trnsim.terminal import Parser


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] and given[0] in _CHECKOUT and not (given[0] == "tune" and any(map(_is_own_kernel, given[1:]))):
        return from_checkout("trnsim", given[0], _CHECKOUT[given[0]], given[1:])
    parser = Parser(prog="trnsim", description="An NKI machine on a CPU.")
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a Python script with `import nki` answered by the simulator")
    program(run, "the script")
    check = commands.add_parser("lint", help="say what the NKI compiler would refuse in a file's kernels")
    check.add_argument("files", nargs="+", metavar="file", help="file.py, or file.py::kernel")
    check.add_argument("--strict", action="store_true", help="and what it is not known to accept")
    _version(check)
    api = commands.add_parser("api", help="list the names of nki, or explain one")
    api.add_argument("name", nargs="?", help="a name such as nc_matmul or nki.isa.nc_matmul")
    _profile(commands)
    _tune(commands)
    # listed here for the help; the arguments are those of a module of benchmarks and never reach this parser
    commands.add_parser("calibrate", help="fit the timing model to trnsci validate, or to nccom-test (source checkout)")
    options = parser.parse_args(argv)
    with leaving("trnsim"):
        from trnsim import commands as work
    try:
        return work.run(options)
    except KeyboardInterrupt:
        print("trnsim: interrupted", file=sys.stderr)
        return 130


# What needs the suite's registry of kernels and sizes, which is no part of the installed package.
_CHECKOUT = {"calibrate": "benchmarks.calibration.measured", "tune": "benchmarks.tune"}


def from_checkout(program: str, command: str, module: str, arguments: Sequence[str]) -> int:
    """Run a module of the benchmarks here: an interrupt reaches it once, and files are named from where the user is."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "benchmarks" / "registry.py").is_file():
        print(
            f"{program} {command}: the benchmarks are part of the source tree, not of the installed package. "
            "In a clone, run pip install -e . and try again.",
            file=sys.stderr,
        )
        return 1
    sys.path.insert(0, str(root))
    with leaving(f"{program} {command}"):
        main = importlib.import_module(module).main
    try:
        status: int = main(list(arguments))
    except SystemExit as ended:
        # a mistake in its options
        return int(ended.code or 0)
    except KeyboardInterrupt:
        print(f"{program} {command}: interrupted", file=sys.stderr)
        return 130
    return status


def _is_own_kernel(text: str) -> bool:
    """Return whether it is ``file.py:kernel`` or ``module:kernel``, which kernels of the suite are not named by."""
    return text.endswith(".py") or ":" in text or text in ("-h", "--help")


def _profile(commands: Any) -> None:
    parser = commands.add_parser("profile", help="predict how long a kernel takes on Trainium, and why")
    _kernel(parser)
    parser.add_argument("--html", type=output_file, help="write the timeline as one page")
    parser.add_argument("--trace", type=output_file, help="write a Perfetto trace (.pftrace)")


def _tune(commands: Any) -> None:
    text = "search the arguments a kernel leaves free; without a colon KERNEL is one of the suite (source checkout)"
    parser = commands.add_parser("tune", help=text, description=text)
    _kernel(parser)
    parser.add_argument(
        "--choose", action="append", default=[], metavar="NAME=V,V", help="values of a keyword argument to choose from"
    )


def _kernel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", help="module:kernel, path/to/file.py:kernel, or a file with one kernel")
    parser.add_argument("--shapes", default="", help="arguments, e.g. 8192x4096,8192x8192 or 128x512:float32,1x512")
    parser.add_argument("--dtype", default="float32", help="dtype of shapes that name none (default: float32)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword argument of the kernel"
    )
    parser.add_argument("--target", default=None, help="trn1, trn2 (default) or trn3")
    _version(parser)
    parser.add_argument("--cores", type=int, default=1, help="cores of the logical core, as in kernel[2]")
    parser.add_argument("--json", type=output_file, help="write the result as JSON")


def _version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nki", default=None, metavar="VERSION", help="version of NKI, 0.3 to 0.7 (default: 0.7)")


def program(parser: argparse.ArgumentParser, text: str) -> None:
    """Add a Python program with arguments of its own to a command line."""
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    parser.add_argument("script", metavar="SCRIPT.py", help=text)
    # else an error about a missing script would call these required too
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments").required = False


def output_file(text: str) -> Path:
    """Return the path of a file to be written, which has a folder: a long run should not end in a mistyped one."""
    path = Path(text)
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder, or in none that exists")
    return path


class _Version(argparse.Action):
    """Print the version of the distribution, which a checkout that is not installed has not."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        try:
            version = importlib.metadata.version("trnsci")
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
        print(f"trnsim {version}")
        parser.exit()
