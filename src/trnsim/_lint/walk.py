"""From a kernel to every function and method it reaches, and the findings of all of them."""

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

from trnsim._lint import names, words
from trnsim._lint.base import Role
from trnsim._lint.check import Checker
from trnsim._lint.source import Unit, read
from trnsim.versions import Version

Report = Callable[[Unit | None, FunctionType, str, ast.AST | None, str], None]
Used = tuple[dict[str, Any] | None, str, Any]

_ALWAYS = words("always")


class Walk:
    """Breadth first over the functions reached from one kernel."""

    def __init__(self, report: Report, *, follow: bool, strict: bool, nki: Version) -> None:
        self.report = report
        self.follow = follow
        self.strict = strict
        self.nki = nki
        # functions are told apart by the identity of their code: equal code may stand in two files
        self.seen: dict[int, FunctionType] = {}
        self.calls: dict[int, dict[int, tuple[Unit, ast.AST, str]]] = {}
        self.pending: list[tuple[FunctionType, Role | None]] = []
        self.classes: set[type] = set()
        self.attributes: set[str] = set()
        self.used: list[Used] = []
        self.bare: dict[str, tuple[Any, str]] = {}

    def run(self, kernel: FunctionType) -> None:
        queue: list[tuple[FunctionType, Role | None]] = [(kernel, None)]
        entry = True
        while queue:
            for function, role in queue:
                if id(function.__code__) not in self.seen:
                    self.seen[id(function.__code__)] = function
                    self._check(function, role, entry=entry)
                entry = False
            queue = self._next() if self.follow else []
        self._recursion()

    def _check(self, function: FunctionType, role: Role | None, *, entry: bool) -> None:
        unit = read(function)
        if unit is None:
            self.report(None, function, "source-unavailable", None, f"`{function.__qualname__}`")
            return

        def report(rule: str, node: ast.AST, detail: str) -> None:
            self.report(unit, function, rule, node, detail)

        checker = Checker(unit, report, entry=entry, nki=self.nki)
        try:
            checker.run(role)
        except RecursionError:
            self.report(
                unit, function, "source-unavailable", unit.node, f"`{function.__qualname__}` is nested too deeply"
            )
        self.classes |= checker.classes.keys()
        self.attributes |= checker.attributes
        self.used += checker.names.used
        self._collide(checker, unit)
        edges = self.calls.setdefault(id(function.__code__), {})
        for target, node, part in checker.references:
            self.pending.append((target, part))
            edges.setdefault(id(target.__code__), (unit, node, target.__name__))

    def _next(self) -> list[tuple[FunctionType, Role | None]]:
        """Return functions and methods reached but not yet checked."""
        reached, self.pending = self.pending, []
        for cls in self.classes:
            if not names.derives_from_nki_object(cls):
                continue
            # of a method defined twice, the one an instance would call
            members = {name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()}
            for name, member in members.items():
                function = _method(member)
                if function is not None and (self.strict or name in _ALWAYS or name in self.attributes):
                    reached.append((function, None))
        return [(f, role) for f, role in reached if id(f.__code__) not in self.seen]

    def _collide(self, checker: Checker, unit: Unit) -> None:
        """Report a bare name that stood for something else in a module read before."""
        module = unit.function.__module__
        for name, (obj, node) in checker.outside.items():
            known, where = self.bare.setdefault(name, (obj, module))
            if not _same(known, obj):
                self.report(unit, unit.function, "name-collision", node, f"`{name}` of {module} and of {where}")

    def _recursion(self) -> None:
        """Report the call that closes each cycle of the call graph."""
        done: set[int] = set()

        def descend(code: int, above: list[int]) -> None:
            done.add(code)
            for target, (unit, node, name) in self.calls.get(code, {}).items():
                if target in above:
                    self.report(unit, unit.function, "recursion", node, f"`{name}`")
                elif target not in done:
                    descend(target, [*above, target])

        for code in list(self.calls):
            if code not in done:
                descend(code, [code])


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    plain = (int, float, str, bool, tuple, type(None))
    return type(one) is type(two) and isinstance(one, plain) and bool(one == two)


def _method(member: Any) -> FunctionType | None:
    """Return the user's function behind a member of a class; what a dataclass writes has no source and is left out."""
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    if not isinstance(member, FunctionType) or member.__code__.co_filename == "<string>":
        return None
    return names.user_function(member)
