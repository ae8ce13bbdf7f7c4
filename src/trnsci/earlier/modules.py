"""Stand the earlier suite's modules in for ours: its names first, ours behind them."""

import importlib
import pkgutil
import sys
from types import FunctionType, ModuleType
from typing import Any

import trnsci
from trnsci import BackendUnavailable
from trnsci.earlier.calls import raise_as_torch

# Packages whose modules must hold ours before the names of the libraries change.
PACKAGES = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor", "trnchem")
# One for each library: its names in `MODULES`, and in `CLASSES` what classes of ours lack.
ROOMS = ("blas", "fft", "rand", "solver", "sparse", "tensor")
# Modules of a library that programs import beside it: each has all names of the library.
PARTS = {
    "trnblas": "level1 level2 level3",
    "trnfft": "fft_core plan stft",
    "trnrand": "program",
    "trnsolver": "eigen factor iterative",
    "trnsparse": "formats ops iterative screening",
    "trntensor": "decompose",
}
# Imported when they are called for, by submodule alone.
LATER = ("cuda", "__main__")


def install() -> None:
    """Put the earlier modules into ``sys.modules``; a second call changes nothing."""
    if isinstance(sys.modules.get("trnblas"), _Earlier):
        return
    for package in PACKAGES:
        _import_all(package)
    spaces: dict[str, dict[str, Any]] = {}
    for name in ROOMS:
        room = importlib.import_module(f"trnsci.earlier.{name}")
        for path, names in room.MODULES.items():
            spaces[path] = {
                each: raise_as_torch(value) if isinstance(value, FunctionType) else value
                for each, value in names.items()
            }
        for kind, attributes in getattr(room, "CLASSES", {}).items():
            for attribute, value in attributes.items():
                setattr(kind, attribute, value)
    for library, parts in PARTS.items():
        for path, names in _backend_names(library).items():
            spaces[path] = names | spaces.get(path, {})
        spaces[f"{library}.nki.dispatch"] |= spaces[f"{library}.nki"]
        spaces |= {f"{library}.{part}": spaces[library] | spaces.get(f"{library}.{part}", {}) for part in parts.split()}
    # parents first: a submodule becomes an attribute of its parent
    for path in sorted(spaces):
        module = _Earlier(path, spaces[path])
        parent, _, name = path.rpartition(".")
        # a function may share its name with a module, and is what the parent shows
        if parent and name not in spaces.get(parent, {}):
            setattr(sys.modules[parent], name, module)
        sys.modules[path] = module


def _import_all(package: str) -> None:
    """Import every module of a package, so that each holds the functions it means."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not set(module.name.split(".")) & set(LATER):
            importlib.import_module(module.name)


def _backend_names(library: str) -> dict[str, dict[str, Any]]:
    """Return the names every earlier library had for its backend, by the paths of their modules."""
    ours = sys.modules[library]
    set_ours, get_ours = ours.set_backend, ours.get_backend

    def set_backend(backend: str) -> None:
        """Set the backend of this library: ``auto``, ``pytorch`` or ``nki``; the last needs AWS's package."""
        if backend == "nki" and not trnsci.HAS_NKI:
            how = "Write set_backend('simulator') to run kernels here"
            raise BackendUnavailable("nki", "AWS's nki is not installed", how)
        set_ours(backend)

    names = {"HAS_NKI": trnsci.HAS_NKI, "set_backend": set_backend, "get_backend": get_ours}
    version = {"__version__": trnsci.__version__}
    return {library: names | version, f"{library}.nki": names, f"{library}.nki.dispatch": names}


class _Earlier(ModuleType):
    """A module with the earlier names; any other attribute is that of the module of ours at this path."""

    def __init__(self, path: str, names: dict[str, Any]) -> None:
        real = sys.modules.get(path)
        super().__init__(path, getattr(real, "__doc__", None))
        for special in ("__path__", "__file__", "__spec__", "__loader__", "__package__"):
            if hasattr(real, special):
                setattr(self, special, getattr(real, special))
        self.__dict__["_ours"] = real
        self.__dict__.update(names)
        public = {name for name in names if not name.startswith("_")}
        self.__dict__["__all__"] = sorted(public.union(getattr(real, "__all__", ())))

    def __getattr__(self, name: str) -> Any:
        real = self.__dict__["_ours"]
        if real is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        return getattr(real, name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(self.__dict__["_ours"])} - {"_ours"})
