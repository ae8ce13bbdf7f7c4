"""Coulomb and exchange from fitted integrals: PySCF's ``with_df`` with products of the suite."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

import trnblas
import trnsparse
from trnchem.budget import SLAB
from trnchem.integrals import Source
from trnchem.metric import Metric, fit_matrix
from trnchem.molecules import pyscf
from trnchem.references import System
from trnchem.screening import Screen, equal_pairs, screened
from trnsci import ArgumentError, CapacityError, from_device
from trnsci.backends import inside


def density_fit(mf: Any, auxbasis: Any = None, *, screening: float = 1e-12) -> Any:
    """Return a mean field whose Coulomb and exchange matrices come from products of the suite.

    It is what ``mf.density_fit(auxbasis)`` returns, with another ``with_df``: the three-index tensor is fitted by
    `trnsolver` and `trnblas`, ``mf.kernel()`` builds J and K from it with `trnblas` and, where few pairs of orbitals
    survive, `trnsparse`; and `dfmp2` takes the same tensor. A ledger around all of it shows the whole calculation.

    Args:
        mf: a mean field of PySCF of a molecule, with or without density fitting; an xyz file or a built-in name, for
            Hartree-Fock in cc-pVDZ.
        auxbasis: as in PySCF; unless given the mean field's own, or PySCF's choice.
        screening: drop pairs of orbitals whose fitted integrals cannot exceed this, where so many are that a sparse
            product pays.

    Raises:
        ArgumentError: not a mean field of a molecule.
        CapacityError: the tensor does not fit into ``max_memory``, while it is built.

    Example:
        >>> from pyscf import gto, scf
        >>> molecule = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)
        >>> mf = density_fit(scf.RHF(molecule)).run()
        >>> print(f"{mf.e_tot:.6f} {dfmp2(mf).metric}")
        -99.983431 fitted already, by the mean field; 93 of 93 vectors kept
    """
    if isinstance(mf, str | Path):
        mf = System().unsolved(System().molecule(mf))
    if not isinstance(mf, pyscf().scf.hf.SCF) or hasattr(mf, "cell"):
        raise ArgumentError(op="density_fit", argument="mf", got=type(mf), expected="a mean field of a molecule")
    own = getattr(mf, "with_df", None)
    made = mf.density_fit(auxbasis=auxbasis) if own is None or auxbasis is not None else mf.copy()
    made.with_df = _class()(made.mol, made.with_df.auxbasis)
    made.with_df.screening, made.with_df.max_memory = screening, mf.max_memory
    return made


@functools.cache
def _class() -> Any:
    """The object, once PySCF is there."""
    return type("Fitting", (_Fitting, pyscf().df.DF), {"__doc__": _Fitting.__doc__})


class _Fitting:
    """PySCF's density fitting; ``metric`` says how the metric was inverted, ``screen`` which pairs are kept."""

    _keys: ClassVar[set[str]] = {"screening", "metric", "screen"}
    screening = 1e-12
    metric: Metric | None = None
    screen: Screen | None = None

    @inside("trnchem")
    def build(self: Any) -> Any:
        """Compute the tensor [vectors, nao (nao + 1) / 2], fitted slab by slab."""
        if self._cderi is not None:
            return self
        df, used = pyscf().df, pyscf().lib.current_memory()[0]
        self.auxmol = df.addons.make_auxmol(self.mol, self.auxbasis)
        shells, nao = np.diff(self.auxmol.ao_loc_nr()), self.mol.nao_nr()
        naux, widest, pairs = int(shells.sum()), int(shells.max()), nao * (nao + 1) // 2
        width = max(SLAB, widest)
        needed = 8 * (2 * naux * pairs + 4 * naux**2 + 2 * width * pairs)
        available = int(1e6 * (self.max_memory - used))
        if needed > available:
            raise CapacityError(
                where="host memory for fitted integrals",
                required=needed,
                available=available,
                hint="Raise mf.max_memory, or take PySCF's mf.density_fit(), which keeps them on disk for dfmp2 too",
            )
        source = Source(molecule=self.mol, auxiliary=self.auxmol, fitting=None, naux=naux, widest=widest)
        X, self.metric = fit_matrix(source.metric())
        fitted = torch.zeros((X.shape[1], pairs), dtype=torch.float64)
        for first, last, packed in source.slabs(width):
            fitted += from_device(trnblas.gemm(1.0, X[first:last], packed, trans_a=True))
        # the sum of squares of fitted integrals of a pair is at most (mn|mn)
        self.screen = screened(equal_pairs(self.mol), 1.0, self.screening)
        self._cderi = fitted.numpy()
        return self

    def reset(self: Any, mol: Any = None) -> Any:
        """Forget what belongs to another molecule."""
        self.metric = self.screen = None
        return super().reset(mol)  # type: ignore[misc]

    @inside("trnchem")
    def get_jk(
        self: Any,
        dm: Any,
        hermi: int = 1,
        with_j: bool = True,
        with_k: bool = True,
        direct_scf_tol: float = 1e-13,
        omega: float | None = None,
    ) -> tuple[Any, Any]:
        """Coulomb and exchange matrices of one or several densities."""
        densities = np.asarray(dm)
        if omega is not None or densities.dtype.kind == "c":
            return super().get_jk(dm, hermi, with_j, with_k, direct_scf_tol, omega)  # type: ignore[misc]
        self.build()
        shape, nao = densities.shape, densities.shape[-1]
        stacked = torch.from_numpy(np.ascontiguousarray(densities.reshape(-1, nao, nao), dtype=np.float64))
        B = torch.from_numpy(self._cderi)
        vj = self._coulomb(B, stacked).numpy().reshape(shape) if with_j else None
        if not with_k:
            return vj, None
        factors = _factors(dm, len(stacked))
        vk = [self._exchange(B, D, None if factors is None else factors[k]) for k, D in enumerate(stacked)]
        return vj, torch.stack(vk).numpy().reshape(shape)

    def _coulomb(self: Any, B: Tensor, densities: Tensor) -> Tensor:
        lib = pyscf().lib
        nao = densities.shape[-1]
        both = densities + densities.mT
        packed = torch.from_numpy(lib.pack_tril(both.numpy()))
        diagonal = torch.arange(nao)
        packed[:, diagonal * (diagonal + 3) // 2] *= 0.5
        rho = trnblas.gemm(1.0, packed, B, trans_b=True)  # [n, vectors]
        found = from_device(trnblas.gemm(1.0, rho, B))  # [n, nao (nao + 1) / 2]
        return torch.from_numpy(lib.unpack_tril(found.numpy(), 1)).view(densities.shape)

    def _exchange(self: Any, B: Tensor, density: Tensor, factor: Tensor | None) -> Tensor:
        """``sum_P B_P D B_P``, with ``D = F F.T`` where the factor is known."""
        nao = len(density)
        total = torch.zeros_like(density)
        for first in range(0, len(B), SLAB):
            packed = B[first : first + SLAB]
            half = self._half(packed, density if factor is None else factor)  # [w, nao, n]
            rows = half.transpose(0, 1).reshape(nao, -1)
            if factor is None:
                square = _square(packed, nao).view(-1, nao)
                total += from_device(trnblas.gemm(1.0, rows, square))
            else:
                total += from_device(trnblas.gemm(1.0, rows, rows, trans_b=True))
        return total

    def _half(self: Any, packed: Tensor, right: Tensor) -> Tensor:
        nao = len(right)
        if self.screen is not None and self.screen.sparse:
            found = trnsparse.spmm(self.screen.slab(packed), right)
        else:
            found = from_device(trnblas.gemm(1.0, _square(packed, nao).view(-1, nao), right))
        return found.view(len(packed), nao, -1)


def _square(packed: Tensor, nao: int) -> Tensor:
    return torch.from_numpy(pyscf().lib.unpack_tril(packed.numpy())).view(len(packed), nao, nao)


def _factors(dm: Any, count: int) -> list[Tensor] | None:
    """Occupied orbitals times the roots of their occupations, where PySCF has tagged a density with them."""
    if getattr(dm, "mo_coeff", None) is None:
        return None
    C, occ = np.asarray(dm.mo_coeff), np.asarray(dm.mo_occ)
    if C.ndim == 2:
        spins = [occ] if count == 1 else [(occ > 0).astype(float), (occ == 2).astype(float)]
        pairs = [(C, each) for each in spins]
    else:
        pairs = list(zip(C, occ, strict=True))
    if len(pairs) != count:
        return None
    return [torch.from_numpy(np.ascontiguousarray(c[:, n > 0] * np.sqrt(n[n > 0]))) for c, n in pairs]
