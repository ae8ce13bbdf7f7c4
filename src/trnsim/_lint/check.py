"""The walk over one function: which node is checked by which rule."""

import ast
import dataclasses
import math
from types import CodeType

from trnsim._lint import names, words
from trnsim._lint.base import Frame, Function, Kind, Role
from trnsim._lint.device import Device
from trnsim._lint.front import FrontEnd
from trnsim._lint.outside import Outside
from trnsim._lint.rules import RULES
from trnsim._lint.source import inner_code
from trnsim._lint.values import Values

_DECORATORS = frozenset({"jit", "dataclass", "property", "staticmethod", "classmethod", "setter", "no_type_check"})
_NO_CHILDREN = words("no_children")
_ENUM_FREE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_STATEMENTS = {node: rule.id for rule in RULES.values() for node in rule.nodes}
_FLOAT32_MAX = 3.4028235677973366e38
_FLOAT32_TINY = 7.006492321624085e-46


class Checker(Device, Outside, FrontEnd, Values):
    """Checks one function and the functions defined inside it."""

    def run(self, role: Role | None = None) -> None:
        """Walk the whole function; ``role`` is set for the body of a device loop."""
        node = self.unit.node
        self._check_signature(node)
        if self.entry:
            self.check_entry_decorators(node)
            self.check_tensor_tuples(node)
        else:
            self._check_decorators(node)
        if isinstance(node, ast.AsyncFunctionDef):
            self.report("async", node, "")
        self._function(node, self.unit.function.__code__, role)

    def generic_visit(self, node: ast.AST) -> None:
        for name in _FIELDS[type(node)]:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def _function(self, node: Function, code: CodeType | None, role: Role | None) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        kinds: dict[str, Kind] = {a.arg: "parameter" for a in arguments}
        kinds.update(dict.fromkeys(_strings(node), "str"))
        frame = Frame(code, node.name, _bound(node, code), kinds, role)
        before, outer_order, branch = self.induction, self.no_reorder, self.core_branch
        self.induction -= frame.kinds.keys()
        self.no_reorder = 0
        if frame.role == "fori" and arguments:
            self.induction |= {arguments[0].arg}
        elif frame.role == "while" and arguments:
            frame.kinds[arguments[0].arg] = "register"
        self.names.enter(frame.bound)
        self.frames.append(frame)
        self.infer(frame, node.body)
        self.check_length(node)
        if role:
            self.check_turns(node.body)
        self.visit_all(node.body)
        if frame.role == "while" and not frame.returns_value:
            self.report("loop-body-return", node, f"`{node.name}` is a body of nl.while_loop and returns nothing")
        self.frames.pop()
        self.names.leave()
        self.induction, self.no_reorder, self.core_branch = before, outer_order, branch

    def _check_signature(self, node: Function) -> None:
        outermost = self.entry and node is self.unit.node
        args = node.args
        if outermost and args.kwonlyargs and args.vararg is None:
            self.report("keyword-only", args.kwonlyargs[0], f"`{args.kwonlyargs[0].arg}`")
        if args.vararg is not None:
            self.report("varargs", args.vararg, f"`*{args.vararg.arg}`")
        if args.kwarg is not None:
            self.report("kwargs", args.kwarg, f"`**{args.kwarg.arg}`")
        for default in [*args.defaults, *(d for d in args.kw_defaults if d is not None)]:
            if outermost and isinstance(default, (ast.List, ast.ListComp)):
                self.report("list-argument", default, f"`{ast.unparse(default)}` is the default of a kernel argument")
        if outermost:
            for argument in [*args.posonlyargs, *args.args, *args.kwonlyargs]:
                self._check_annotation(argument)

    def _check_annotation(self, argument: ast.arg) -> None:
        cls, _ = self.names.resolve(argument.annotation) if argument.annotation else (names.MISSING, "unknown")
        if names.is_user_class(cls) and (names.derives_from_nki_object(cls) or dataclasses.is_dataclass(cls)):
            self.check_class(cls, argument)

    def _check_decorators(self, node: Function) -> None:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            chain = names.path(target)
            if chain is None or chain[-1] not in _DECORATORS:
                self.report("decorator", decorator, f"`@{ast.unparse(decorator)}`")
            self.check_front_decorator(decorator, chain)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        frame = self.frames[-1]
        self.report("inner-function", node, f"`{node.name}`")
        self._check_signature(node)
        self._check_decorators(node)
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
            self.visit(default)
        first = node.decorator_list[0] if node.decorator_list else node
        code = inner_code(frame.code, node.name, first.lineno)
        self._function(node, code, frame.roles.get(node.name))

    def visit_statement(self, node: ast.AST) -> None:
        """Check a statement whose mere presence is a finding."""
        self.report(_STATEMENTS[type(node).__name__], node, "")
        if not isinstance(node, (ast.ClassDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)):
            self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        item = node.items[0]
        call = item.context_expr
        allowed = (
            len(node.items) == 1
            and isinstance(call, ast.Call)
            and "no_reorder" in (self.names.api(call.func), (names.path(call.func) or [""])[-1])
            and not (call.args or call.keywords or item.optional_vars)
        )
        if not allowed:
            self.report("with", node, f"`with {ast.unparse(item)}`")
            self.generic_visit(node)
            return
        self.no_reorder += 1
        self.visit_all(node.body)
        self.no_reorder -= 1

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self.check_condition(node.test)
        before = self.core_branch
        if self.depends_on_core(node.test):
            self.core_branch = node.test
        if isinstance(node, ast.IfExp):
            self.check_guarded(node.body)
            self.check_guarded(node.orelse)
        else:
            self.check_guarded(node.test)
        self.generic_visit(node)
        # what follows a return runs on the other core alone
        if not (isinstance(node, ast.If) and self.depends_on_core(node.test) and isinstance(node.body[-1], ast.Return)):
            self.core_branch = before

    def visit_Assert(self, node: ast.Assert) -> None:
        self.check_condition(node.test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        before = self.core_branch
        for value in node.values[1:]:
            self.check_guarded(value)
        for value in node.values[:-1]:
            self.check_condition(value)
        for value in node.values:
            self.visit(value)
            if self.depends_on_core(value):
                self.core_branch = value
        self.core_branch = before

    def visit_Assign(self, node: ast.Assign) -> None:
        self.check_assignment(node.targets)
        for target in node.targets:
            self._target(target)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # annotations are for readers; only the value is compiled
        self._target(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        if isinstance(node.op, ast.MatMult):
            self.report("matmul-operator", node, "`@=`")
        self.check_operands(node.value)
        self.visit(node.value)

    def _target(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._target(element)
            return
        if isinstance(node, ast.Starred):
            self.report("star-unpack", node, f"`{ast.unparse(node)}`")
        elif isinstance(node, ast.Name):
            if node.id in self.induction:
                self.report("induction-write", node, f"`{node.id}`")
            elif self.frames and not self.names.is_local(node.id):
                self.report_write(node, node.id)
        else:
            self.check_target(node)
            self.check_front_target(node)
            if isinstance(node, ast.Subscript):
                self.check_index(node)
                self.visit(node.slice)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.check_index(node)
        self.check_front_subscript(node)
        if self.kind(node.value) == "dict":
            self.check_key(node.slice)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands: list[ast.expr] = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
            if isinstance(op, (ast.Is, ast.IsNot)):
                none = any(isinstance(x, ast.Constant) and x.value is None for x in (left, right))
                self.report("is-none" if none else "is", node, f"`{ast.unparse(node)}`")
            self.check_membership(op, right, node)
            if not isinstance(op, _ENUM_FREE) and (self.is_enum_member(left) or self.is_enum_member(right)):
                self.report("enum-operator", node, f"`{ast.unparse(node)}`")
        self.check_comparison(node)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        # a long sum leans to the left, and would be a deep recursion
        while True:
            if isinstance(node.op, ast.MatMult):
                self.report("matmul-operator", node, "")
            if self.is_enum_member(node.left) or self.is_enum_member(node.right):
                self.report("enum-operator", node, f"`{ast.unparse(node)}`")
            self.check_operands(node.left, node.right)
            self.check_scalar_operator(node)
            self.check_arithmetic(node.op, node.left, node.right, node)
            self.visit(node.right)
            if not isinstance(node.left, ast.BinOp):
                break
            node = node.left
        self.visit(node.left)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        value = node.operand
        if isinstance(node.op, ast.USub) and isinstance(value, ast.Constant) and type(value.value) is int:
            self._check_integer(-value.value, node)
            return
        if isinstance(node.op, ast.Not):
            self.check_condition(value)
        else:
            self.check_operands(value)
        self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if type(value) is int:
            self._check_integer(value, node)
        elif isinstance(value, float):
            size = abs(value)
            if math.isfinite(value) and (size > _FLOAT32_MAX or 0.0 < size < _FLOAT32_TINY):
                self.report("float-range", node, f"`{value!r}`")
        elif isinstance(value, (bytes, complex)):
            self.report("literal", node, f"`{value!r}` is {type(value).__name__}")

    def _check_integer(self, value: int, node: ast.AST) -> None:
        if not -(2**31) <= value < 2**32:
            self.report("integer-range", node, f"`{value}`")
        elif value >= 2**31:
            self.report("integer-unsigned", node, f"`{value}`")

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.report("star-unpack", value, f"`**{ast.unparse(value)}`")
            else:
                self.check_key(key)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self.report("star-unpack", node, f"`{ast.unparse(node)}`")
        self.visit(node.value)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        if node.format_spec is not None:
            self.report("format-spec", node.value, f"`{ast.unparse(node.format_spec)[2:-1]}`")
        self.visit(node.value)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.report("lambda", node, "")
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        before, names = self.induction, [a.arg for a in arguments]
        self.induction = before.difference(names) | frozenset(names[:1] if node is self.counting else ())
        self._inner(set(names), [node.body])
        self.induction = before

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        rule = {"SetComp": "set", "GeneratorExp": "generator"}.get(type(node).__name__, "comprehension")
        self.report(rule, node, "")
        targets = {x.id for c in node.generators for x in ast.walk(c.target) if isinstance(x, ast.Name)}
        integers: dict[str, Kind] = {}
        for clause in node.generators:
            call = clause.iter.func if isinstance(clause.iter, ast.Call) else None
            if isinstance(clause.target, ast.Name) and isinstance(call, ast.Name) and call.id == "range":
                integers[clause.target.id] = "int"
            if clause.is_async:
                self.report("async", clause.iter, "")
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        clauses = [x for c in node.generators for x in (c.iter, *c.ifs)]
        for test in (test for clause in node.generators for test in clause.ifs):
            self.check_condition(test)
        self._inner(targets, [*clauses, *elements], integers, node.key if isinstance(node, ast.DictComp) else None)

    def _inner(
        self, bound: set[str], body: list[ast.expr], kinds: dict[str, Kind] | None = None, key: ast.AST | None = None
    ) -> None:
        """Visit expressions in a scope of their own."""
        self.names.enter(frozenset(bound))
        self.frames.append(Frame(None, "", frozenset(bound), kinds or {}))
        self.check_key(key)
        self.visit_all(body)
        self.frames.pop()
        self.names.leave()

    def visit_Call(self, node: ast.Call) -> None:
        api = self.names.api(node.func)
        self.check_call(node, api)
        self.check_device_call(node, api)
        self.check_front_call(node, api)
        self.check_view_call(node)
        self.check_allocation(node, api)
        if api in ("fori_loop", "while_loop"):
            body = self.loop_function(node)
            self._follow_body(body)
            self.counting = body[1] if body is not None and body[0] == "fori" else None
        if any(isinstance(node.func, ast.Name) and node.func.id == f.name for f in self.frames[1:]):
            self.report("recursion", node, f"`{ast.unparse(node.func)}`")
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg is None and self.kind(keyword.value) == "dict":
                self.report("dict-expansion", keyword.value, f"`**{ast.unparse(keyword.value)}`")
            elif keyword.arg is None:
                self.report("star-unpack", keyword.value, f"`**{ast.unparse(keyword.value)}`")

    def _follow_body(self, argument: tuple[Role, ast.AST] | None) -> None:
        if argument is None:
            return
        role, body = argument
        obj, _ = self.names.resolve(body)
        function = None if obj is names.MISSING else names.user_function(obj)
        if function is not None:
            self.references.append((function, body, role))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.report("walrus", node, "")
        self.visit(node.value)


def _strings(node: Function) -> set[str]:
    """Return parameters that are strings by their default or annotation."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(arguments) - len(node.args.defaults)) + list(node.args.defaults)
    pairs = [*zip(arguments, defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    return {
        a.arg
        for a, d in pairs
        if (isinstance(d, ast.Constant) and isinstance(d.value, str))
        or (isinstance(a.annotation, ast.Name) and a.annotation.id == "str")
    }


def _bound(node: Function, code: CodeType | None) -> frozenset[str]:
    """Return the names a function binds; from its bytecode, or from its tree when the bytecode is not at hand."""
    if code is not None:
        return frozenset(code.co_varnames + code.co_cellvars)
    stores = {x.id for x in ast.walk(node) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return frozenset(stores | {x.arg for x in ast.walk(node) if isinstance(x, ast.arg)})


# the fields of a node that can hold statements or expressions
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in _NO_CHILDREN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}

# nodes that are checked as others are
_ALIKE = {"IfExp": "If", "Continue": "Break", **dict.fromkeys(("SetComp", "DictComp", "GeneratorExp"), "ListComp")}
for _name in (*_STATEMENTS, *_ALIKE):
    setattr(Checker, f"visit_{_name}", getattr(Checker, f"visit_{_ALIKE.get(_name, 'statement')}"))
