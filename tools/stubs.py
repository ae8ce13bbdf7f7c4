"""Write what type checkers read of the libraries: ``python -m tools.stubs [--check]``.

Functions are written for tensors, and `trnsci.array_function` lets them take NumPy arrays and answer in kind. No
annotation of Python's can say so of a decorator. The stub of a package (``src/trnblas/_types.pyi``) therefore lists,
for every public function of arrays, the signature three times: of tensors, of arrays, and of both, which gives
tensors. Results with fields become generic in the kind of array. All of it follows from the signatures in the source;
`tests/rules/test_stubs.py` fails where they have moved on.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import inspect
import itertools
import subprocess
import sys
import textwrap
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
HEAD = '''"""Types of {library}: written by ``python -m tools.stubs`` from the signatures in the source."""
'''
ARRAY, ARRAYS = "Array", "from trnsci.arrays import Array"
# The module of definitions, which exists for type checkers alone. In the package's own stub, a name that a module of
# the package has too would hide that module from readers of the source.
TYPES = "_types"
# Keywords of SciPy's that a decorator of this module adds, with the argument each stands for.
SYNONYMS = {"trnsolver/krylov/linear_system.py": {"rtol": "tol", "M": "preconditioner"}}
# Made from numbers alone: arrays where the dtype is one of NumPy's.
FREQUENCIES = ("fftfreq", "rfftfreq")
NUMPY_DTYPES = "np.dtype[Any] | type[np.floating[Any]] | type[float]"
PRECONDITIONERS = "trnsolver.krylov.preconditioners"
# Transforms of real data take no planes; those with real results return none.
REAL_OPERANDS, REAL_RESULTS = ("rfft", "ihfft"), ("irfft", "hfft")


class Source:
    """A module as its syntax tree: where its names come from, its aliases and its classes."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = ROOT / "src" / name.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        self.imports: dict[str, tuple[str, str]] = {}
        self.values: dict[str, ast.expr] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: set[str] = set()
        tree = ast.parse(path.read_text())
        conditional = (x for node in tree.body if isinstance(node, ast.If) for x in node.body)
        for node in (*tree.body, *conditional):
            if isinstance(node, ast.ImportFrom):
                self.imports |= {x.asname or x.name: (str(node.module), x.name) for x in node.names}
            elif isinstance(node, ast.Import):
                self.imports |= {x.asname or x.name: (x.name, "") for x in node.names}
            elif isinstance(node, ast.FunctionDef):
                self.functions.add(node.name)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self.values.setdefault(node.target.id, node.value)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.values.setdefault(node.targets[0].id, node.value)


source = functools.cache(Source)


def find(module: str, name: str) -> tuple[str, str]:
    """Return the module that defines a name, and what it is called there."""
    while module.startswith("trn") and name in source(module).imports:
        found = source(module).imports[name]
        if found == (module, name) or not found[1]:
            # a module of the package, or an imported one
            return found
        module, name = found
    shared = source("trnrand.request")
    # what draws have in common is declared there
    if (
        module.startswith("trnrand.")
        and name not in dir(sys.modules[module])
        and name in shared.imports | shared.values
    ):
        return find("trnrand.request", name)
    return module, name


class Stub:
    """The text of one package's stub, as it grows."""

    def __init__(self, package: ModuleType) -> None:
        self.package, self.library = package, package.__name__
        self.imports: set[str] = set()
        self.taken = {*package.__all__}
        self.exports: set[str] = set()
        self.body: list[str] = []
        self.generic = {
            name
            for name in package.__all__
            if inspect.isclass(value := getattr(package, name))
            and value.__module__.startswith(self.library)
            and _is_answer(value)
            and any("Tensor" in str(x) for x in inspect.get_annotations(value).values())
        }

    def write(self) -> tuple[str, str]:
        """Return the definitions, and what the package exports of them and of its modules."""
        for name in sorted(self.package.__all__):
            value = getattr(self.package, name)
            if name in self.generic:
                self.define_here(name, self.write_class(value))
            elif inspect.isfunction(value):
                self.write_function(name, value)
            else:
                self.export(name, value)
        text = "\n\n".join((HEAD.format(library=self.library), "\n".join(sorted(self.imports | {ARRAYS}))))
        if self.generic:
            text += '\n\nA = TypeVar("A", default=Tensor)\n'
        types = f"{text}\n\n" + "\n\n".join(self.body) + "\n"
        return types, HEAD.format(library=self.library) + "\n" + "\n".join(sorted(self.exports)) + "\n"

    def export(self, name: str, value: Any) -> None:
        """Export a name as the package does."""
        home, original = find(self.library, name)
        if inspect.ismodule(value):
            home, original = value.__name__.rpartition(".")[0], name
        if (home, original) == (self.library, name) and not inspect.ismodule(value):
            home, original = value.__module__, value.__name__
        self.exports.add(f"from {home} import {original} as {name}")

    def define_here(self, name: str, *texts: str) -> None:
        """Define a name, and export it."""
        self.body += texts
        self.exports.add(f"from {self.library}.{TYPES} import {name} as {name}")

    def write_function(self, name: str, fn: Any) -> None:
        """Write a function's overloads, or export it where arrays and tensors make no difference."""
        signature, module = inspect.signature(fn), fn.__module__
        parameters = [(p, self.parse(p.annotation)) for p in signature.parameters.values()]
        of_tensors = sum(self.holds_tensors(x, module) for _, x in parameters)
        if name in FREQUENCIES:
            self.imports |= {"from typing import Any, overload", "from torch import Tensor", "import numpy as np"}
            text = self.define(name, fn, "Tensor", "Tensor")
            asked = text.replace("dtype: torch.dtype | None = None", f"dtype: {NUMPY_DTYPES}")
            self.define_here(name, f"@overload\n{text}", f"@overload\n{asked.replace('-> Tensor', '-> Array')}")
            return
        if not of_tensors:
            if find(self.library, name)[0] == self.library:
                self.define_here(name, self.define(name, fn, "Tensor", "Tensor"))
            else:
                self.export(name, fn)
            return
        kinds = [("Tensor", "Tensor"), (ARRAY, ARRAY)]
        if "Transformable" in str(signature):
            if not name.startswith(REAL_OPERANDS):
                kinds.append(("ComplexTensor", "Tensor" if name.startswith(REAL_RESULTS) else "ComplexTensor"))
        elif of_tensors > 1:
            kinds.append((f"Tensor | {ARRAY}", "Tensor"))
        texts = [self.define(name, fn, operand, result) for operand, result in kinds]
        if len({text.rpartition("->")[2] for text in texts}) == 1:
            self.define_here(name, texts[-1])
            return
        self.imports.add("from typing import overload")
        self.define_here(name, *(f"@overload\n{text}" for text in texts))

    def define(self, name: str, fn: Any, operand: str, result: str) -> str:
        """Return a definition with tensors replaced."""
        signature, module, parts, star = inspect.signature(fn), fn.__module__, [], False
        listed = [*signature.parameters.values(), *self.find_synonyms(fn, signature)]
        for p in listed:
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
            star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
            if text == "*size":
                # draws take them one after the other, or all of them by name
                parts.append("*sizes: " + self.rewrite(self.parse(p.annotation), module, operand))
                text, p = "size", p.replace(default=None, kind=p.KEYWORD_ONLY, annotation=f"{p.annotation} | None")
            annotation = "Matrix | None" if p.annotation == "Apply | None" else p.annotation
            text += ": " + self.rewrite(self.parse(annotation), module, operand)
            parts.append(text if p.default is p.empty else f"{text} = {_show(p.default)}")
        # its alias says what a preconditioner is to solvers: a function of tensors
        known = signature.return_annotation == "Apply"
        returned = "Preconditioner" if known else signature.return_annotation
        returns = self.rewrite(self.parse(returned), PRECONDITIONERS if known else module, result)
        return f"def {name}({', '.join(parts)}) -> {returns}:\n    {_first_paragraph(fn)}"

    def find_synonyms(self, fn: Any, signature: inspect.Signature) -> list[inspect.Parameter]:
        """Return the keywords of SciPy's that a function takes as well."""
        found, added = fn, {}
        while found is not None:
            names = next((n for path, n in SYNONYMS.items() if found.__code__.co_filename.endswith(path)), {})
            # the module's own functions are not decorated by it
            if found.__code__.co_name == "call":
                given = {name: signature.parameters.get(own) for name, own in names.items()}
                added |= {name: p.replace(name=name) for name, p in given.items() if p is not None}
            found = getattr(found, "__wrapped__", None)
        return [p for p in added.values() if p.kind is p.KEYWORD_ONLY]

    def write_class(self, cls: type) -> str:
        """Return a class of results, generic in the kind of array."""
        node = source(cls.__module__).classes[cls.__name__]
        self.imports |= {
            "from typing_extensions import TypeVar",
            "from typing import Generic",
            "from torch import Tensor",
        }
        bases = [self.rewrite(base, cls.__module__, "A") for base in node.bases]
        lines = [f"@{self.rewrite(x, cls.__module__, 'A')}" for x in node.decorator_list]
        lines.append(f"class {cls.__name__}({', '.join([*bases, 'Generic[A]'])}):")
        lines.append(f"    {_first_paragraph(cls)}")
        for item in node.body:
            if isinstance(item, ast.AnnAssign):
                value = "" if item.value is None else " = ..."
                lines.append(
                    f"    {ast.unparse(item.target)}: {self.rewrite(item.annotation, cls.__module__, 'A')}{value}"
                )
            elif isinstance(item, ast.FunctionDef) and (item.name[0] != "_" or item.name == "__iter__"):
                lines += [f"    @{ast.unparse(x)}" for x in item.decorator_list]
                own = [item.args.args[0].arg]
                for arg, default in itertools.zip_longest(item.args.args[1:], item.args.defaults):
                    text = f"{arg.arg}: {self.rewrite(arg.annotation, cls.__module__, 'A')}"
                    own.append(text if default is None else f"{text} = ...")
                returns = self.rewrite(item.returns, cls.__module__, "A")
                # what an iteration over fields of different types gives depends on the position
                returns = "Iterator[Any]" if item.name == "__iter__" else returns
                lines.append(f"    def {item.name}({', '.join(own)}) -> {returns}: ...")
        return "\n".join(lines)

    def parse(self, annotation: Any) -> ast.expr:
        """Return an annotation's syntax tree."""
        if annotation is inspect.Parameter.empty:
            return ast.Name("Any")
        return ast.parse(annotation if isinstance(annotation, str) else str(annotation), mode="eval").body

    def expand(self, node: ast.expr, module: str) -> tuple[ast.expr, str] | None:
        """Return what an alias stands for, with the module to read it in, or None."""
        if not isinstance(node, ast.Name):
            return None
        home, name = find(module, node.id)
        if not home.startswith("trn") or name not in source(home).values:
            return None
        value = source(home).values[name]
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            value = ast.parse(value.value, mode="eval").body
        # of type variables, and of aliases of themselves, the name is all
        names = {x.id for x in ast.walk(value) if isinstance(x, ast.Name)}
        names |= {x.value for x in ast.walk(value) if isinstance(x, ast.Constant)}
        return None if isinstance(value, ast.Call) or name in names else (value, home)

    def holds_tensors(self, node: ast.expr, module: str) -> bool:
        """Say whether an annotation speaks of tensors, directly or by an alias."""
        if isinstance(node, ast.Name):
            alias = self.expand(node, module)
            # what a transform over several axes returns
            return node.id in ("Tensor", "R") or (alias is not None and self.holds_tensors(*alias))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.holds_tensors(self.parse(node.value), module)
        if isinstance(node, ast.Attribute):
            return ast.unparse(node) == "torch.Tensor"
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            return False
        return any(self.holds_tensors(x, module) for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr))

    def rewrite(self, node: ast.expr | None, module: str, kind: str) -> str:
        """Return an annotation with tensors of one kind, and import its names."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return "None"
        if isinstance(node, ast.BinOp):
            # Without `ndarray | ndarray`: an alias may name both.
            parts = [self.rewrite(side, module, kind) for side in (node.left, node.right)]
            names = dict.fromkeys(x for part in parts for x in _split_union(part))
            if ARRAY not in kind and kind in names:
                names.pop(ARRAY, None)
            return " | ".join(names)
        if isinstance(node, ast.Subscript):
            if ast.unparse(node.value).endswith("Literal"):
                self.imports.add("from typing import Literal")
                return ast.unparse(node)
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            texts = ", ".join(self.rewrite(x, module, kind) for x in inner)
            return f"{self.rewrite(node.value, module, kind)}[{texts}]"
        if isinstance(node, ast.List):
            return f"[{', '.join(self.rewrite(x, module, kind) for x in node.elts)}]"
        if isinstance(node, ast.Call):
            words = ", ".join(f"{x.arg}={ast.unparse(x.value)}" for x in node.keywords)
            return f"{self.rewrite(node.func, module, kind)}({words})"
        if isinstance(node, ast.Constant):
            return "..." if node.value is ... else self.rewrite(self.parse(node.value), module, kind)
        if isinstance(node, ast.Attribute):
            if ast.unparse(node) == "torch.Tensor":
                return self.rewrite(ast.Name("Tensor"), "trnsci.arrays", kind)
            place, _, last = ast.unparse(node).rpartition(".")
            home, name = find(module, place)
            if place in ("torch", "np"):
                self.imports.add("import torch" if place == "torch" else "import numpy as np")
                return f"{place}.{last}"
            # a module of ours that the source imports, or the full name of a class that is evaluated there
            return self.rewrite_name(ast.Name(last), f"{home}.{name}" if home != module else place, kind)
        assert isinstance(node, ast.Name), ast.dump(node)
        return self.rewrite_name(node, module, kind)

    def rewrite_name(self, node: ast.Name, module: str, kind: str) -> str:
        """Return a name as the stub spells it, and import it."""
        alias = self.expand(node, module)
        if node.id in ("Tensor", "R"):
            if "Tensor" in kind:
                home = "trnfft.complextensor" if kind == "ComplexTensor" else "torch"
                self.imports.add(f"from {home} import {kind.split(' ')[0]}")
            return kind
        home, name = find(module, node.id)
        if node.id == "ComplexTensor" and kind == ARRAY:
            return kind
        if alias is not None and (node.id == "Transformable" or node.id == "Array"):
            return kind if node.id == "Transformable" else ARRAY
        if alias is not None and self.holds_tensors(node, module):
            return self.rewrite(*alias, kind)
        if node.id in dir(builtins):
            return node.id
        if name in self.generic:
            return name if kind == "Tensor" else f"{name}[{kind}]"
        spelling = node.id
        if node.id in self.taken and not inspect.isclass(getattr(self.package, node.id)):
            spelling = f"_{node.id}"
        known = next((x for x in self.imports if x.endswith((f"import {spelling}", f" as {spelling}"))), None)
        line = f"from {home} import {name}" + (f" as {spelling}" if spelling != name else "")
        if known is not None and known != line:
            spelling = f"_{home.rpartition('.')[2]}_{name}"
            line = f"from {home} import {name} as {spelling}"
        self.imports.add(line)
        return spelling


def _is_answer(cls: type) -> bool:
    from trnsci.arrays import Answer

    return issubclass(cls, Answer) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def _split_union(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "|" and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def _first_paragraph(thing: Any) -> str:
    """Return the first paragraph of a docstring, as one: editors show it beside the signature."""
    words = " ".join(inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].split())
    lines = textwrap.wrap(words, 110)
    return _quote("\n    ".join(lines)) if lines else "..."


def _quote(text: str) -> str:
    """Return text between triple quotes, raw where it has backslashes."""
    return f'{"r" * (chr(92) in text)}"""{text}"""'


def _show(value: Any) -> str:
    return repr(value) if isinstance(value, int | str | None) or (type(value) is float and isfinite(value)) else "..."


def write_stubs(library: str) -> dict[Path, str]:
    """Return the stubs of a library by path, formatted."""
    types, exports = Stub(importlib.import_module(library)).write()
    folder, stubs = ROOT / "src" / library, {}
    for path, text in ((folder / f"{TYPES}.pyi", types), (folder / "__init__.pyi", exports)):
        for command in (("check", "--fix-only", "--quiet", "--exit-zero"), ("format", "--quiet")):
            words = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path.relative_to(ROOT)), "-"]
            text = subprocess.run(words, input=text, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        stubs[path] = text
    return stubs


def main() -> int:
    """Write the stubs, or name those that differ from the signatures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a stub differs")
    check, stale = parser.parse_args().check, []
    for library in LIBRARIES:
        for path, text in write_stubs(library).items():
            if check and (not path.exists() or path.read_text() != text):
                stale.append(str(path.relative_to(ROOT)))
            elif not check:
                path.write_text(text)
    if stale:
        print(f"{', '.join(stale)}: signatures have changed. Write again: python -m tools.stubs")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
