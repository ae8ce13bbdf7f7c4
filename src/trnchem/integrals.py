"""Three-index integrals from PySCF, transformed to molecular orbitals and fitted: the tensor B."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import trnblas
import trnsparse
from trnchem.molecules import pyscf, unknown_basis
from trnchem.orbitals import Orbitals
from trnchem.screening import Screen
from trnsci import ArgumentError, check
from trnsci.precision import Precision

Slab = tuple[int, int, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Where three-index integrals come from, in slabs of auxiliary functions.

    Attributes:
        molecule: of PySCF.
        auxiliary: the auxiliary basis as a molecule of PySCF.
        fitting: PySCF's object that holds integrals fitted already, or ``None``.
        naux: functions of the auxiliary basis, or fitted vectors.
        widest: functions of the largest auxiliary shell: no slab can be thinner.
    """

    molecule: Any
    auxiliary: Any
    fitting: Any
    naux: int
    widest: int

    @property
    def is_fitted(self) -> bool:
        """Whether the mean field holds the integrals fitted already."""
        return self.fitting is not None

    def metric(self) -> Tensor:
        """Return [naux, naux], the integrals (P|Q)."""
        return torch.from_numpy(np.ascontiguousarray(self.auxiliary.intor("int2c2e")))

    def columns(self, width: int) -> list[tuple[int, int]]:
        """Return first and last auxiliary function of every slab of `slabs`."""
        if self.is_fitted:
            return [(first, min(self.naux, first + width)) for first in range(0, self.naux, width)]
        starts = self.auxiliary.ao_loc_nr()
        return [(int(starts[begin]), int(starts[end])) for begin, end in shell_ranges(starts, width)]

    def slabs(self, width: int, turn: int = 0, turns: int = 1) -> Iterator[Slab]:
        """Yield first, last and packed integrals [last - first, nao (nao + 1) / 2] of at most ``width`` functions.

        The next slab may overwrite the one before.

        Args:
            width: of a slab.
            turn: the first slab to yield, one of every ``turns``.
            turns: how many take turns.
        """
        if self.is_fitted:
            for index, part in enumerate(self.fitting.loop(blksize=width)):
                if index % turns == turn:
                    first = index * width
                    yield first, first + len(part), torch.from_numpy(np.ascontiguousarray(part))
            return
        df = pyscf().df
        starts = self.auxiliary.ao_loc_nr()
        shells, nao = self.molecule.nbas, self.molecule.nao_nr()
        memory = np.empty(max(width, self.widest) * nao * (nao + 1) // 2)
        for begin, end in list(shell_ranges(starts, width))[turn::turns]:
            where = (0, shells, 0, shells, begin, end)
            packed = df.incore.aux_e2(
                self.molecule, self.auxiliary, "int3c2e", aosym="s2ij", shls_slice=where, out=memory
            )  # [nao (nao + 1) / 2, w], columns first
            yield int(starts[begin]), int(starts[end]), torch.from_numpy(packed.T)


def source(field: Any, auxbasis: Any, reuse: bool) -> Source:
    """Choose auxiliary basis and integrals for a mean field.

    Args:
        field: a mean field.
        auxbasis: a name or PySCF's dictionary; ``None`` is the mean field's own, or without density fitting the one
            for MP2 in this orbital basis.
        reuse: take fitted integrals the mean field holds for this auxiliary basis.
    """
    df, exceptions = pyscf().df, pyscf().lib.exceptions
    fitting: Any = vars(field).get("with_df")
    own = fitting is not None and auxbasis is None
    chosen = fitting.auxbasis if own else auxbasis
    try:
        if own and fitting.auxmol is not None:
            auxiliary = fitting.auxmol
        elif chosen is None:
            auxiliary = df.addons.make_auxmol(field.mol, df.make_auxbasis(field.mol, mp2fit=True))
        else:
            auxiliary = df.addons.make_auxmol(field.mol, chosen)
    except exceptions.BasisNotFoundError as error:
        raise unknown_basis("auxbasis", chosen, error) from None
    except (KeyError, TypeError, AssertionError, RuntimeError) as error:
        expected, hint = "a name or a dictionary PySCF takes", f"PySCF says: {error}"
        raise ArgumentError("dfmp2", "auxbasis", chosen, expected, hint=hint) from None
    check.refuse(auxiliary.nao == 0, "dfmp2", "auxbasis", chosen, "functions to fit with")
    held = own and reuse and getattr(fitting, "_cderi", None) is not None
    shells = np.diff(auxiliary.ao_loc_nr())
    return Source(
        molecule=field.mol,
        auxiliary=auxiliary,
        fitting=fitting if held else None,
        naux=int(fitting.get_naoaux() if held else shells.sum()),
        widest=1 if held else int(shells.max()),
    )


def shell_ranges(starts: Any, width: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive shells with at most ``width`` functions, or one shell that alone has more."""
    begin, last = 0, len(starts) - 1
    for shell in range(last):
        if starts[shell + 1] - starts[begin] > width and shell > begin:
            yield begin, shell
            begin = shell
    if begin < last:
        yield begin, last


class Transformer:
    """Transforms slabs of packed integrals to molecular orbitals, two products each, in memory it keeps.

    Args:
        orbitals: with coefficients in the dtype to compute in, where the products run.
        screened: the pairs of orbitals to keep; the half transformation is a sparse product when they are few.
        precision: of the products.
        put: moves an operand to where the products run.
        width: functions of the widest slab.
    """

    def __init__(
        self,
        orbitals: Orbitals,
        screened: Screen | None,
        precision: Precision,
        put: Callable[[Tensor], Tensor],
        width: int,
    ) -> None:
        self._orbitals, self._precision, self._put = orbitals, precision, put
        self._screen = screened if screened is not None and screened.sparse else None
        nao = len(orbitals.C_occ)
        # fresh memory for every slab would cost more than filling it
        dtype = orbitals.C_occ.dtype
        self._square = torch.empty((0 if self._screen is not None else width, nao, nao), dtype=dtype, device="cpu")

    def __call__(self, packed: Tensor) -> Tensor:
        """Transform [w, nao (nao + 1) / 2] to [nocc, nvir, w]: occupied orbitals with virtual ones of their spin."""
        (nao, nocc), width = self._orbitals.C_occ.shape, packed.shape[0]
        C_vir, up = self._orbitals.C_vir, self._orbitals.spins.up
        if self._screen is not None:
            half = trnsparse.spmm(self._screen.slab(packed), self._orbitals.C_occ)  # [w nao, nocc]
            half = half.mT.contiguous()
        else:
            square = self._put(self._unpack(packed)).view(width * nao, nao)
            half = trnblas.gemm(
                1.0, self._orbitals.C_occ, square, trans_a=True, trans_b=True, precision=self._precision
            )  # [nocc, w nao]
        half = half.reshape(nocc * width, nao)
        parts = [half] if up is None else half.split([up * width, (nocc - up) * width])
        both = [
            trnblas.gemm(1.0, part, C_vir[k], precision=self._precision) for k, part in enumerate(parts) if len(part)
        ]
        return (both[0] if len(both) == 1 else torch.cat(both)).view(nocc, width, -1).mT

    def _unpack(self, packed: Tensor) -> Tensor:
        """Unpack symmetric [w, nao, nao] from lower triangles."""
        square = self._square[: len(packed)]
        if packed.dtype == torch.float64:
            pyscf().lib.unpack_tril(packed.numpy(), out=square.numpy())
        else:
            places = _places(square.shape[1])
            torch.index_select(packed, 1, places, out=square.view(len(packed), len(places)))
        return square


@functools.lru_cache(maxsize=1)
def _places(nao: int) -> Tensor:
    """Return [nao nao], where in the packed triangle each element of the square is."""
    position = torch.arange(nao, device="cpu")
    high = torch.maximum(position[:, None], position)
    return (high * (high + 1) // 2 + torch.minimum(position[:, None], position)).flatten()
