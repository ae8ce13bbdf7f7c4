"""Rules of the strict profile about values: strings, lists, tensors and their attributes, numbers."""

import ast
from typing import Any

from trnsim._lint import names, words
from trnsim._lint.base import Base, argument
from trnsim._lint.reference import reference

_MAX_RANK = 5
# of the simulator's own tensors, and of no kernel's concern
_OURS = words("ours")
# names common enough to be attributes of something else
_COMMON = words("common")
_BITS = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)


def _negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


class Values(Base):
    """Rules for uses of strings, lists, tensors and numbers."""

    def check_front_subscript(self, node: ast.Subscript) -> None:
        kind = self.kind(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if self.is_pattern(node.value):
            self.report("index-of-pattern", node, f"`{ast.unparse(node)}`")
        if kind == "str":
            self.report("string-value", node, f"`{ast.unparse(node)}`")
        elif kind == "list" and isinstance(node.slice, ast.Slice) and not self._ends_inside(node.slice):
            self.report("list-slice", node, f"`{ast.unparse(node)}`")
        for part in parts:
            if isinstance(part, ast.Constant) and part.value is None and kind != "dict":
                self.report("index-none", part, f"`{ast.unparse(node)}`")
            elif isinstance(part, ast.Slice) and part.step is not None and kind not in ("list", "str"):
                self.report("index-step", part, f"`{ast.unparse(node)}`")
            elif kind == "tensor" and _negative(part):
                self.report("index-negative", part, f"`{ast.unparse(node)}`")

    @staticmethod
    def _ends_inside(node: ast.Slice) -> bool:
        end = node.upper
        if end is None or _negative(end):
            return True
        return any(
            isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id == "len" for x in ast.walk(end)
        )

    def check_front_target(self, node: ast.AST) -> None:
        if isinstance(node, ast.Subscript) and self.kind(node.value) == "tensor":
            self.report("tensor-assignment", node, f"`{ast.unparse(node)} = …`")

    def check_tensor_attribute(self, node: ast.Attribute) -> None:
        """Check an attribute of something that is, or may be, a tensor."""
        kind = self.kind(node.value)
        if kind in ("list", "dict", "str", "int") or self._is_class_or_module(node):
            return
        entry = reference()["tensor"].get(node.attr)
        if entry is not None and (kind == "tensor" or node.attr not in _COMMON):
            if not self._own(node):
                self.check_age(entry.since, node, f"`.{node.attr}`")
        elif entry is None and (kind == "tensor" or node.attr in _OURS) and not self._own(node):
            self.report("tensor-attribute", node, f"`.{node.attr}`")

    def _is_class_or_module(self, node: ast.Attribute) -> bool:
        """Return whether the owner is known to be something else than a value of the kernel."""
        chain = names.path(node)
        if chain is None or self.names.is_local(chain[0]):
            return False
        obj, _ = self.names.resolve(node.value)
        return obj is not names.MISSING

    def _own(self, node: ast.Attribute) -> bool:
        """Return whether it is an attribute the user's classes define, or may define: ``self.x``."""
        return names.path(node) == ["self", node.attr] or node.attr in self.defined

    def check_view_call(self, node: ast.Call) -> None:
        callee = node.func
        if not isinstance(callee, ast.Attribute) or callee.attr not in ("ap", "reshape", "view"):
            return
        if self.is_pattern(callee.value):
            self.report("index-of-pattern", node, f"`{ast.unparse(callee)}()`")
        elif self.is_slice(callee.value):
            self.report("view-of-slice", node, f"`{ast.unparse(callee)}()`")
        given = node.args[0] if node.args else next((k.value for k in node.keywords), None)
        if callee.attr == "reshape" and len(node.args) > 1:
            given = ast.Tuple(node.args)
        self.check_rank(given, node)

    def check_rank(self, shape: ast.AST | None, node: ast.AST) -> None:
        if isinstance(shape, (ast.Tuple, ast.List)) and len(shape.elts) > _MAX_RANK:
            self.report("view-rank", node, f"{len(shape.elts)} dimensions")

    def check_allocation(self, node: ast.Call, api: str) -> None:
        if api in ("ndarray", "zeros", "ones", "full"):
            self.check_rank(argument(node, "shape", 0), node)

    def check_arithmetic(self, op: ast.operator, left: ast.AST, right: ast.AST, node: ast.AST) -> None:
        floats = any(isinstance(x, ast.Constant) and isinstance(x.value, float) for x in (left, right))
        if (
            (isinstance(op, ast.Pow) and _negative(right) and not floats)
            or (isinstance(op, (ast.FloorDiv, ast.Mod)) and _negative(right))
            or (isinstance(op, ast.Mod) and floats)
            or (isinstance(op, _BITS) and (_negative(left) or _negative(right)))
        ):
            self.report("arithmetic-misread", node, f"`{ast.unparse(node)}`")
        if isinstance(op, (ast.Mod, ast.Mult)) and "str" in (self.kind(left), self.kind(right)):
            self.report("string-value", node, f"`{ast.unparse(node)}`")

    def check_membership(self, op: ast.cmpop, right: ast.AST, node: ast.AST) -> None:
        if isinstance(op, (ast.In, ast.NotIn)) and self.kind(right) == "dict":
            self.report("dict-method", node, f"`{ast.unparse(node)}`")

    def check_outside_integer(self, value: Any, node: ast.AST, text: str) -> None:
        """Check an integer of the module, or one inside a tuple of it."""
        if type(value) is int and not -(2**31) <= value < 2**31:
            rule = "integer-unsigned" if 0 <= value < 2**32 else "integer-range"
            self.report(rule, node, f"`{text}` is {value}")
        elif isinstance(value, tuple):
            for item in value:
                self.check_outside_integer(item, node, text)
