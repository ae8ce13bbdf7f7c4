"""Refusals of the linter, applied where the kernel gets to: a branch that a static argument excludes is not compiled.

The linter reads every line; the compiler specialises a kernel for its static arguments and sees the branches taken.
So a kernel with findings runs under a trace of its lines, and is refused at the first one it reaches. What raises by
itself while a kernel is traced is left to raise, as the TypeError it is there.
"""

import ast
import sys
from collections.abc import Callable
from typing import Any

from trnsim._lint import words
from trnsim.errors import NotNki
from trnsim.lint import apply_lint, require_nki
from trnsim.source_lines import nodes_of
from trnsim.versions import TRACED, Version

# rules whose kernels raise where they are traced, whoever reads them before
RAISING = words("raising")


class Reach:
    """Findings of the linter in a kernel, waiting to be reached."""

    def __init__(self, function: Callable[..., Any], mode: str, nki: Version) -> None:
        self.refusal: NotNki | None = None
        self.lines: dict[str, set[int]] = {}
        if mode != "error":
            apply_lint(function, mode, nki)
            return
        try:
            require_nki(function, nki)
        except NotNki as error:
            left = RAISING if nki >= TRACED else frozenset()
            for finding in error.findings.errors:  # type: ignore[attr-defined]
                if finding.rule in left:
                    continue
                self.refusal = error
                self.lines.setdefault(finding.file, set()).update(_statement(finding.file, finding.line))

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the kernel; raise the refusal when it reaches a line the linter refuses."""
        if self.refusal is None:
            return function(*args, **kwargs)
        outer = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(outer)

    def _enter(self, frame: Any, event: str, arg: Any) -> Any:
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None
        if frame.f_code.co_firstlineno in lines:
            raise self._lint_error()
        return self._line

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_lineno in self.lines[frame.f_code.co_filename]:
            raise self._lint_error()
        return self._line

    def _lint_error(self) -> NotNki:
        assert self.refusal is not None
        return self.refusal


def _statement(file: str, line: int) -> range:
    """Return the lines of the innermost statement ``line`` belongs to; of a compound one those before its body."""
    best = range(line, line + 1)
    smallest = None
    for node in nodes_of(file):
        if not isinstance(node, ast.stmt):
            continue
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(d.lineno for d in decorators)])
        body = getattr(node, "body", None)
        end = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno
        if start <= line <= end and (smallest is None or end - start < smallest):
            smallest, best = end - start, range(start, end + 1)
    return best
