"""Rules of the strict profile about statements and calls; those about values are in `trnsim._lint.values`."""

import ast
from types import ModuleType
from typing import Any

from trnsim._lint import names, words
from trnsim._lint.base import RANGES, Frame
from trnsim._lint.reference import Entry, reference
from trnsim._lint.sizes import Sizes
from trnsim.versions import FIRST

_BUILTINS = words("builtins")
REFUSED = words("refused")
DOUBTFUL = words("doubtful")
_MATH = words("math")
_LIST_METHODS = words("list_methods")
_DICT_METHODS = words("dict_methods")
_TENSOR_ONLY = frozenset({"shape", "dtype", "buffer", "reshape", "ap"})
_FRONT_DECORATORS = frozenset({"jit", "dataclass", "staticmethod"})


class FrontEnd(Sizes):
    """Statements, calls and names the parser front end refuses or misreads."""

    loop_header: ast.AST | None = None

    def check_entry_decorators(self, node: Any) -> None:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            chain = names.path(target)
            if chain is not None and chain[-1] == "jit" and chain != ["nki", "jit"]:
                self.report("jit-spelling", decorator, f"`@{ast.unparse(decorator)}`")

    def check_front_decorator(self, decorator: ast.expr, chain: list[str] | None) -> None:
        if chain is not None and chain[-1] not in _FRONT_DECORATORS:
            self.report("decorator-front", decorator, f"`@{ast.unparse(decorator)}`")

    def check_assignment(self, targets: list[ast.expr]) -> None:
        if len(targets) > 1 and any(isinstance(t, (ast.Subscript, ast.Attribute)) for t in targets):
            self.report("assign-chain", targets[0], f"`{' = '.join(ast.unparse(t) for t in targets)}`")
        for target in targets:
            if isinstance(target, ast.List):
                self.report("unpack-target", target, f"`{ast.unparse(target)}`")
            elif isinstance(target, ast.Tuple):
                for element in target.elts:
                    if isinstance(element, (ast.Tuple, ast.List)):
                        self.report("unpack-nested", element, f"`{ast.unparse(element)}`")
                    elif isinstance(element, (ast.Subscript, ast.Attribute)):
                        self.report("unpack-target", element, f"`{ast.unparse(element)}`")

    def check_for(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            self.report("loop-target", node.target, f"`{ast.unparse(node.target)}`")
        if self.kind(node.iter) == "dict":
            self.report("dict-method", node.iter, f"`for … in {ast.unparse(node.iter)}`")
        elif self.kind(node.iter) == "str":
            self.report("string-value", node.iter, f"`for … in {ast.unparse(node.iter)}`")
        self.loop_header = node.iter
        self.check_guarded(node.iter)

    def check_guarded(self, node: ast.AST) -> None:
        """Report attributes of subscripts and calls in an expression that may not be evaluated."""
        if isinstance(node, ast.Attribute) and names.path(node) is None:
            self.report("hoisted-attribute", node, f"`{ast.unparse(node)}`")
            return
        for child in ast.iter_child_nodes(node):
            self.check_guarded(child)

    def check_front_call(self, node: ast.Call, api: str) -> None:
        callee = node.func
        if isinstance(callee, ast.Attribute):
            self._check_front_method(node, callee)
        if api:
            if api in RANGES and node is not self.loop_header:
                self.report("range-value", node, f"`{ast.unparse(callee)}()`")
            if api in ("program_id", "num_programs") and self._nonzero(node):
                self.report("program-axis", node, f"`{ast.unparse(node)}`")
            self.check_tile(node, api)
            self._check_signature_of(node, callee)
            return
        if isinstance(callee, ast.Name) and self.names.lookup(callee.id)[1] == "builtin":
            self._check_front_builtin(node, callee.id)
        elif self.names.module(callee) == "math" and isinstance(callee, ast.Attribute) and callee.attr not in _MATH:
            self.report("math-front", callee, f"`{ast.unparse(callee)}()`")

    @staticmethod
    def _nonzero(node: ast.Call) -> bool:
        given = [*node.args, *(k.value for k in node.keywords)]
        return any(isinstance(x, ast.Constant) and x.value != 0 for x in given)

    def _check_front_builtin(self, node: ast.Call, name: str) -> None:
        if name in ("min", "max"):
            if len(node.args) > 2 or node.keywords:
                self.report("min-max", node, f"`{ast.unparse(node)}`")
        elif name == "range":
            if node is not self.loop_header or node.keywords:
                self.report("range-value", node, f"`{ast.unparse(node)}`")
        elif name == "isinstance":
            if len(node.args) == 2 and isinstance(node.args[1], ast.Tuple):
                self.report("isinstance-tuple", node, f"`{ast.unparse(node)}`")
        elif name == "len":
            if node.args and self.kind(node.args[0]) == "str":
                self.report("string-value", node, f"`{ast.unparse(node)}`")
        elif name not in _BUILTINS | REFUSED | DOUBTFUL | {"set", "frozenset"}:
            self.report("builtin-front", node.func, f"`{name}()`")

    def _check_front_method(self, node: ast.Call, callee: ast.Attribute) -> None:
        kind, attr = self.kind(callee.value), callee.attr
        if kind == "dict":
            if attr not in _DICT_METHODS:
                self.report("dict-method", callee, f"`.{attr}()`")
        elif attr == "pop" and node.args and self.kind(node.args[0]) != "str":
            self.report("list-pop", node, f"`{ast.unparse(node)}`")
        elif (kind == "list" and attr not in _LIST_METHODS) or (attr in ("insert", "sort") and kind != "tensor"):
            self.report("list-method", callee, f"`.{attr}()`")
        elif kind == "str" and not isinstance(callee.value, (ast.Constant, ast.JoinedStr)):
            self.report("string-value", callee, f"`.{attr}()`")

    def _check_signature_of(self, node: ast.Call, callee: ast.AST) -> None:
        """Compare a call of NKI with its documented signature."""
        documented = self._names_documented(callee)
        entry = documented.get(callee.attr) if isinstance(callee, ast.Attribute) else None
        if entry is None or entry.parameters is None:
            return
        for keyword in node.keywords:
            since = entry.parameters.get(keyword.arg) if keyword.arg is not None else FIRST
            if since is None:
                self.report("api-signature", keyword.value, f"`{entry.name}({keyword.arg}=)`")
            else:
                self.check_age(since, keyword.value, f"`{entry.name}({keyword.arg}=)`")
        if len(node.args) > len(entry.parameters):
            self.report("api-signature", node, f"`{entry.name}()` takes {len(entry.parameters)} arguments")

    def _names_documented(self, node: ast.AST) -> dict[str, Entry]:
        """Return the names of the namespace of NKI a dotted path looks into: ``nl``, ``nisa`` or ``ncc``."""
        obj, _ = self.names.resolve(node.value) if isinstance(node, ast.Attribute) else (names.MISSING, "")
        if not isinstance(obj, ModuleType) or not names.is_nki(obj):
            return {}
        return reference().get(obj.__name__.rpartition(".")[2], {})

    def check_api_name(self, node: ast.Attribute) -> None:
        """``nl.x`` and the like must be documented, in the version the kernel is meant for."""
        documented = self._names_documented(node)
        if not documented or node.attr.startswith("__"):
            return
        entry = documented.get(node.attr)
        if entry is None:
            self.report("api-signature", node, f"`{ast.unparse(node)}`")
        else:
            self.check_age(entry.since, node, f"`{ast.unparse(node)}`")

    def check_result(self, frame: Frame, value: ast.AST) -> None:
        """Check that the entry's results are not in private memory."""
        if not self.entry or len(self.frames) != 1:
            return
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
        for part in parts:
            if isinstance(part, ast.Name) and part.id in frame.private:
                self.report("hbm-result", part, f"`{part.id}`")

    def check_tensor_tuples(self, node: Any) -> None:
        """Arguments of the entry that are used as sequences of tensors."""
        parameters = {a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        elements: dict[str, str | None] = {}
        for x in ast.walk(node):
            if isinstance(x, ast.For) and isinstance(x.target, ast.Name):
                elements[x.target.id] = _name(x.iter)
            elif isinstance(x, ast.Assign) and isinstance(x.targets[0], ast.Name):
                elements[x.targets[0].id] = _element_of(x.value)
        used = [x for x in ast.walk(node) if isinstance(x, ast.Attribute) and x.attr in _TENSOR_ONLY]
        parameters -= {_name(x.value) for x in used}
        for x in used:
            name = _element_of(x.value) or elements.get(_name(x.value) or "")
            if name in parameters:
                parameters.discard(name)
                self.report("tensor-tuple", x, f"`{name}` holds tensors")


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _element_of(node: ast.AST) -> str | None:
    """``p`` of ``p[i]``."""
    return _name(node.value) if isinstance(node, ast.Subscript) else None
