"""Methods of PySCF that a program is watched for, and what of their work has a counterpart here.

PySCF is not imported for it: a program that imports one of these modules has its classes watched from then on.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from trnsci.analogs.analog import Analog
from trnsci.specs import freeze

# gets an object, the name of its method, the method, and the arguments of a call
Observer = Callable[[Any, str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

# Modules, their classes, and the methods that take time; `kernel` and `run` of a mean field call `scf`.
METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    "pyscf.scf.hf": {"SCF": ("scf",)},
    "pyscf.mp.mp2": {"MP2Base": ("kernel",), "RMP2": ("kernel",)},
    "pyscf.mp.dfmp2": {"DFRMP2": ("kernel", "ao2mo")},
    "pyscf.mp.dfmp2_native": {"DFRMP2": ("kernel", "calculate_integrals_")},
}
# Why a method stays where it is.
STAYS = {
    "scf": "Hartree-Fock stays PySCF's, on the host; trnchem.dfmp2 takes its mean field",
    "ao2mo": "integrals stay PySCF's, on the host",
    "calculate_integrals_": "integrals stay PySCF's, on the host",
    "kernel": "trnchem.DFMP2 does it density fitted; its sizes for a prediction are not known here",
}


# The energy of pairs, from fitted integrals: what `trnchem.dfmp2` does on the device.
ENERGY = Analog("trnchem.dfmp2", lambda *x: (x, {}), choose=lambda *_: "trntensor.mp2_energy", runs=False)


def operands(method: str, solver: Any) -> tuple[Any, ...]:
    """Return specifications of what `ENERGY` takes from a finished calculation; none where sizes are unknown."""
    auxiliary = getattr(getattr(solver, "with_df", solver), "auxmol", None)
    if method != "kernel" or auxiliary is None:
        return ()
    occupied = solver.nocc
    if not hasattr(occupied, "__index__"):
        # one number for each spin
        return ()
    sizes = int(occupied), int(solver.nmo) - int(occupied), int(auxiliary.nao_nr())
    shapes = (sizes, sizes[:1], sizes[1:2])
    return freeze(tuple(torch.empty(x, dtype=torch.float64, device="meta") for x in shapes))


@contextmanager
def methods_observed(observer: Observer) -> Iterator[None]:
    """Let an observer make the calls of these methods, in modules that are there and in those imported later."""
    finder = _Finder(observer)
    sys.meta_path.insert(0, finder)
    for name in METHODS.keys() & sys.modules.keys():
        finder.replace(sys.modules[name])
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        finder.restore()


class _Finder:
    """Finds modules as others do, and replaces methods when they have been executed."""

    def __init__(self, observer: Observer) -> None:
        self._observer: Observer | None = observer
        self._replaced: list[tuple[type, str, Any]] = []
        self._finding: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in METHODS or name in self._finding:
            return None
        self._finding.add(name)
        spec = importlib.util.find_spec(name)
        self._finding.discard(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                self.replace(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec

    def replace(self, module: ModuleType) -> None:
        for kind, names in METHODS[module.__name__].items():
            methods = vars(getattr(module, kind, object))
            for name in names:
                if name in methods and not hasattr(methods[name], "watched"):
                    self._replaced.append((getattr(module, kind), name, methods[name]))
                    setattr(getattr(module, kind), name, self._wrapped(name, methods[name]))

    def _wrapped(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(solver: Any, *args: Any, **kwargs: Any) -> Any:
            # a class made in the meantime may have kept this one
            if self._observer is None:
                return method(solver, *args, **kwargs)
            return self._observer(solver, name, method, args, kwargs)

        call.watched = True  # type: ignore[attr-defined]
        return call

    def restore(self) -> None:
        self._observer = None
        for kind, name, method in self._replaced:
            setattr(kind, name, method)
