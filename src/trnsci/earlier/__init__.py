"""The way over from the earlier public suite of these libraries.

``install()`` gives its names, module paths, signatures and defaults to the program that follows; without it, a name
that is written otherwise here is an error with the spelling. `trnsci.earlier.table` lists every name, and
docs/how-to/from-the-earlier-suite.md is written from it.
"""

import sys
from typing import Any

from trnsci.earlier.table import ROWS

__all__ = ["install", "spell"]


def install() -> None:
    """Give programs of the earlier suite its names, module paths, signatures and defaults, in this process.

    ``import trnblas`` and the others return the earlier spelling from here on. Modules imported before keep ours, and
    so does the suite itself.

    Example:
        >>> import trnsci.earlier
        >>> trnsci.earlier.install()  # doctest: +SKIP
    """
    from trnsci.earlier import modules

    modules.install()


class _Paths:
    """The last finder of modules: raises for a module path of the earlier suite, with the spelling here."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise for an earlier module path, and find nothing else."""
        parent, _, last = name.rpartition(".")
        row = ROWS.get(parent, {}).get(last)
        if row is not None and row.here:
            text = f"No module named {name!r}: write {row.here}, or call trnsci.earlier.install() first"
            raise ModuleNotFoundError(text, name=name)


sys.meta_path.append(_Paths)


def spell(module: str) -> None:
    """Let a library's module answer an earlier name with an error that gives the spelling here."""
    spellings = {name: row.here for name, row in ROWS.get(module, {}).items() if row.here}
    for name in spellings:
        # a submodule of this name is imported by its path
        vars(sys.modules[module]).pop(name, None)

    def find(name: str) -> Any:
        here = spellings.get(name, "")
        if not here and name.startswith("nki_"):
            here = f"{module}.{name.removeprefix('nki_')}, within trnsci.backend('nki') to have its kernel or an error"
        more = f": write {here}, or call trnsci.earlier.install() first" if here else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{more}", name=name)

    vars(sys.modules[module])["__getattr__"] = find
