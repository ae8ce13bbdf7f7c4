"""``trnsim profile module:kernel --shapes 8192x4096,8192x8192 --dtype bfloat16 --target trn2 --html x.html``."""

import argparse
import ast
import importlib
import importlib.util
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import ml_dtypes
import numpy as np

from trnsim.refusals import refuse
from trnsim.terminal import escape_controls

_SHORT = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32"}


def profile_command(args: argparse.Namespace) -> int:
    """Profile one kernel and print its report."""
    from trnsim.timing import profile

    bar = Bar(sys.stderr)
    costed = profile(_on_cores(args), target=args.target, nki=args.nki, numerics=False, progress=bar)
    _, report = costed(*shapes(args.shapes, args.dtype), **options(args.set))
    bar.close()
    print(report)
    for path in (args.html, args.trace, args.json):
        if path is not None:
            print(escape_controls(f"wrote {report.save(path)}"))
    return 0


def tune_command(args: argparse.Namespace) -> int:
    """Search what a kernel leaves free, and print the best candidates."""
    from trnsim.timing.tuning import tune

    free = {name: value if isinstance(value, tuple) else (value,) for name, value in options(args.choose).items()}
    bar = Bar(sys.stderr)
    tuning = tune(
        _on_cores(args),
        shapes(args.shapes, args.dtype),
        free=free,
        options=options(args.set),
        progress=bar,
        target=args.target,
        nki=args.nki,
    )
    bar.close()
    print(escape_controls(str(tuning)))
    if args.json is not None:
        whole = {"kernel": tuning.kernel, "target": tuning.target, "trials": [t._asdict() for t in tuning.trials]}
        args.json.write_text(json.dumps(whole, indent=2))
        print(escape_controls(f"wrote {args.json}"))
    return 0


def _on_cores(args: argparse.Namespace) -> Any:
    """Return the kernel of a command line, on the cores it asks for."""
    from trnsim.kernel import as_kernel

    kernel = find(args.kernel)
    return as_kernel(kernel)[args.cores] if args.cores > 1 else kernel


def find(name: str) -> Any:
    """Return the kernel called ``module:name`` or ``file.py:name``; of ``file.py`` alone, its only kernel."""
    module, colon, attribute = name.rpartition(":")
    if name.endswith(".py"):
        module, colon, attribute = name, ":", ""
    if not colon or not module:
        raise refuse("kernel:form", got=name)
    from trnsim.install import install

    install()
    if module.endswith(".py"):
        if not Path(module).exists():
            raise refuse("kernel:file", got=module)
        loaded = load_file(Path(module))
    else:
        sys.path.insert(0, "")
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise refuse("kernel:module", got=module, error=error) from None
    if not attribute:
        kernels = find_kernels(loaded)
        if len(kernels) != 1:
            names, first = ", ".join(kernels) or "none with @nki.jit", next(iter(kernels), "kernel")
            raise refuse("kernel:count", got=module, count=len(kernels), names=names, first=first)
        return next(iter(kernels.values()))
    kernel = getattr(loaded, attribute, None)
    if kernel is None:
        raise refuse("kernel:name", got=attribute, module=module)
    return kernel


def find_kernels(module: ModuleType) -> dict[str, Any]:
    """Return the kernels a module defines itself, by name."""
    from trnsim.kernel import Kernel

    mine = (each for each in vars(module).items() if isinstance(each[1], Kernel))
    return {name: kernel for name, kernel in mine if kernel.function.__module__ == module.__name__}


def load_file(path: Path) -> ModuleType:
    """Import a Python file as a module of its name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def shapes(text: str, dtype: str) -> list[np.ndarray]:
    """Return arguments without memory: ``"8192x4096:bfloat16,1x512"``."""
    arrays = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        extents, _, named = part.partition(":")
        try:
            shape = tuple(int(n) for n in extents.lower().split("x"))
        except ValueError:
            raise refuse("shapes", got=part) from None
        arrays.append(np.broadcast_to(np.zeros((), _dtype(named or dtype)), shape))
    return arrays


def _dtype(name: str) -> np.dtype[Any]:
    name = _SHORT.get(name, name)
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise refuse("dtype:command", got=name) from None


def options(pairs: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs with Python values."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise refuse("set", got=pair)
        try:
            values[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            values[name] = value
    return values


class Bar:
    """Progress on a terminal, once there is something to wait for; silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.began = time.monotonic()
        self.shown = False

    def __call__(self, phase: str, done: int, total: int) -> None:
        if not self.stream.isatty() or time.monotonic() - self.began < 1.0:
            return
        self.shown = True
        if total:
            part = int(30 * done / total)
            self.stream.write(f"\r{phase} {'█' * part}{'·' * (30 - part)} {done / total:4.0%}\x1b[K")
        else:
            self.stream.write(f"\r{phase} {done:,} instructions\x1b[K")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
