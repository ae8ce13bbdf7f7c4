"""The lines of a program that called torch and the suite: files that belong to neither."""

import sys
from pathlib import Path
from typing import Any

import torch

# folders of torch and of the suite, and what they generate
_INSIDE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1] / "trn"), "<frozen", "<eval_with_key>")


def _is_programs(frame: Any) -> bool:
    """Return whether a frame is the program's own; of generated code only that of ``python -c``."""
    file = frame.f_code.co_filename
    return not file.startswith(_INSIDE) and (file != "<string>" or frame.f_globals.get("__name__") == "__main__")


def calling_line() -> str:
    """Return file and line of the innermost frame of the program; empty where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and not _is_programs(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def raising_line(error: BaseException) -> str:
    """Return file and line of the innermost frame of the program that an error passed; empty where there is none."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if _is_programs(trace.tb_frame):
            line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line
