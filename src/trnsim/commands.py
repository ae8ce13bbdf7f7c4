"""Commands of ``trnsim``: run a script on the simulator, profile and lint kernels, look names up."""

import argparse
import inspect
import runpy
import sys
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent
from typing import Any

from trnsim.calls import parameter
from trnsim.errors import TrnError
from trnsim.install import install, modules
from trnsim.lint import lint
from trnsim.terminal import escape_controls
from trnsim.timing.cli import find_kernels, load_file, profile_command, tune_command

_SPACES = ("nki.isa", "nki.language", "nki.collectives")
# what kernels import them as
_ALIASES = {"nisa": "nki.isa", "nl": "nki.language", "ncc": "nki.collectives"}


def run(options: argparse.Namespace) -> int:
    """Do what a parsed command line asks for; returns the exit status."""
    if options.command == "run" and (options.module or Path(options.script).is_file()):
        # what the script raises is the script's to show
        return _run(options.script, options.arguments, module=options.module)
    try:
        if options.command == "run":
            raise FileNotFoundError(f"no script {options.script}")
        if options.command == "profile":
            return profile_command(options)
        if options.command == "tune":
            return tune_command(options)
        if options.command == "lint":
            return max(_lint(name, strict=options.strict, nki=options.nki) for name in options.files)
        return _api(options.name)
    except BrokenPipeError:
        # the reader of the pipe has seen enough
        sys.stderr.close()
        return 0
    except (TrnError, OSError, SyntaxError) as error:
        print(f"trnsim: {escape_controls(str(error))}", file=sys.stderr)
        return 1


def _run(script: str, arguments: list[str], *, module: bool) -> int:
    install(force=True)
    before = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path.cwd() if module else Path(script).resolve().parent))
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _lint(name: str, *, strict: bool, nki: str | None) -> int:
    file, _, wanted = name.partition("::")
    install(force=True)
    sys.path.insert(0, str(Path(file).resolve().parent))
    module = load_file(Path(file))
    kernels = find_kernels(module)
    if wanted:
        kernel = getattr(module, wanted, None)
        if kernel is None:
            raise FileNotFoundError(f"{file} has no {wanted}; its kernels are {', '.join(kernels) or 'none'}")
        kernels = {wanted: kernel}
    failed = 0
    for label, kernel in kernels.items():
        report = lint(kernel, strict=strict, nki=nki)
        print(escape_controls(f"{file}::{label}: {report}"))
        failed |= bool(report if strict else report.errors)
    if not kernels:
        print(escape_controls(f"{file}: no kernels"))
    return failed


def _api(name: str | None) -> int:
    spaces = {space: modules()[space] for space in _SPACES}
    if name is None:
        for space, module in spaces.items():
            print(f"{space}: {' '.join(sorted(module.__all__))}")
        return 0
    home, _, short = name.rpartition(".")
    meanings = [
        (space, getattr(module, short))
        for space, module in spaces.items()
        if space.endswith(_ALIASES.get(home, home)) and short in module.__all__
    ]
    if not meanings:
        near = get_close_matches(short, [each for module in spaces.values() for each in module.__all__])
        raise FileNotFoundError(f"nki has no {name}" + (f"; nearest: {', '.join(near)}" if near else ""))
    for space, value in meanings:
        print(f"{space}.{short}{_signature(value)}\n{indent(inspect.getdoc(value) or '', '    ')}")
    return 0


def _signature(value: Any) -> str:
    if isinstance(value, type) or not callable(value):
        return ""
    return f"({', '.join(map(parameter, inspect.signature(value).parameters.values()))})"
