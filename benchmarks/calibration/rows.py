"""Published measurements and the kernels that restate what was measured: the lines of ``rows.csv``.

One text runs on every target. ``kernel`` names a function of this folder, or ``package.module:function`` elsewhere, so
that anybody's data can be added as lines of the same form. ``arguments`` are shapes and numbers. ``metric`` says which
figure of a report a measurement is compared with: ``total`` (a hardware profile's total_time), ``benchmark`` (a
host-side benchmark: ``nki.benchmark``, P50 or P99 latency) or ``active`` (first trigger to last data). ``seen`` rows
were looked at while constants of `trnsim.constants` or the compiler's rules were chosen. ``text`` says whether the
kernel follows the published ``source`` or what a published ``profile`` shows of it. Rows of one ``family`` are held out
together. ``heavy`` rows take seconds to predict.
"""

from __future__ import annotations

import ast
import csv
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from trnsim.targets import TARGETS, Target
from trnsim.timing.profile import Recording, record

_DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: what ran where, and what its source says it took."""

    family: str
    name: str
    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    dtype: str
    target: str
    metric: str
    measured_us: float
    seen: bool
    text: str
    heavy: bool
    source: str
    # rows that are judged together, within a family
    group: str = ""
    # the kernel takes a target and returns a recording of itself
    recorded: bool = False

    def record(self, target: Target | None = None) -> Recording:
        """Return the instruction streams of the kernel; ``target`` is the row's own unless given."""
        target = target or TARGETS[self.target]
        if self.recorded:
            return self.kernel(target)  # type: ignore[no-any-return]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return record(self.kernel, target=target, numerics=False)(*self.arguments, **self.options)[1]


def _argument(text: str, dtype: str) -> Any:
    """A number, or an array with a shape and no memory."""
    if "x" not in text:
        return ast.literal_eval(text)
    return np.broadcast_to(np.zeros((), _DTYPES[dtype]), tuple(int(n) for n in text.split("x")))


def _kernel(text: str) -> Any:
    module, _, name = text.partition(":") if ":" in text else f"benchmarks.calibration.{text}".rpartition(".")
    return getattr(importlib.import_module(module), name)


def _row(line: dict[str, str]) -> Row:
    pairs = (pair.partition("=") for pair in line["options"].split())
    return Row(
        family=line["family"],
        name=line["name"],
        kernel=_kernel(line["kernel"]),
        arguments=tuple(_argument(text, line["dtype"]) for text in line["arguments"].split()),
        options={key: ast.literal_eval(value) for key, _, value in pairs},
        dtype=line["dtype"],
        target=line["target"],
        metric=line["metric"],
        measured_us=float(line["measured_us"]),
        seen=line["seen"] == "yes",
        text=line["text"],
        heavy=line["heavy"] == "yes",
        source=line["source"],
    )


def read(path: Path) -> tuple[Row, ...]:
    """Every row of a file."""
    with path.open() as file:
        return tuple(_row(line) for line in csv.DictReader(file))


ROWS = read(Path(__file__).with_name("rows.csv"))
