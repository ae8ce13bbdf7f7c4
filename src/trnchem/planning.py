"""What a calculation will do, from its orbitals and integrals: where products run, and blocks that fit."""

from __future__ import annotations

import torch

import trnblas
import trnsci
from trnchem.budget import MP2Plan, Options, Sizes, dtype_of, empty_plan, make_plan
from trnchem.integrals import Source
from trnchem.orbitals import Orbitals
from trnchem.quadrature import quadrature
from trnsci.precision import Precision
from trntensor.mp2_energy import mp2_within


def sizes_of(chosen: Orbitals, integrals: Source, precision: Precision) -> Sizes:
    """Return numbers of orbitals and functions."""
    return Sizes(
        nao=len(chosen.C_occ),
        nocc=len(chosen.e_occ),
        nvir=chosen.e_vir.shape[1],
        naux=integrals.naux,
        widest=integrals.widest,
        itemsize=dtype_of(precision).itemsize,
        spins=chosen.spins,
    )


def quadrature_points(chosen: Orbitals, options: Options, error: float) -> int:
    """Return points that the methods without pairs take."""
    return 0 if options.method == "pairs" else len(quadrature(chosen, error, options.same_spin).t)


def products(n: Sizes, precision: Precision) -> tuple[str, str]:
    """Return where the products run, and why."""
    rows = torch.empty((n.nvir, n.naux), dtype=dtype_of(precision), device="meta")
    product = trnsci.plan(trnblas.gemm, 1.0, rows, rows, trans_b=True, precision=precision)
    return product.backend, f"Products on {product.backend}: {product.reason}."


def sharded_plan(sizes: Sizes, integrals: Source, options: Options, memory: int, ranks: int, points: int) -> MP2Plan:
    """`MP2Plan` of one calculation on several ranks; every rank makes the same one."""
    from trnchem.shares import make_sharded_plan

    if not sizes.nocc or not sizes.nvir:
        return empty_plan(sizes, options, memory)
    return make_sharded_plan(
        sizes,
        options,
        ranks=ranks,
        memory=memory,
        columns=integrals.columns,
        fitted=integrals.fitted,
        points=points,
        why=products(sizes, options.precision)[1],
    )


def single_plan(
    chosen: Orbitals, integrals: Source, options: Options, memory: int, resident: bool, by_pair: bool
) -> MP2Plan:
    """`MP2Plan` of one calculation on one rank."""
    precision = options.precision
    n, dtype = sizes_of(chosen, integrals, precision), dtype_of(precision)
    if not n.nocc or not n.nvir:
        return empty_plan(n, options, memory)
    (backend, why), fused = products(n, precision), False
    if precision == "fp32" and options.method == "pairs" and not by_pair:
        # in an open shell the larger of its three calls stands for them
        most = n.spins.most(n.nocc)
        shapes = ((most, n.nvir, n.naux), (most,), (n.nvir,))
        # the op itself: the function adds its sums up, and torch loads its compiler (67 MB) to add without data
        whole = trnsci.plan(mp2_within, *(torch.empty(shape, dtype=dtype, device="meta") for shape in shapes))
        fused = whole.backend != "pytorch"
        why = f"Energy on {whole.backend}: {whole.reason}." if fused else why
    return make_plan(
        n,
        options,
        memory=memory,
        device=(fused or backend != "pytorch") and resident,
        fused=fused,
        fitted=integrals.fitted,
        why=why,
    )
