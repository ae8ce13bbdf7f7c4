"""State of the walk over one function: findings, scopes, and a small inference of what local names hold."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal

from trnsim._lint import words
from trnsim._lint.names import Names, derives_from_nki_object
from trnsim._lint.source import Unit
from trnsim.versions import TRACED, Version, version_text

Kind = Literal["tensor", "register", "scalar", "dict", "list", "str", "int", "parameter", "other", "mixed"]
Role = Literal["fori", "while"]

RANGES = frozenset({"range", "affine_range", "sequential_range", "static_range"})
_TENSOR_RESULTS = words("tensor_results")
_VIEWS = words("views")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_LITERALS: dict[type, Kind] = {ast.Dict: "dict", ast.DictComp: "dict", ast.List: "list", ast.JoinedStr: "str"}
_CONTAINERS: dict[str, Kind] = {"dict": "dict", "list": "list", "str": "str"}


@dataclass(slots=True)
class Frame:
    """A function being walked: its names and what they hold, the loops open in it, its part in a device loop."""

    code: CodeType | None
    name: str
    bound: frozenset[str]
    kinds: dict[str, Kind]
    role: Role | None = None
    roles: dict[str, Role] = field(default_factory=dict)
    loops: list[bool] = field(default_factory=list)
    returns_value: bool = False
    # names of slices of tensors, of what .ap gives, of what is neither, and of tensors in private memory
    slices: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    # names that hold the index of this core
    cores: set[str] = field(default_factory=set)


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return an argument of a call, by its name or its position; None where the call leaves it out."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if given is None and position is not None and position < len(call.args):
        given = call.args[position]
    return given


def _attributes_of_classes(function: FunctionType) -> frozenset[str]:
    """Return names the classes of the function's module define: members, and what their methods assign."""
    names: set[str] = set()
    for cls in function.__globals__.values():
        if isinstance(cls, type) and derives_from_nki_object(cls):
            for name, member in vars(cls).items():
                names.add(name)
                if isinstance(member, FunctionType):
                    names.update(member.__code__.co_names)
    return frozenset(names)


class Base(ast.NodeVisitor):
    """Findings and names; the rules are in the classes that derive from it."""

    def __init__(self, unit: Unit, report: Callable[[str, ast.AST, str], None], *, entry: bool, nki: Version) -> None:
        self.unit = unit
        self.nki = nki
        # counters of device loops are scalars, which Python may compute with
        self.scalars = nki >= TRACED
        self.report = report
        self.entry = entry
        self.names = Names(unit.function)
        self.frames: list[Frame] = []
        self.induction: frozenset[str] = frozenset()
        self.no_reorder = 0
        self.references: list[tuple[FunctionType, ast.AST, Role | None]] = []
        self.classes: dict[type, ast.AST] = {}
        self.attributes: set[str] = set()
        self.legacy: set[ModuleType] = set()
        self.captured: set[str] = set()
        # bare names of outside functions, classes and constants, and where each is first used
        self.outside: dict[str, tuple[Any, ast.AST]] = {}
        self.defined = _attributes_of_classes(unit.function)

    def check_age(self, since: Version, node: ast.AST, text: str) -> None:
        """Report a name that came after the version the kernel is meant for."""
        if since > self.nki:
            self.report("api-version", node, f"{text} is of NKI {version_text(since)}")

    def depends_on_core(self, node: ast.AST) -> bool:
        """Return whether a condition asks which core this is."""
        if any(isinstance(x, ast.Call) and self.names.api(x.func) == "program_id" for x in ast.walk(node)):
            return True
        named = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}
        return any(named & frame.cores for frame in self.frames)

    def visit_all(self, nodes: list[ast.stmt] | list[ast.expr]) -> None:
        for node in nodes:
            self.visit(node)

    def kind_of(self, name: str) -> Kind | None:
        """Return what a local name holds, if every assignment to it agrees."""
        for frame in reversed(self.frames):
            if name in frame.bound:
                return frame.kinds.get(name)
        return None

    def kind(self, node: ast.AST) -> Kind | None:
        """Return what an expression holds."""
        if isinstance(node, ast.Name):
            return "scalar" if self.scalars and node.id in self.induction else self.kind_of(node.id)
        if isinstance(node, ast.Subscript):
            return "tensor" if self.kind(node.value) == "tensor" else "other"
        if type(node) in _LITERALS:
            return _LITERALS[type(node)]
        if isinstance(node, ast.Constant):
            return "int" if type(node.value) is int else "str" if isinstance(node.value, str) else "other"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and self.kind(node.operand) == "scalar":
            return "scalar"
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            sides = {self.kind(node.left), self.kind(node.right)}
            if "scalar" in sides:
                return "scalar"
            return "list" if "list" in sides else "str" if sides == {"str"} else "other"
        if isinstance(node, ast.IfExp):
            one, two = self.kind(node.body), self.kind(node.orelse)
            return one if one == two else "mixed"
        if isinstance(node, ast.Call):
            return self._result(node)
        return "other"

    def _result(self, node: ast.Call) -> Kind:
        api = self.names.api(node.func)
        if api == "register_alloc":
            return "register"
        if api == "scalar_load":
            return "scalar"
        if api in _TENSOR_RESULTS:
            return "tensor"
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and self.kind(node.func.value) == "tensor":
            return "tensor"
        if isinstance(node.func, ast.Name) and node.func.id in _CONTAINERS and not self.names.is_local(node.func.id):
            return _CONTAINERS[node.func.id]
        return "other"

    def is_slice(self, node: ast.AST) -> bool:
        """Return whether it is part of a tensor, as far as the text tells: an index with a slice or several entries."""
        if isinstance(node, ast.Name):
            owners = [frame for frame in self.frames if node.id in frame.bound]
            return any(node.id in frame.slices and node.id not in frame.whole for frame in owners)
        if not isinstance(node, ast.Subscript) or self.kind(node.value) in ("list", "str"):
            return False
        if isinstance(node.value, ast.Attribute) and node.value.attr in ("shape", "get_pattern"):
            return False
        return isinstance(node.slice, (ast.Slice, ast.Tuple)) or self.kind(node.value) == "tensor"

    def is_pattern(self, node: ast.AST) -> bool:
        """Return whether ``.ap`` gives it."""
        if isinstance(node, ast.Name):
            owners = [frame for frame in self.frames if node.id in frame.bound]
            return any(node.id in frame.patterns - frame.slices - frame.whole for frame in owners)
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "ap"

    def infer(self, frame: Frame, body: list[ast.stmt]) -> None:
        """Fill in the kinds of the names ``body`` assigns, in order, and which functions are bodies of device loops."""
        for node in body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(frame, target, node.value)
            elif isinstance(node, ast.AnnAssign):
                if node.value is not None:
                    self._bind(frame, node.target, node.value)
            elif isinstance(node, ast.For):
                self._bind_loop(frame, node)
                self.infer(frame, node.body)
                self.infer(frame, node.orelse)
            elif isinstance(node, (ast.If, ast.While)):
                self.infer(frame, node.body)
                self.infer(frame, node.orelse)
            elif isinstance(node, ast.With):
                self.infer(frame, node.body)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._loop_body(frame, node.value)

    def _bind(self, frame: Frame, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Name):
            if self.is_slice(value):
                frame.slices.add(target.id)
            elif self.is_pattern(value):
                frame.patterns.add(target.id)
            else:
                frame.whole.add(target.id)
            if self._is_private(value):
                frame.private.add(target.id)
            if self.depends_on_core(value):
                frame.cores.add(target.id)
            self._hold(frame, target.id, self.kind(value) or "other")
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for i, element in enumerate(target.elts):
                same = len(values) == len(target.elts)
                self._bind(frame, element, values[i] if same else ast.Pass())

    def _is_private(self, node: ast.AST) -> bool:
        """Return whether it is a tensor allocated in ``nl.hbm``."""
        if not isinstance(node, ast.Call) or self.names.api(node.func) not in ("ndarray", "zeros", "ones", "full"):
            return False
        buffer = argument(node, "buffer")
        return isinstance(buffer, ast.Attribute) and buffer.attr in ("hbm", "private_hbm")

    @staticmethod
    def _hold(frame: Frame, name: str, kind: Kind) -> None:
        frame.kinds[name] = kind if frame.kinds.get(name, kind) == kind else "mixed"

    def _bind_loop(self, frame: Frame, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self._bind(frame, node.target, ast.Pass())
            return
        call = node.iter
        name = ""
        if isinstance(call, ast.Call):
            name = self.names.api(call.func) or (call.func.id if isinstance(call.func, ast.Name) else "")
        if name != "dynamic_range":
            self._hold(frame, node.target.id, "int" if name in RANGES else "other")

    def _loop_body(self, frame: Frame, node: ast.Call) -> None:
        body = self.loop_function(node)
        if body is not None and isinstance(body[1], ast.Name) and self.names.is_local(body[1].id):
            frame.roles[body[1].id] = body[0]

    def loop_function(self, node: ast.Call) -> tuple[Role, ast.AST] | None:
        """Return the role and the body argument of a call of ``nl.fori_loop`` or ``nl.while_loop``."""
        api = self.names.api(node.func)
        if api not in ("fori_loop", "while_loop"):
            return None
        role: Role = "fori" if api == "fori_loop" else "while"
        body = argument(node, "body_fun", 2 if role == "fori" else 1)
        return None if body is None else (role, body)
