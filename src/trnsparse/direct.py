"""Products prepared for a dense factor of one shape: what a call need not find out again."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsparse import host
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_spmm import by_products
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.matrix import SparseMatrix


class Ready(NamedTuple):
    """A compiled loop with its arguments.

    Attributes:
        values: those of the matrix; with others it is not ready.
        dtype: of values, factor and result.
        complex: whether that is a complex one.
        sizes: of the result.
        alike: whether they are those of the factor, and its memory is not large.
        heavy: whether several threads would be faster than one.
        call: takes the address of the arguments, of the factor and of the result.
        address: of the arguments.
        kept: what must live as long as the addresses.
    """

    values: Tensor
    dtype: torch.dtype
    complex: bool
    sizes: tuple[int, ...]
    alike: bool
    heavy: bool
    call: Any
    address: int
    kept: tuple[Any, ...]


def prepare(a: SparseMatrix, shape: torch.Size, trans: bool) -> Ready | None:
    """Prepare ``a``, or with ``trans`` its transpose, times a factor of this shape; ``None`` where no loop can.

    Only a product whose format was decided is prepared; the matrix keeps it.
    """
    if type(a) is CSRMatrix or type(a) is BSRMatrix:
        (rows, columns), turned = a.shape, trans
    elif type(a) is CSCMatrix:
        (columns, rows), turned = a.shape, not trans
    else:
        return None
    values, call = a.values, host.direct()
    n = 1 if len(shape) == 1 else shape[1] if len(shape) == 2 else 0
    depth, height = (rows, columns) if turned else (columns, rows)
    if n not in a.settled or shape[0] != depth or values.dtype not in host.NATIVE or not host.plain(values):
        return None
    loop, places, block = _loop(a, n, turned)
    if loop is None or call is None:
        return None
    sizes = (height,) if len(shape) == 1 else (height, n)
    room = math.prod(sizes) * values.element_size()
    walked, last = (rows, (0,)) if block is None else (a.indptr.shape[0] - 1, (*block, rows, columns))
    head = (host.address(loop), walked, n, *places, values.data_ptr(), room if turned else 0)
    numbers = np.array([*head, *last], np.int64)
    made = Ready(
        values=values,
        dtype=values.dtype,
        complex=values.dtype.is_complex,
        sizes=sizes,
        alike=sizes == tuple(shape) and room < host.LARGE,
        heavy=values.numel() * n > host.SERIAL,
        call=call,
        address=numbers.ctypes.data,
        kept=(numbers, a.indptr, a.indices, places),
    )
    if a.ready is None:
        a.ready = ({}, {})
    if len(a.ready[trans]) >= 16:
        a.ready[trans].clear()
    a.ready[trans][shape] = made
    return made


def _loop(a: Any, n: int, turned: bool) -> tuple[Any, tuple[int, ...], tuple[int, int] | None]:
    """The loop for n columns, the addresses of pointers and indices, and the shape of blocks."""
    dtype = a.values.dtype
    if isinstance(a, BSRMatrix):
        if by_products(a.block, n):
            return None, (), None
        name = "bsrmmt" if turned else "bsrmv" if n == 1 else "bsrmm"
        return host.over_values(name, dtype), host.at(a.indptr, a.indices), a.block
    narrow = a.narrow if n == 1 and a.values.shape[0] > host.MANY else None
    found = host.over_values(host.product(n, turned), dtype, narrow is not None)
    return found, a.places if narrow is None else narrow[1], None


def fits(ready: Ready, b: Tensor, c: Tensor | None, out: Tensor | None) -> bool:
    """Whether an addend, and memory for the result, can be seen at a glance to be what the product needs."""
    for x in (c, out):
        if x is not None:
            if type(x) is not Tensor or x.shape != ready.sizes or x.dtype is not ready.dtype or not host.plain(x):
                return False
            if x.requires_grad and torch.is_grad_enabled():
                return False
    if out is not None:
        first = out.data_ptr()
        last = first + out.nbytes
        for x in (ready.values, b, c):
            if x is not None and first < x.data_ptr() + x.nbytes and x.data_ptr() < last:
                return False
    return True
