"""Calls in sources of C, C++, CUDA and Fortran, from their syntax trees."""

import ast
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trnsci.errors import BackendUnavailable
from trnsci.fit_source import FORTRAN, Use

_CALLS = ("call_expression", "subroutine_call")
_NAMED = {"function_declarator": 0, "subroutine_statement": 1, "function_statement": 1}
# a call that a macro leaves without a semicolon looks like a declaration inside a function
_TOP = ("translation_unit", "linkage_specification", "declaration_list")
_PART = re.compile(r"<[^<>]*>")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def read_source(file: Path, label: str) -> tuple[list[Use], list[str], list[Path]]:
    """Return the uses of names in a source, what could not be read, and the headers it includes by quotes."""
    reader = _Reader(file, label)
    reader.read(file.read_bytes())
    return reader.uses, reader.skipped, reader.included


def _parser(suffix: str) -> Any:
    try:
        import tree_sitter
        import tree_sitter_cuda
        import tree_sitter_fortran
    except ImportError as error:
        how = "install the extra fit: in a clone, pip install '.[fit]'"
        raise BackendUnavailable("fit", f"sources are read by tree-sitter, whose import fails ({error})", how) from None
    grammar = tree_sitter_fortran if suffix in FORTRAN else tree_sitter_cuda
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def _nodes(node: Any) -> Iterator[Any]:
    """Every node below one, in the order of the source; without recursion, as trees may be deep."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(top.children))


def _text(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))


class _Reader:
    """The uses of one file; macros are names for others, or sources of their own."""

    def __init__(self, file: Path, label: str) -> None:
        self.file, self.label = file, label
        self.parser = _parser(file.suffix.lower())
        self.uses: list[Use] = []
        self.skipped: list[str] = []
        self.included: list[Path] = []
        self.aliases: dict[str, str] = {}
        self.constants: dict[str, int] = {}

    def read(self, source: bytes) -> None:
        tree = self.parser.parse(source)
        nodes = list(_nodes(tree.root_node))
        for node in nodes:
            self._define(node)
        errors = [node for node in nodes if node.type == "ERROR"]
        if errors:
            first = errors[0].start_point[0] + 1
            self.skipped.append(f"{self.label}:{first}: {len(errors)} parts do not parse; calls inside may be missed")
        for node in nodes:
            self._use(node, node.start_point[0] + 1)

    def _define(self, node: Any) -> None:
        """Keep what a declaration or a directive names: headers, macros, constants."""
        if node.type == "preproc_include":
            name = _text(node.children[-1]).strip()
            if name.startswith('"'):
                self.included.append(self.file.parent / name.strip('"'))
        elif node.type == "preproc_def" and (value := node.child_by_field_name("value")) is not None:
            name, text = _text(node.child_by_field_name("name")), _text(value).strip()
            if text.isidentifier():
                self.aliases[name] = text
            else:
                self._keep_constant(name, text)
        elif node.type == "init_declarator" and len(node.children) == 3:
            self._keep_constant(_text(node.children[0]), _text(node.children[2]))

    def _keep_constant(self, name: str, text: str) -> None:
        value = self._value(text)
        if value is not None:
            self.constants[name] = value

    def _use(self, node: Any, line: int) -> None:
        where = f"{self.label}:{line}"
        if node.type in _CALLS:
            name = self._read_name(node.children[1] if node.type == "subroutine_call" else node.children[0])
            arguments = self._arguments(node)
            known = {i: n for i, text in enumerate(arguments) if (n := self._value(text)) is not None}
            launch = any(child.type == "kernel_call_syntax" for child in node.children)
            if name:
                words = tuple(self.aliases.get(a, a) for a in arguments)
                self.uses.append(Use(name, where, words, known, launch=launch))
        elif node.type in _NAMED and (name := self._read_name(node.children[_NAMED[node.type]])):
            if node.type != "function_declarator" or node.parent.type == "function_definition":
                self.uses.append(Use(name, where, own="defined"))
            elif node.parent.type == "declaration" and node.parent.parent.type in _TOP:
                self.uses.append(Use(name, where, own="declared"))
        elif node.type in ("preproc_def", "preproc_function_def"):
            body = node.child_by_field_name("value")
            if body is not None and "(" in (text := _text(body)):
                inside = self.parser.parse(f"void macro() {{ {text}; }}".replace("\\\n", " ").encode())
                for part in _nodes(inside.root_node):
                    if part.type in _CALLS:
                        self._use(part, line)
        elif node.type in ("function_definition", "subroutine") and (name := _kernel(node)):
            self.uses.append(Use(name, where, kernel=True))

    def _read_name(self, node: Any) -> str:
        """Return the name of a called function without template arguments; methods have none."""
        if node.type not in ("identifier", "qualified_identifier", "template_function", "name"):
            return ""
        text = _text(node)
        while (shorter := _PART.sub("", text)) != text:
            text = shorter
        name = re.sub(r"\s+", "", text).removeprefix("::")
        return self.aliases.get(name, name)

    def _arguments(self, node: Any) -> list[str]:
        for child in node.children:
            if child.type == "argument_list":
                return [_text(part) for part in child.named_children if part.type != "comment"]
        return []

    def _value(self, text: str) -> int | None:
        """Evaluate a constant of the source: integers, names of constants, and their arithmetic."""
        try:
            tree = ast.parse(re.sub(r"(?<=\d)[uUlL]+\b", "", text), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        return self._evaluate(tree)

    def _evaluate(self, tree: ast.expr) -> int | None:
        if isinstance(tree, ast.Constant):
            return tree.value if type(tree.value) is int else None
        if isinstance(tree, ast.Name):
            return self.constants.get(tree.id)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
            left, right = self._evaluate(tree.left), self._evaluate(tree.right)
            small = left is not None and right is not None and 0 < right < 2**31 and left < 2**31
            shifts = isinstance(tree.op, ast.LShift | ast.RShift)
            if small and not (shifts and (right or 0) > 31):
                value: int = _OPERATORS[type(tree.op)](left, right)
                return value
        return None


def _kernel(node: Any) -> str:
    """Return the name of a function that runs on the GPU, or nothing."""
    head = _text(node).partition("{" if node.type == "function_definition" else "\n")[0]
    if node.type == "subroutine":
        match = re.search(r"attributes\s*\(\s*global\s*\)\s*subroutine\s+(\w+)", head, re.IGNORECASE)
    else:
        match = re.search(r"__global__[^(]*?(\w+)\s*\((?!.*__launch_bounds__)", head, re.DOTALL)
        if match and match[1] == "__launch_bounds__":
            match = re.search(r"__launch_bounds__\s*\([^)]*\)\s*(?:\w+\s+)*?(\w+)\s*\(", head)
    return match[1] if match else ""
