"""Rules about what a kernel reaches outside itself: functions, classes, libraries, builtins and mutable state."""

import ast
from enum import Enum
from types import ModuleType
from typing import Any

from trnsim._lint import names, words
from trnsim._lint.front import DOUBTFUL, REFUSED, FrontEnd
from trnsim._lint.values import Values

_CHANGES = words("changes")
_LIST_CHANGES = words("list_changes")
_KEYED = frozenset({"get", "pop", "setdefault"})


class Outside(FrontEnd, Values):
    """Calls and references."""

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            obj, where = self.names.resolve(node)
            if where == "captured":
                self.report("closure", node, f"`{node.id}`")
            if obj is not names.MISSING and where != "builtin":
                self._refer(obj, node, node.id)
                self.check_outside_integer(obj, node, node.id)
                if not isinstance(obj, ModuleType):
                    self.outside.setdefault(node.id, (obj, node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        self.check_api_name(node)
        self.check_tensor_attribute(node)
        chain = names.path(node)
        if chain is None:
            self.visit(node.value)
            return
        first, where = self.names.lookup(chain[0])
        if first is names.MISSING or where == "builtin":
            return
        if isinstance(first, ModuleType) and names.is_nki(first):
            if first.__name__.startswith("neuronxcc") and first not in self.legacy:
                self.legacy.add(first)
                self.report("legacy-namespace", node, f"`{chain[0]}` is {first.__name__}")
        elif isinstance(first, (ModuleType, type)):
            obj, _ = self.names.resolve(node)
            owner, _ = self.names.resolve(node.value)
            if names.is_user_class(owner):
                self.check_class(owner, node)
            if obj is not names.MISSING:
                self._refer(obj, node, ast.unparse(node))
        else:
            self._refer(first, node, chain[0])

    def _refer(self, obj: Any, node: ast.AST, text: str) -> None:
        """Something outside is read."""
        if isinstance(obj, (type, ModuleType)):
            return
        function = names.user_function(obj)
        if function is not None:
            if names.is_nki(type(obj)):
                self.report("jit-subkernel", node, f"`{text}`")
            self.references.append((function, node, None))
        elif names.is_mutable(obj) and text not in self.captured:
            self.captured.add(text)
            self.report("mutable-capture", node, f"`{text}` is a {type(obj).__name__} outside the kernel")

    def report_write(self, node: ast.AST, text: str) -> None:
        """Report a change of something outside the kernel."""
        for rule in ("impure-write", "side-effect"):
            self.report(rule, node, f"`{text}` lives outside the kernel")

    def check_target(self, node: ast.AST) -> None:
        """Check an attribute or element that is assigned to."""
        name = names.root(node)
        if name is None or isinstance(node, ast.Name):
            return
        obj, where = self.names.lookup(name)
        if where in ("captured", "global") and obj is not names.MISSING:
            self.report_write(node, name)
        if isinstance(node, ast.Subscript) and self.kind(node.value) == "dict":
            self.check_key(node.slice)

    def check_key(self, node: ast.AST | None) -> None:
        """Check a key of a dict."""
        if node is None:
            return
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
        constant = isinstance(node, ast.Constant) and not isinstance(node.value, str)
        if negative or constant or isinstance(node, ast.Tuple) or self.kind(node) == "int":
            self.report("dict-key", node, f"`{ast.unparse(node)}`")

    def check_call(self, node: ast.Call, api: str) -> None:
        """Check a call by its callee; ``api`` is the NKI function it is, if any."""
        callee = node.func
        if isinstance(callee, ast.Attribute):
            self._check_method(node, callee)
        if api:
            return
        obj, where = self.names.resolve(callee)
        if where == "builtin" and isinstance(callee, ast.Name):
            self._check_builtin(callee)
        elif obj is not names.MISSING and isinstance(obj, type) and where != "builtin":
            self._check_construction(obj, node)
        elif self.names.module(callee) or (obj is not names.MISSING and not isinstance(obj, ModuleType)):
            self._check_library(obj, callee)

    def _check_builtin(self, callee: ast.Name) -> None:
        if callee.id in ("set", "frozenset"):
            self.report("set", callee, f"`{callee.id}()`")
        elif callee.id in REFUSED:
            self.report("builtin", callee, f"`{callee.id}()`")
        elif callee.id in DOUBTFUL:
            self.report("builtin-doubtful", callee, f"`{callee.id}()`")

    def _check_construction(self, cls: type, node: ast.Call) -> None:
        if names.is_user_class(cls):
            self.check_class(cls, node)
        elif cls.__module__ != "builtins":
            self._check_library(cls, node.func)

    def _check_library(self, obj: Any, callee: ast.AST) -> None:
        inside = self.names.module(callee)
        how = names.library_of(inside) if inside and not names.user_function(obj) else names.library(obj)
        if how in ("host", "doubtful"):
            self.report("host-call" if how == "host" else "library-call", callee, f"`{ast.unparse(callee)}()`")

    def _check_method(self, node: ast.Call, callee: ast.Attribute) -> None:
        value = callee.value
        if isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str)):
            self.report("string-method", callee, f"`.{callee.attr}()`")
        if callee.attr in _KEYED and node.args and self.kind(value) == "dict":
            self.check_key(node.args[0])
        name = names.root(value)
        if name is None or callee.attr not in _CHANGES:
            return
        obj, where = self.names.resolve(value) if names.path(value) else self.names.lookup(name)
        if where in ("captured", "global") and names.is_mutable(obj):
            self.report_write(callee, ast.unparse(value))
        elif callee.attr in _LIST_CHANGES and isinstance(value, ast.Name) and self._is_argument(name):
            self.report("argument-mutation", callee, f"`{name}.{callee.attr}()`")

    def _is_argument(self, name: str) -> bool:
        return self.entry and len(self.frames) == 1 and self.kind_of(name) == "parameter" and name != "self"

    def check_class(self, cls: type, node: ast.AST) -> None:
        """Check a class the user wrote, which is instantiated, or whose member is read."""
        if cls in self.classes:
            return
        self.classes[cls] = node
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        detail = f"`{cls.__name__}` derives from {bases}"
        if issubclass(cls, Enum):
            if cls.__bases__ != (Enum,):
                self.report("enum-base", node, detail)
        elif names.derives_from_nki_object(cls):
            if len(cls.__bases__) > 1:
                self.report("multiple-inheritance", node, detail)
            elif cls.__bases__[0].__name__ != "NKIObject":
                self.report("class-inherit", node, detail)
        elif names.is_named_tuple(cls):
            self.report("named-tuple", node, detail)
        elif not issubclass(cls, BaseException):
            self.report("class-base", node, detail)

    def is_enum_member(self, node: ast.AST) -> bool:
        """Return whether it is ``E.x`` of an enum the user wrote; NKI's own enums are ordered."""
        if not isinstance(node, ast.Attribute):
            return False
        owner, _ = self.names.resolve(node.value)
        return names.is_user_class(owner) and issubclass(owner, Enum) and not issubclass(owner, int)
