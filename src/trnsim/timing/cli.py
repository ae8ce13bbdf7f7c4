"""``trnsim profile module:kernel --shapes 8192x4096,8192x8192 --dtype bfloat16 --target trn2 --html x.html``."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import ml_dtypes
import numpy as np

from trnsim.errors import WrongArgument
from trnsim.terminal import escape_controls

_SHORT = {"bf16": "bfloat16", "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32"}


def profile_command(args: argparse.Namespace) -> int:
    """Profile one kernel and print its report."""
    from trnsim.timing import profile

    kernel = find(args.kernel)
    if args.cores > 1:
        from trnsim.kernel import as_kernel

        kernel = as_kernel(kernel)[args.cores]
    bar = Bar(sys.stderr)
    costed = profile(kernel, target=args.target, nki=args.nki, numerics=False, progress=bar)
    _, report = costed(*shapes(args.shapes, args.dtype), **options(args.set))
    bar.close()
    print(report)
    for path in (args.html, args.trace, args.json):
        if path is not None:
            print(escape_controls(f"wrote {report.save(path)}"))
    return 0


def find(name: str) -> Any:
    """Return the kernel called ``module:name`` or ``file.py:name``."""
    module, colon, attribute = name.rpartition(":")
    if not colon or not module:
        raise WrongArgument(
            f"{name!r} names no kernel", "kernel", name, "module:kernel", "write module:kernel or file.py:kernel"
        )
    from trnsim.install import install

    install()
    if module.endswith(".py"):
        if not Path(module).exists():
            raise WrongArgument(f"there is no file {module}", "kernel", module, hint="give the path of a Python file")
        loaded = load_file(Path(module))
    else:
        sys.path.insert(0, "")
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise WrongArgument(
                f"{error}", rule="kernel", got=module, hint="give an importable module, or the path of a file"
            ) from None
    kernel = getattr(loaded, attribute, None)
    if kernel is None:
        raise WrongArgument(f"{module} has no {attribute}", "kernel", attribute, hint="name a kernel of the module")
    return kernel


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
    """Arguments without memory: ``"8192x4096:bfloat16,1x512"``."""
    arrays = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        extents, _, named = part.partition(":")
        try:
            shape = tuple(int(n) for n in extents.lower().split("x"))
        except ValueError:
            hint = "write extents with x between them"
            raise WrongArgument(f"{part!r} is no shape", "shapes", part, "128x512 or 128x512:bfloat16", hint) from None
        arrays.append(np.broadcast_to(np.zeros((), _dtype(named or dtype)), shape))
    return arrays


def _dtype(name: str) -> np.dtype[Any]:
    name = _SHORT.get(name, name)
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise WrongArgument(
            f"{name!r} is no dtype", rule="dtype", got=name, hint="use float32, bfloat16, float16, float8_e4m3, int32 …"
        ) from None


def options(pairs: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs with Python values."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongArgument(f"--set {pair}", rule="set", got=pair, limit="NAME=VALUE", hint="write --set tile=512")
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
