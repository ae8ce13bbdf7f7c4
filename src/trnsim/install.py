"""``import nki``, answered by the simulator when AWS's package is not there."""

import functools
import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trnsim._lint.rules import RULES
from trnsim.refusals import refuse

VERSION = "0.7.0"
_replaced: dict[str, ModuleType | None] = {}


def install(*, force: bool = False) -> ModuleType:
    """Make ``import nki`` give the simulator, unless AWS's package is installed; calling again changes nothing.

    The ``nki`` on PyPI is a placeholder that fails to import, and counts as absent.

    Args:
        force: stand in even for AWS's package, until `uninstall`.

    Returns:
        The module ``import nki`` gives from now on.
    """
    loaded = sys.modules.get("nki")
    if loaded is not None and is_ours(loaded):
        return loaded
    if not force:
        theirs = _aws()
        if theirs is not None:
            return theirs
    for name in [n for n in sys.modules if n == "nki" or n.startswith("nki.")]:
        _replaced[name] = sys.modules.pop(name)
    for name, module in modules().items():
        _replaced.setdefault(name, None)
        sys.modules[name] = module
    if _beta not in sys.meta_path:
        # the last to be asked: a real neuronxcc is found before
        sys.meta_path.append(_beta)
    return sys.modules["nki"]


def uninstall() -> None:
    """Undo `install`: what ``import nki`` meant before, it means again."""
    for name, before in _replaced.items():
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
    _replaced.clear()
    if _beta in sys.meta_path:
        sys.meta_path.remove(_beta)


class _Beta(MetaPathFinder, Loader):
    """Answers imports of the namespace NKI had in its beta, which is not installed.

    ``neuronxcc.nki.typing`` holds annotations alone, which files of today still import: it is ``nki.typing``. The rest
    is refused with what to import instead.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "neuronxcc":
            return None
        frame: Any = sys._getframe(1)
        wanted = name
        while frame is not None and "importlib" in frame.f_code.co_filename:
            if frame.f_globals.get("__name__") == "importlib.util":
                # asked whether it is there, not imported
                return None
            wanted = frame.f_locals.get("name", wanted)
            frame = frame.f_back
        if wanted == _PARENT and frame is not None and "typing" in frame.f_code.co_names:
            # the package was named, and typing is imported from it
            wanted = _TYPING
        if wanted == _TYPING and f"{_TYPING}.".startswith(f"{name}."):
            return ModuleSpec(name, self, is_package=name != _TYPING)
        rule = RULES["legacy-namespace"]
        raise ModuleNotFoundError(f"No module named {name!r}: {rule.reason}. Write: {rule.rewrite}.", name=name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        _replaced.setdefault(spec.name, None)
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == _TYPING:
            public = {name: value for name, value in vars(modules()["nki.typing"]).items() if name[0] != "_"}
            vars(module).update(public)


_PARENT = "neuronxcc.nki"
_TYPING = f"{_PARENT}.typing"
_beta = _Beta()


def is_ours(module: ModuleType) -> bool:
    """Return whether it is the simulator's ``nki``."""
    return module is _tree.get("nki")


def _aws() -> ModuleType | None:
    try:
        module = importlib.import_module("nki")
    except ImportError:
        return None
    return module if hasattr(module, "jit") else None


_tree: dict[str, ModuleType] = {}


def modules() -> dict[str, ModuleType]:
    """Return every module of ``nki`` by name, made on first use."""
    if not _tree:
        _grow()
    return _tree


def _module(name: str, text: str, **contents: Any) -> ModuleType:
    module = ModuleType(name, text)
    module.__dict__.update(contents)
    return _adopt_module(name, module)


def _adopt_module(name: str, module: ModuleType) -> ModuleType:
    _tree[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(_tree[parent], last, module)
    return module


def _grow() -> None:
    from trnsim import collectives, isa, kernel, language, typing as annotations
    from trnsim.isa import enums
    from trnsim.tensors import dtypes

    top = _module(
        "nki",
        "The Neuron Kernel Interface, as trnsim runs it.",
        __version__=VERSION,
        __path__=[],
        jit=kernel.jit,
        simulate=kernel.simulate,
        simulate_kernel=simulate_kernel,
        Kernel=kernel.Kernel,
        tensor=annotations.tensor,
        benchmark=Absent("nki.benchmark", "trnsim.profile(kernel)(…) predicts the time on trn1, trn2 and trn3"),
        profile=Absent("nki.profile", "trnsim.profile(kernel)(…) predicts the time and writes a timeline"),
        baremetal=Absent("nki.baremetal", "call the kernel: it runs on the simulator"),
    )
    _adopt_module("nki.language", language)
    _adopt_module("nki.isa", isa)
    _adopt_module("nki.collectives", collectives)
    _adopt_module("nki.typing", annotations)
    names = {n: v for n, v in vars(enums).items() if isinstance(v, type) and v.__module__ == enums.__name__}
    constants = _module("nki.isa.constants", "Enumerations of nki.isa.", **names)
    constants.__dict__.update({n: getattr(isa, n) for n in vars(isa) if isinstance(getattr(isa, n), type)})
    _module("nki.dtype", "The data types of NKI.", **dtypes.NAMES)
    _module("nki.simulator", "The simulator.", simulate=kernel.simulate, simulate_kernel=simulate_kernel)
    _module("nki.meta", "Descriptions of tensors.", tensor=annotations.tensor)
    _module(
        "nki.experimental",
        "Names that moved into nki.language.",
        while_loop=language.while_loop,
        fori_loop=language.fori_loop,
    )
    _module("nki.compiler", "What stands in for the NKI compiler.", __path__=[])
    _module("nki.compiler.kernel_builder", "Building a kernel from a function.", compile_kernel=compile_kernel)
    _module("nki.framework", "Integrations with frameworks.", __path__=[])
    for name, module in _tree.items():
        if name not in ("nki.language", "nki.isa", "nki.collectives", "nki.typing"):
            module.__dict__["__getattr__"] = functools.partial(_refuse_name, name)
    top.__dict__["__all__"] = ["jit", "simulate"]


def _refuse_name(module: str, name: str) -> Any:
    if not name.startswith("__"):
        raise AttributeError(f"{module} has no {name!r} in trnsim, which speaks NKI 0.3 to 0.7")
    raise AttributeError(name)


class Absent:
    """A decorator that measures a device.

    Here it can be imported and applied; calling what it made says what to use instead.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __call__(self, kernel: Any = None, **options: Any) -> Any:
        if kernel is None:
            return self
        if not callable(kernel):
            self._refuse()
        return functools.wraps(getattr(kernel, "function", kernel))(lambda *args, **kwargs: self._refuse())

    def _refuse(self) -> None:
        raise refuse("no-device", got=self.name, hint=self.instead)

    def __repr__(self) -> str:
        return f"<{self.name}: not on the simulator; {self.instead}>"


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run ``kernel`` on the simulator (the older name; `simulate` is the newer)."""
    from trnsim.kernel import simulate

    return simulate(kernel)(*args, **kwargs)


def compile_kernel(
    kernel: Any,
    inputs: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
    compile_opts: Any = None,
    **hyperparameters: Any,
) -> dict[str, Any]:
    """Run a kernel that takes its inputs and outputs by name; the output arrays are filled in place and returned.

    ``compile_opts`` speaks to AWS's compiler; here only its ``target``, when it has one, picks the generation.
    """
    from trnsim.kernel import simulate

    outputs = dict(outputs or {})
    target = getattr(compile_opts, "target", None)
    result = simulate(kernel, target=target)(**(inputs or {}), **outputs, **hyperparameters)
    return outputs if result is None else {**outputs, "return": result}
