"""Tables beside the code that reads them: names, sentences and figures are data, in TOML."""

import functools
import tomllib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@functools.cache
def read_table(name: str) -> dict[str, Any]:
    """Read a file of this package, once; the same object is returned to all who ask."""
    return tomllib.loads((_HERE / name).read_text(encoding="utf-8"))
