"""Refusals of a kernel by the NKI compiler, by its version.

``lint(kernel)`` reads the source of a kernel, and of every function and class it reaches, and says what the compiler
would refuse before the kernel runs. It never calls the kernel. What the reference says is refused is an ``error``; what
it discourages, deprecates or leaves open is a ``warning``: refusing a kernel that compiles is worse than missing one
that does not. The rules, with the passage each stands on, are in ``docs/concepts/lint.md``.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from trnsim._lint import format_count
from trnsim._lint.rules import RULES, Rule, Severity
from trnsim._lint.sizes import launches
from trnsim._lint.source import Unit, read, unwrap
from trnsim._lint.walk import Used, Walk
from trnsim.errors import NotNki
from trnsim.source_lines import warn
from trnsim.versions import Version, as_version

_CACHE_SIZE = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """One place the compiler would refuse, or might.

    Attributes:
        file, line, column: where; lines and columns are counted from one.
        rule: the rule's stable name, such as ``dict-key``.
        severity: ``error``, ``warning`` or ``strict``.
        message: what is wrong.
        rewrite: what to write instead.
        basis: the document or source file the rule stands on.
        function: the function the line belongs to.
        source: the line itself.
        width: how many characters of it are meant.
    """

    file: str
    line: int
    column: int
    rule: str
    severity: Severity
    message: str
    rewrite: str
    function: str = ""
    basis: str = field(default="", compare=False)
    source: str = field(default="", compare=False, repr=False)
    width: int = field(default=1, compare=False, repr=False)

    def __str__(self) -> str:
        head = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message} [{self.rule}]"
        text = self.source.expandtabs(4)
        shift = len(self.source[: self.column - 1].expandtabs(4))
        mark = f"\n    {text}\n    {' ' * shift}{'^' * self.width}" if text.strip() else ""
        basis = f"\n    rule from: {self.basis}." if self.basis else ""
        return f"{head}{mark}\n    rewrite: {self.rewrite}.{basis}"


class LintReport(tuple[Finding, ...]):
    """Findings in the order of the source, the kernel's own first; empty when there is nothing to say.

    Compares equal to any sequence of the same findings.
    """

    __slots__ = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that the compiler refuses."""
        return tuple(f for f in self if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that the reference discourages or leaves open."""
        return tuple(f for f in self if f.severity == "warning")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and tuple(self) == tuple(other)

    __hash__ = tuple.__hash__

    def __str__(self) -> str:
        if not self:
            return "no findings"
        count = f"{format_count(len(self.errors), 'error')}, {format_count(len(self.warnings), 'warning')}"
        return "\n".join([*map(str, self), count])

    def __repr__(self) -> str:
        return f"LintReport({list(self)!r})"


@dataclass(frozen=True, slots=True)
class _Cached:
    """A report, and what must be unchanged for it to hold: the code, and the outside names it resolved."""

    code: CodeType
    globals: tuple[tuple[dict[str, Any], str, Any], ...]
    cells: tuple[tuple[int, Any], ...]
    report: LintReport

    def holds(self, function: FunctionType) -> bool:
        for space, name, obj in self.globals:
            if space.get(name) is not obj:
                return False
        if self.cells:
            closure = function.__closure__ or ()
            return all(_identity(closure[i].cell_contents) is known for i, known in self.cells)
        return True


def _identity(obj: Any) -> Any:
    # kernels made by one factory share their code, and so do the helpers they capture
    return obj.__code__ if isinstance(obj, FunctionType) else obj


_cache: dict[tuple[int, bool, bool, Version], _Cached] = {}


def lint(kernel: Callable[..., Any], follow: bool = True, strict: bool = False, nki: Any = None) -> LintReport:
    """Say what the NKI compiler would refuse in ``kernel``.

    Args:
        kernel: a function, a method, or what ``nki.jit`` makes of one.
        follow: check the functions and the ``NKIObject`` methods the kernel reaches as well, except those of NKI,
            of the standard library and of array libraries, and those marked ``function.__nki_builtin__ = True``
            because something else takes their place on the device.
        strict: report as well what the compiler is not known to accept.
        nki: version whose rules hold, ``"0.3"`` to ``"0.7"``; default: that of ``nki.jit``, then 0.7.

    Returns:
        The findings. A kernel without readable source gives a single warning, ``source-unavailable``.

    A report is kept with the kernel's code, so that asking again costs less than a microsecond; redefining a helper
    the kernel calls makes it anew.
    """
    function = kernel if type(kernel) is FunctionType else getattr(kernel, "__wrapped__", None)
    if type(function) is not FunctionType or "__wrapped__" in function.__dict__:
        function = unwrap(kernel)
    if function is None:
        return LintReport([_finding("source-unavailable", f"`{kernel!r}`", ("<unknown>", 1, 1))])
    version = as_version(getattr(kernel, "options", {}).get("nki") if nki is None else nki)
    key = (id(function.__code__), follow, strict, version)
    known = _cache.get(key)
    if known is not None and known.holds(function):
        return known.report
    report, used = _run(function, follow=follow, strict=strict, nki=version)
    if len(_cache) >= _CACHE_SIZE:
        _cache.pop(next(iter(_cache)))
    _cache[key] = _cache_report(function, report, used)
    return report


def require_nki(kernel: Callable[..., Any], nki: Any = None) -> LintReport:
    """Return the report of ``kernel``, or raise ``NotNki`` with it as ``findings`` if it contains an error."""
    report = lint(kernel, nki=nki)
    if report.errors:
        raise _refusal(kernel, report, report.errors)
    return report


class LintWarning(UserWarning):
    """A kernel contains Python the NKI compiler refuses, and runs all the same."""


def apply_lint(kernel: Callable[..., Any], mode: str, nki: Any = None) -> None:
    """If the compiler would refuse ``kernel``: raise (mode ``error``), warn (``warn``) or do nothing (``off``).

    ``strict`` raises for every finding of the strict profile.
    """
    if mode == "strict":
        report = lint(kernel, strict=True, nki=nki)
        if report:
            raise _refusal(kernel, report, report)
    elif mode == "error":
        require_nki(kernel, nki)
    elif mode == "warn":
        report = lint(kernel, nki=nki)
        if report.errors:
            warn(_refusal(kernel, report, report.errors).message, LintWarning)


def _refusal(kernel: Callable[..., Any], report: LintReport, refused: Sequence[Finding]) -> NotNki:
    first = refused[0]
    count = len(refused)
    count_text = "one place" if count == 1 else f"{count} places"
    listed = "\n".join(str(f) for f in refused)
    error = NotNki(
        f"the NKI compiler refuses {count_text}:\n{listed}",
        rule=first.rule,
        kernel=getattr(unwrap(kernel), "__name__", None),
        line=f"{first.file}:{first.line}",
        findings=report,
    )
    # a SyntaxError is printed from these
    error.msg, error.filename, error.lineno, error.offset = str(error), first.file, first.line, first.column
    error.text = first.source
    return error


def _run(function: FunctionType, *, follow: bool, strict: bool, nki: Version) -> tuple[LintReport, list[Used]]:
    findings: dict[tuple[str, int, int, str], Finding] = {}

    def report(unit: Unit | None, owner: FunctionType, rule: str, node: ast.AST | None, detail: str) -> None:
        if not RULES[rule].holds(nki) or (RULES[rule].severity == "strict" and not strict):
            return
        code = owner.__code__
        unknown = (code.co_filename, code.co_firstlineno, 1), "", 1
        location = unknown if unit is None or node is None else unit.location(node)
        finding = _finding(rule, detail, *location, owner.__qualname__)
        findings.setdefault((finding.file, finding.line, finding.column, rule), finding)

    walk = Walk(report, follow=follow, strict=strict, nki=nki)
    walk.run(function)
    unit = read(function)
    if strict and unit is not None:
        for launch in launches(function):
            finding = _finding("launch-grid", f"`{ast.unparse(launch)}`", *unit.location(launch), "<module>")
            findings.setdefault((finding.file, finding.line, finding.column, finding.rule), finding)
    owners = {name: i for i, name in enumerate(dict.fromkeys(f.function for f in findings.values()))}
    ordered = sorted(findings.values(), key=lambda f: (owners[f.function], f.file, f.line, f.column))
    return LintReport(ordered), walk.used


def _finding(
    name: str, detail: str, where: tuple[str, int, int], source: str = "", width: int = 1, function: str = ""
) -> Finding:
    rule = RULES[name]
    message = f"{detail}: {rule.reason}" if detail else rule.reason
    return Finding(*where, name, rule.severity, message, rule.rewrite, function, rule.basis, source, width)


def _cache_report(function: FunctionType, report: LintReport, used: list[Used]) -> _Cached:
    outside = {(id(space), name): (space, name, obj) for space, name, obj in used if space is not None}
    free = function.__code__.co_freevars
    cells = {free.index(name): _identity(obj) for space, name, obj in used if space is None and name in free}
    return _Cached(function.__code__, tuple(outside.values()), tuple(cells.items()), report)


__all__ = ["RULES", "Finding", "LintReport", "LintWarning", "Rule", "apply_lint", "lint", "require_nki"]
