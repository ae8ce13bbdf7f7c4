"""``a @ b`` of a program's own modules as a call that `trnsci.drop_in` sees.

An operator of NumPy arrays calls NumPy's C code directly. While `rewriting_products` is in force, modules below given
folders are compiled with ``a @ b`` and ``a @= b`` as function calls; every other module stays as it is.
"""

import ast
import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

from trnsci.analogs.replacing import Replacement
from trnsci.errors import ArgumentError

_NAME = "__trnsci_multiply__"
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_SUITE = Path(__file__).resolve().parent
_IN_PLACE = "__trnsci_multiply_in_place__"


def multiply(a: Any, b: Any) -> Any:
    """Return ``a @ b``; of NumPy's matrices and vectors as `numpy.dot` is replaced, where that takes the call."""
    if type(a) is np.ndarray and type(b) is np.ndarray and a.ndim in (1, 2) and b.ndim in (1, 2):
        product = _replace_product(a, b)
        return a @ b if product is NotImplemented else product
    return a @ b


def multiply_in_place(a: Any, b: Any) -> Any:
    """Return the result of ``a @= b``, which writes to an array."""
    fits = type(a) is np.ndarray and type(b) is np.ndarray and (a.ndim, b.ndim) == (2, 2) and b.shape[0] == b.shape[1]
    if fits and np.can_cast(np.result_type(a, b), a.dtype, "same_kind"):
        product = _replace_product(a, b)
        if product is not NotImplemented:
            a[...] = product
            return a
    a @= b
    return a


def _replace_product(a: Any, b: Any) -> Any:
    """Return what stands for `numpy.dot` makes of a product; ``NotImplemented`` leaves it to the operator."""
    function: Any = np.dot
    if hasattr(function, "attempt"):
        return function.attempt((a, b), {})
    watched = isinstance(function, Replacement) and a.shape[-1] == b.shape[0]
    return function(a, b) if watched else NotImplemented


class _Products(ast.NodeTransformer):
    """Makes products calls of `multiply`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call(node, _NAME, node.left, node.right) if isinstance(node.op, ast.MatMult) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        # other targets would be evaluated twice
        if not isinstance(node.op, ast.MatMult) or not isinstance(node.target, ast.Name):
            return node
        value = _call(node, _IN_PLACE, ast.copy_location(ast.Name(node.target.id, ast.Load()), node), node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _call(at: Any, name: str, *args: ast.expr) -> ast.Call:
    function = ast.copy_location(ast.Name(name, ast.Load()), at)
    return ast.copy_location(ast.Call(function, list(args), []), at)


def compile_products(source: bytes | str, path: str) -> types.CodeType:
    """Compile a module with its products as calls."""
    tree = ast.fix_missing_locations(_Products().visit(ast.parse(source, path)))
    return compile(tree, path, "exec", dont_inherit=True)


class _Loader(SourceFileLoader):
    """Compiles a module anew, and keeps what it compiles to itself."""

    def path_stats(self, path: Any) -> Any:
        raise OSError(f"{path} is compiled for one process")

    def source_to_code(self, data: Any, path: Any, **options: Any) -> types.CodeType:  # type: ignore[override]
        return compile_products(data, str(path))

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(_functions(module.__name__))
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds modules of a folder, but not what is installed below it, and of packages."""

    def __init__(self, folder: Path, packages: Sequence[Path]) -> None:
        self.folder = folder
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        file = Path(spec.loader.path).resolve()
        own = file.is_relative_to(self.folder) and not _INSTALLED.intersection(file.parts)
        if file.is_relative_to(_SUITE) or not (own or any(map(file.is_relative_to, self.packages))):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _functions(module: str) -> dict[str, Any]:
    """Return the functions as if a module had them: calls from the suite's own are not replaced."""
    names = {**globals(), "__name__": module}
    for function in (_replace_product, multiply, multiply_in_place):
        names[function.__name__] = types.FunctionType(function.__code__, names, function.__name__)
    return {_NAME: names["multiply"], _IN_PLACE: names["multiply_in_place"]}


@contextmanager
def rewriting_products(folder: Path, also: Sequence[str] = ()) -> Iterator[None]:
    """Compile modules below a folder, and of some packages, with products as calls, as long as the block lasts.

    Raises:
        ArgumentError: there is no such package, or it is loaded already.
    """
    packages = []
    for name in also:
        if name in sys.modules:
            raise ArgumentError("run", "--also", name, "a package that is not loaded before the program runs")
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ArgumentError("run", "--also", name, "an installed package or module")
        origin = Path(spec.origin).resolve()
        packages.append(origin.parent if origin.name == "__init__.py" else origin)
    finder = _Finder(folder.resolve(), packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def run_script(path: Path) -> None:
    """Run a file as ``__main__`` with its products as calls."""
    main = types.ModuleType("__main__")
    vars(main).update({"__file__": str(path), "__builtins__": __builtins__, **_functions("__main__")})
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        exec(compile_products(path.read_bytes(), str(path)), vars(main))
    finally:
        sys.modules["__main__"] = before
