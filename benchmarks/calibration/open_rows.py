"""Rows of kernels published elsewhere, run unmodified from fetched repositories.

A folder holds them: ``rows.py`` names each row's family, case, measured microseconds and a function that runs its
kernel through the module's ``predict``; ``MIRROR`` names the folder of fetched repositories. Nothing of the kernels is
kept here. A row changes ``sys.path`` and ``sys.modules``, so each is recorded in a process of its own.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import trnsim
from benchmarks.calibration.rows import Row
from trnsim.targets import Target
from trnsim.timing.profile import Recording, record

# Rows of one family are left out together, whatever their shapes, dtypes and cores.
FAMILIES = {
    "mlp (CTE)": "MLP, prefill",
    "mlp (TKG)": "MLP, decode",
    "rmsnorm": "normalisation",
    "matmul": "matmul grid",
}


def read(folder: Path) -> list[Row]:
    """Return the rows of a folder, in the order of its ``rows.py``."""
    return [
        Row(
            family=next(family for start, family in FAMILIES.items() if group.startswith(start)),
            group=group,
            name=case,
            kernel=functools.partial(_record, folder, run, arguments),
            arguments=(),
            options={},
            dtype="",
            target="trn2",
            metric="total",
            measured_us=measured,
            seen=True,
            text="source",
            heavy=False,
            source="nki-library" if run == "run_library_test" else "trainium-agent-labs",
            recorded=True,
        )
        for group, case, measured, run, arguments in _listed(folder)
    ]


def _module(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("open_rows_of_a_folder", folder / "rows.py")
    if spec is None or spec.loader is None or not (folder / "rows.py").is_file():
        raise SystemExit(f"{folder} has no rows.py")
    if "MIRROR" not in os.environ:
        raise SystemExit("set MIRROR to the folder of fetched repositories; rows.py names them")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _listed(folder: Path) -> Iterator[tuple[str, str, float, str, tuple[Any, ...]]]:
    for group, case, measured, run, arguments in _module(folder).rows():
        yield group, case, measured, run.__name__, arguments


def _record(folder: Path, run: str, arguments: tuple[Any, ...], target: Target) -> Recording:
    module: Any = _module(folder)
    module.predict = functools.partial(_record_kernel, target)
    trnsim.install()
    recording: Recording = getattr(module, run)(*arguments)
    return recording


def _record_kernel(target: Target, kernel: Any, *args: Any, **kwargs: Any) -> Recording:
    return record(kernel, target=target, numerics=False)(*args, **kwargs)[1]
