"""Coulomb and exchange from fitted integrals: PySCF's ``with_df`` with products of the suite."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

import trnblas
import trnsparse
from trnchem.budget import SLAB, overhead
from trnchem.integrals import shell_ranges
from trnchem.metric import Metric, fit_matrix
from trnchem.molecules import pyscf
from trnchem.options import DEFAULTS
from trnchem.references import build_field, build_molecule
from trnchem.screening import Screen, equal_pairs, keep_pairs_above
from trnchem.store import full_disk, h5py
from trnsci import ArgumentError, CapacityError, check, from_device
from trnsci.backends import inside

# Elements of a block of pairs with all auxiliary functions, unless the budget asks for fewer.
BLOCK = 1 << 22


@check.hands_on("dfmp2", "mean_field")
def density_fit(mf: Any, auxbasis: Any = None, *, screening: float = 1e-12) -> Any:
    """Return a mean field whose Coulomb and exchange matrices come from products of the suite.

    It is what ``mf.density_fit(auxbasis)`` returns, with another ``with_df``: the three-index tensor is fitted by
    `trnsolver` and `trnblas`, ``mf.kernel()`` builds J and K from it with `trnblas` and, where few pairs of orbitals
    survive, `trnsparse`; and `dfmp2` takes the same tensor. A ledger around all of it shows the whole calculation. The
    tensor stays in memory where it fits into what is left of ``mf.max_memory`` (in MB), and is in a scratch file and
    read in slabs otherwise, as in PySCF.

    Args:
        mf: a mean field of PySCF of a molecule, with or without density fitting; an xyz file or a built-in name, for
            Hartree-Fock in cc-pVDZ.
        auxbasis: as in PySCF; unless given the mean field's own, or PySCF's choice.
        screening: drop pairs of orbitals whose fitted integrals cannot exceed this, where they are many and a sparse
            product pays.

    Raises:
        ArgumentError: not a mean field of a molecule.
        CapacityError: not even the metric and one slab fit into ``max_memory``, while the tensor is built.

    Example:
        >>> from pyscf import gto, scf
        >>> molecule = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)
        >>> mf = density_fit(scf.RHF(molecule)).run()
        >>> print(f"{mf.e_tot:.6f} {dfmp2(mf).metric}")
        -99.983431 fitted already, by the mean field; 93 of 93 vectors kept
    """
    if isinstance(mf, str | Path):
        mf = build_field(build_molecule(mf, DEFAULTS), DEFAULTS)
    if not isinstance(mf, pyscf().scf.hf.SCF) or "cell" in vars(mf):
        raise ArgumentError("density_fit", "mf", type(mf), "a mean field of a molecule")
    own = vars(mf).get("with_df")
    fitted = mf.density_fit(auxbasis=auxbasis) if own is None or auxbasis is not None else mf.copy()
    fitted.with_df = _class()(fitted.mol, fitted.with_df.auxbasis)
    fitted.with_df.screening, fitted.with_df.max_memory = screening, mf.max_memory
    return fitted


@functools.cache
def _class() -> Any:
    """Return the object, once PySCF is there."""
    return type("Fitting", (_Fitting, pyscf().df.DF), {"__doc__": _Fitting.__doc__})


class _Fitting:
    """PySCF's density fitting; ``metric`` says how the metric was inverted, ``screen`` which pairs are kept."""

    _keys: ClassVar[set[str]] = {"screening", "metric", "screen", "slab"}
    screening = 1e-12
    metric: Metric | None = None
    screen: Screen | None = None
    slab = SLAB

    @inside("trnchem")
    def build(self: Any) -> Any:
        """Compute the tensor [vectors, nao (nao + 1) / 2], fitted in blocks of pairs of orbitals."""
        if self._cderi is not None:
            return self
        self.auxmol = pyscf().df.addons.make_auxmol(self.mol, self.auxbasis)
        nao, naux, aux_e2 = self.mol.nao_nr(), self.auxmol.nao_nr(), pyscf().df.incore.aux_e2
        first = np.asarray(self.mol.ao_loc_nr(), dtype=np.int64)
        starts, pairs = first * (first + 1) // 2, nao * (nao + 1) // 2
        # bytes of a function in a slab: its pairs twice, because the next slab is read ahead, and squares of them
        each = 8 * (2 * pairs + 6 * nao**2)
        # of a pair in a block: integrals and their image
        block = 16 * naux
        available = int(1e6 * (self.max_memory - pyscf().lib.current_memory()[0])) - overhead()
        least = max(32 * naux**2, 8 * naux**2 + block * int(np.diff(starts).max()), each)
        if least > available:
            hint = "Raise mf.max_memory, in MB, by the difference"
            raise CapacityError("host memory for fitted integrals", least, available, hint)
        X, self.metric = fit_matrix(torch.from_numpy(self.auxmol.intor("int2c2e")))
        whole = 8 * X.shape[1] * pairs
        held = whole + 8 * naux**2 + max(SLAB * each, 16 * BLOCK) <= available and self._cderi_to_save is None
        left = available - (whole if held else 0)
        self.slab = max(1, min(SLAB, left // each))
        blocks = list(shell_ranges(starts, min((left - 8 * naux**2) // block, BLOCK // naux)))
        # memory of all blocks: fresh one of many sizes would break the heap into pieces
        most = naux * max(int(starts[end] - starts[begin]) for begin, end in blocks)
        integrals, images = np.empty(most), torch.empty(most, dtype=torch.float64, device="cpu")
        with self._target((X.shape[1], pairs), held) as fitted:
            for begin, end in blocks:
                # rows m of the triangle of (mn|P), [n, naux], columns first
                rows, count = (begin, end, 0, end, 0, self.auxmol.nbas), int(starts[end] - starts[begin])
                some = aux_e2(self.mol, self.auxmol, "int3c2e", aosym="s2ij", shls_slice=rows, out=integrals)
                image = images[: X.shape[1] * count].view(-1, count)
                trnblas.gemm(1.0, X, torch.from_numpy(some.T), trans_a=True, out=image)
                fitted[:, starts[begin] : starts[end]] = image.numpy()
        # the sum of squares of fitted integrals of a pair is at most (mn|mn)
        self.screen = keep_pairs_above(equal_pairs(self.mol), 1.0, self.screening)
        return self

    @contextmanager
    def _target(self: Any, shape: tuple[int, int], held: bool) -> Iterator[Any]:
        """Yield where fitted integrals go: an array, or a dataset of a file that is read from afterwards."""
        lib = pyscf().lib
        if held:
            self._cderi = np.empty(shape)
            yield self._cderi
            return
        if self._cderi_to_save is None:
            self._cderi_to_save = lib.NamedTemporaryFile(dir=lib.param.TMPDIR)
        path = Path(getattr(self._cderi_to_save, "name", self._cderi_to_save))
        with full_disk(path, 8 * math.prod(shape)), h5py().File(path, "w", rdcc_nbytes=0) as file:
            yield file.create_dataset(self._dataname, shape, "float64")
        self._cderi = self._cderi_to_save

    def reset(self: Any, mol: Any = None) -> Any:
        """Forget what belongs to another molecule."""
        self.metric = self.screen = None
        self._cderi_to_save = self._cderi_to_save if isinstance(self._cderi_to_save, str) else None
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
        """Compute Coulomb and exchange matrices of one or several densities, in one pass over the tensor."""
        densities = np.asarray(dm)
        if omega is not None or densities.dtype.kind == "c":
            return super().get_jk(dm, hermi, with_j, with_k, direct_scf_tol, omega)  # type: ignore[misc]
        self.build()
        shape, nao, lib = densities.shape, densities.shape[-1], pyscf().lib
        stacked = torch.from_numpy(np.ascontiguousarray(densities.reshape(-1, nao, nao), dtype=np.float64))
        factors: Sequence[Tensor | None] = _factors(dm, len(stacked)) or [None] * len(stacked)
        weights, vk = _triangles(stacked), torch.zeros_like(stacked)
        vj = torch.zeros_like(weights)
        for part in self.loop(self.slab):
            packed = torch.from_numpy(part)  # [w, nao (nao + 1) / 2]
            if with_j:
                rho = trnblas.gemm(1.0, weights, packed, trans_b=True)  # [n, w]
                vj += from_device(trnblas.gemm(1.0, rho, packed))
            for k, D in enumerate(stacked if with_k else ()):
                vk[k] += self._exchange(packed, D, factors[k])
        coulomb = lib.unpack_tril(vj.numpy(), 1).reshape(shape) if with_j else None
        return coulomb, vk.numpy().reshape(shape) if with_k else None

    def _exchange(self: Any, packed: Tensor, density: Tensor, factor: Tensor | None) -> Tensor:
        """``sum_P B_P D B_P`` of a slab, with ``D = F F.T`` where the factor is known."""
        nao = len(density)
        half = self._half(packed, density if factor is None else factor)  # [w, nao, n]
        rows = half.transpose(0, 1).reshape(nao, -1)
        if factor is not None:
            return from_device(trnblas.gemm(1.0, rows, rows, trans_b=True))
        return from_device(trnblas.gemm(1.0, rows, _square(packed, nao).view(-1, nao)))

    def _half(self: Any, packed: Tensor, right: Tensor) -> Tensor:
        nao = len(right)
        if self.screen is not None and self.screen.sparse:
            half = trnsparse.spmm(self.screen.slab(packed), right)
        else:
            half = from_device(trnblas.gemm(1.0, _square(packed, nao).view(-1, nao), right))
        return half.view(len(packed), nao, -1)


def _triangles(densities: Tensor) -> Tensor:
    """Return [n, nao (nao + 1) / 2], whose scalar product with a triangle is a density's with the symmetric matrix."""
    packed = torch.from_numpy(pyscf().lib.pack_tril((densities + densities.mT).numpy()))
    diagonal = torch.arange(densities.shape[-1], device="cpu")
    packed[:, diagonal * (diagonal + 3) // 2] *= 0.5
    return packed


def _square(packed: Tensor, nao: int) -> Tensor:
    return torch.from_numpy(pyscf().lib.unpack_tril(packed.numpy())).view(len(packed), nao, nao)


def _factors(dm: Any, count: int) -> list[Tensor] | None:
    """Return occupied orbitals times the roots of their occupations, where PySCF has tagged a density with them."""
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
