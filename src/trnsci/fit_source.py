"""A name that a source uses, as the readers of sources report it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

# sources that are only read, by grammar
CUDA = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".hip")
FORTRAN = (".f90", ".cuf", ".f", ".f03", ".f08")
SOURCES = CUDA + FORTRAN


class Use(NamedTuple):
    """One use of a name: where, with which arguments, and the sizes among them that are constants.

    ``kernel`` marks the definition of a kernel, ``launch`` a call by ``<<<>>>``; ``own`` says that the name is declared
    or defined there, so that it is no library's.
    """

    name: str
    where: str
    arguments: tuple[str, ...] = ()
    constants: Mapping[int, int] = {}
    kernel: bool = False
    launch: bool = False
    own: Literal["", "declared", "defined"] = ""
