"""Times by engine from AWS's profiler, where it is installed: the run time's inspection, and the tool that reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from trnsci import config
from trnsim.json_reader import parse_json

TOOLS = ("neuron-explorer", "neuron-profile")
FOLDERS = "/opt/aws/neuron/bin"
ENGINES = ("tensor", "vector", "scalar", "gpsimd")


def tool() -> str | None:
    """Return the profiler of this machine."""
    return next((found for name in TOOLS if (found := shutil.which(name) or shutil.which(name, path=FOLDERS))), None)


def variables(folder: Path) -> dict[str, str]:
    """Return what lets the run time leave programs and traces of the first launches in a folder."""
    return {
        "NEURON_RT_INSPECT_ENABLE": "1",
        "NEURON_RT_INSPECT_DEVICE_PROFILE": "1",
        "NEURON_RT_INSPECT_OUTPUT_DIR": str(folder),
    }


def inspected_folder() -> Path | None:
    """Return where the run time leaves programs and traces, ``None`` where its inspection is off."""
    own = config.environment({})
    return Path(own["NEURON_RT_INSPECT_OUTPUT_DIR"]) if own.get("NEURON_RT_INSPECT_ENABLE") == "1" else None


def neff_bytes(folder: Path | None) -> int | None:
    """Bytes of the compiled programs in a folder; ``None`` where there are none."""
    found = [path.stat().st_size for path in folder.rglob("*.neff")] if folder else []
    return sum(found) if found else None


def summary(folder: Path, patience_s: float = 120.0) -> dict[str, Any] | None:
    """Seconds in all and the share each engine was active, of the one program traced; ``None`` where that fails.

    Several programs mean a launch in pieces, whose shares are not those of one kernel.
    """
    used = tool()
    traces = sorted(folder.rglob("*.ntff"))
    programs = sorted(folder.rglob("*.neff"))
    if used is None or len(traces) != 1 or len(programs) != 1:
        return None
    words = [used, "view", "--output-format", "summary-json", "-n", str(programs[0]), "-s", str(traces[0])]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=patience_s, check=True)
        said = next(iter(parse_json(done.stdout).values()))
        engines = {engine: float(said[f"{engine}_engine_active_time_percent"]) for engine in ENGINES}
        return {
            "total_s": float(said["total_time"]),
            "engines": {**engines, "dma": float(said["dma_active_time_percent"])},
        }
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, StopIteration, AttributeError, TypeError):
        return None
