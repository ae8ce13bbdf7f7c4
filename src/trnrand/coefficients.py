"""Coefficients of `trnrand.maths`, `trnrand.maths` and the kernels of GPUs: one table, highest power first."""

import json
from pathlib import Path
from typing import Any

COEFFICIENTS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "coefficients.json").read_text(encoding="utf-8")
)
