"""Rules about values that exist on the device only: tensors, registers, and the loops that run there."""

import ast
from collections.abc import Iterable, Iterator
from functools import partial

from trnsim._lint.base import RANGES, argument
from trnsim._lint.front import FrontEnd

_HOST_CONVERSIONS = frozenset({"int", "float", "bool", "min", "max", "abs", "round", "divmod", "sum", "range"})
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_REGISTER_WRITES = frozenset({"register_move", "register_load"})


_GROWING = frozenset({"append", "clear", "extend", "pop", "remove", "reverse"})


def _in_order(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Nodes as they are evaluated: values before the names they go to, and a name that is added to is read first."""
    for node in nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            yield from _in_order(sorted(ast.iter_child_nodes(node), key=partial(_late, node)))
        yield node


def _late(node: ast.AST, part: ast.AST) -> int:
    """Rank a part of a node among those that are evaluated before it and after it."""
    if isinstance(node, (ast.For, ast.comprehension)):
        return (node.iter, node.target).index(part) if part in (node.iter, node.target) else 2
    stored = isinstance(getattr(part, "ctx", None), ast.Store)
    return -1 if isinstance(part, ast.comprehension) else int(stored)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class Device(FrontEnd):
    """Conditions, indices, registers and dynamic loops."""

    # the condition that only one core of the two meets
    core_branch: ast.AST | None = None
    # the body of the fori_loop that was met last, where it is a lambda
    counting: ast.AST | None = None

    def is_register(self, node: ast.AST) -> bool:
        counted = isinstance(node, ast.Name) and node.id in self.induction and not self.scalars
        return counted or self.kind(node) == "register"

    def is_device_value(self, node: ast.AST) -> bool:
        """Return whether an expression is a register or a scalar, whose value Python does not know."""
        return self.is_register(node) or self.kind(node) == "scalar"

    def check_condition(self, node: ast.AST) -> None:
        """Check the test of an if, a while or a conditional expression."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self.check_condition(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.check_condition(node.operand)
        elif isinstance(node, ast.Compare):
            if self._compares_contents(node):
                self.report("tensor-condition", node, "")
            elif any(self.kind(x) == "scalar" for x in (node.left, *node.comparators)):
                self.report("device-value", node, f"`{ast.unparse(node)}`")
        elif self.kind(node) == "tensor":
            self.report("tensor-condition", node, "")
        elif self.is_device_value(node):
            self.report("register-if", node, "")
            self.report("device-value", node, f"`{ast.unparse(node)}`")

    def _compares_contents(self, node: ast.Compare) -> bool:
        """Return whether tensors are ordered, or one meets a number; == of two tensors asks if they are the same."""
        operands = [node.left, *node.comparators]
        ordered = any(isinstance(op, _ORDER) for op in node.ops)
        numeric = any(isinstance(x, ast.Constant) and isinstance(x.value, (int, float)) for x in operands)
        return (ordered or numeric) and any(self.kind(x) == "tensor" for x in operands)

    def check_operands(self, *operands: ast.AST) -> None:
        """Operands of arithmetic or a comparison."""
        for node in operands:
            if self.is_register(node):
                self.report("register-expression", node, f"`{ast.unparse(node)}`")

    def check_scalar_operator(self, node: ast.BinOp) -> None:
        """Report an operator that scalars do not have."""
        known = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))
        if not known and "scalar" in (self.kind(node.left), self.kind(node.right)):
            self.report("scalar-expression", node, f"`{ast.unparse(node)}`")

    def check_comparison(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        if not any(_is_none(x) for x in operands) and any(
            isinstance(op, (*_ORDER, ast.Eq, ast.NotEq)) for op in node.ops
        ):
            self.check_operands(*operands)

    def check_index(self, node: ast.Subscript) -> None:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            bounds = [x for x in (part.lower, part.upper, part.step) if x] if isinstance(part, ast.Slice) else []
            for bound in bounds:
                if self.is_device_value(bound) or self.kind(bound) == "tensor":
                    self.report("runtime-index", bound, f"`{ast.unparse(bound)}`")
            if not bounds and self.kind(node.value) in ("list", "str") and self.is_device_value(part):
                self.report("device-value", part, f"`{ast.unparse(part)}`")
            if not bounds and self.kind(part) == "tensor":
                self.report("runtime-index", part, f"`{ast.unparse(part)}`")

    def check_device_call(self, node: ast.Call, api: str) -> None:
        """Check calls that take registers: conversions, register writes, and the loop functions."""
        plain = node.func.id if isinstance(node.func, ast.Name) and not self.names.is_local(node.func.id) else ""
        if (plain in _HOST_CONVERSIONS and not api) or api in RANGES:
            for value in filter(self.is_device_value, node.args):
                self.report("device-value" if self.scalars else "register-expression", value, f"`{ast.unparse(value)}`")
        if api in ("fori_loop", "while_loop") and self.core_branch:
            self.report("core-flow", node, f"`{ast.unparse(node.func)}` under `{ast.unparse(self.core_branch)}`")
        if api in _REGISTER_WRITES:
            target = argument(node, "dst", 0)
            if isinstance(target, ast.Name) and target.id in self.induction:
                self.report("induction-write", target, f"`{target.id}`")
        if api in ("fori_loop", "while_loop") and self.no_reorder:
            self.report("no-reorder-dynamic", node, "")
        if api in ("fori_loop", "dynamic_range"):
            step = argument(node, "step", 3 if api == "fori_loop" else 2)
            if step is not None:
                self._check_step(step)

    def _check_step(self, step: ast.AST) -> None:
        negative = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        constant = isinstance(step, ast.Constant) and not (type(step.value) is int and step.value > 0)
        if negative or constant or self.is_register(step) or self.kind(step) == "tensor":
            self.report("dynamic-step", step, f"`{ast.unparse(step)}`")

    def visit_For(self, node: ast.For) -> None:
        """Check a loop over anything; ``nl.dynamic_range`` makes it run on the device."""
        dynamic = isinstance(node.iter, ast.Call) and self.names.api(node.iter.func) == "dynamic_range"
        self.check_for(node)
        self.visit(node.iter)
        if dynamic:
            self._enter_dynamic(node.iter)
        if node.orelse:
            self.report("loop-else", node.orelse[0], "")
        before = self.induction
        names = {x.id for x in ast.walk(node.target) if isinstance(x, ast.Name)}
        self.induction = before | names if dynamic else before - names
        self._body(node.body, dynamic=dynamic)
        self.induction = before
        self.visit_all(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """Check a while loop; a register as its condition makes it run on the device."""
        dynamic = self.is_register(node.test)
        if dynamic:
            self._enter_dynamic(node.test)
        else:
            self.check_condition(node.test)
        self.check_guarded(node.test)
        self.visit(node.test)
        if node.orelse:
            self.report("loop-else", node.orelse[0], "")
        self._body(node.body, dynamic=dynamic)
        self.visit_all(node.orelse)

    def _enter_dynamic(self, node: ast.AST) -> None:
        if self.nki >= (0, 6):
            self.report("deprecated-loop", node, "")
        self.report("removed-loop", node, "")
        if self.no_reorder:
            self.report("no-reorder-dynamic", node, "")
        if any(self.frames[-1].loops):
            self.report("nested-dynamic", node, "")

    def _body(self, body: list[ast.stmt], *, dynamic: bool) -> None:
        if dynamic:
            self.check_turns(body)
        loops = self.frames[-1].loops
        loops.append(dynamic)
        self.visit_all(body)
        loops.pop()

    def check_turns(self, body: list[ast.stmt]) -> None:
        """Check the values that a turn of a device loop hands on to the next in Python's own names and lists."""
        own = {
            x.id for each in body for x in ast.walk(each) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
        }
        written: set[str] = set()
        for node in _in_order(body):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                written.add(node.id)
            elif isinstance(node, ast.Name) and node.id in own - written and not self.is_device_value(node):
                written.add(node.id)
                self.report("loop-state", node, f"`{node.id}`")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.value
                if node.func.attr in _GROWING and isinstance(name, ast.Name) and name.id not in own:
                    self.report("loop-state", node, f"`{ast.unparse(node.func)}`")

    def visit_Break(self, node: ast.Break | ast.Continue) -> None:
        loops = self.frames[-1].loops
        if loops and loops[-1]:
            self.report("dynamic-exit", node, f"`{type(node).__name__.lower()}`")

    def visit_Return(self, node: ast.Return) -> None:
        frame = self.frames[-1]
        valued = node.value is not None and not _is_none(node.value)
        frame.returns_value |= valued
        if any(frame.loops):
            self.report("dynamic-exit", node, "`return`")
        if frame.role == "fori" and valued:
            self.report("loop-body-return", node, f"`{frame.name}` is a body of nl.fori_loop and returns a value")
        if node.value is not None:
            self.check_result(frame, node.value)
            self.visit(node.value)
