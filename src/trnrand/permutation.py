"""Orders and selections: permutation, shuffle, choice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnrand import maths
from trnrand.bits import stream_words
from trnrand.discrete import invert_sums, weights_of
from trnrand.randint import integers_of, propose_integers, randint
from trnrand.request import INTEGERS, Request, Size, drawing, substream
from trnrand.source import Source, shape_of
from trnsci import ArgumentError, DtypeError, check
from trnsci.analogs import resembles
from trnsci.arrays import from_numpy, to_numpy

# At most one element in eight is drawn one by one; above it, all are put in order.
_SPARSE = 8


@resembles("aten::randperm")
@drawing
def permutation(
    x: int | Tensor,
    *,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Return a random order of ``0 .. x - 1``, or the rows of a tensor in random order.

    Args:
        x: a length, or a tensor [N, ...].
        device: where the result goes, for a length.

    Returns:
        int64 [x], or a copy of ``x``. Every element gets a key of 64 random bits, and a stable sort orders the keys,
        so devices agree; two of N keys are equal with a chance below ``N**2 / 2**65``, and then keep their order.
    """
    order, request = _order("permutation", x, device, generator)
    if not isinstance(x, Tensor):
        return request.finish(order)
    shuffled = x[order if request._taken is None else order[request._taken]]
    request.commit()
    return shuffled


@check.hands_on("from_numpy", "_shuffle")
def shuffle(x: Tensor, *, generator: Source | None = None) -> Tensor:
    """Put the rows of ``x`` in random order, in place; the order is that of `permutation`. Returns ``x``."""
    if isinstance(x, np.ndarray):
        check.refuse(not x.flags.writeable, "shuffle", "x", "a read-only array", "one that can be written")
        x[...] = to_numpy(_shuffle(from_numpy(x), generator=generator))
        return x
    return _shuffle(x, generator=generator)


@drawing
def _shuffle(x: Tensor, *, generator: Source | None = None) -> Tensor:
    if not isinstance(x, Tensor):
        raise DtypeError("shuffle", "x", type(x), "a tensor")
    order, request = _order("shuffle", x, None, generator)
    check.out("shuffle", x, shape=tuple(x.shape), dtype=x.dtype)
    if request.source.size > 1:
        got = "a partitioned one"
        raise ArgumentError("shuffle", "generator", got, "one that is not", hint="Take rows of permutation(x)")
    x.copy_(x[order])
    request.commit()
    return x


def _order(op: str, x: Any, device: Any, generator: Source | None) -> tuple[Tensor, Request]:
    if isinstance(x, Tensor):
        check.dense(op, x=x)
        check.refuse(x.ndim < 1, op, "shape of x", (), "at least one axis")
        n, device = x.shape[0], x.device
    elif isinstance(x, int) and not isinstance(x, bool):
        check.refuse(x < 0, op, "x", x, "a non-negative length")
        n = x
    else:
        raise DtypeError(op, "x", type(x), "an integer or a tensor")
    request = Request(op, (n,), generator, device=device, dtypes=(torch.int64,), whole=True)
    return order_of(request), request


def order_of(request: Request) -> Tensor:
    """Return a random order of a request's elements."""
    stream, first = request.claim(2)
    words = stream_words(stream, 2 * first, 2 * request.count, request.device).view(-1, 2)
    return torch.argsort(words[:, 1] << 32 | words[:, 0], stable=True)


@drawing
@check.hands_on("randint", "permutation")
def choice(
    a: int | Tensor,
    *size: Size,
    replace: bool = True,
    p: Tensor | None = None,
    device: torch.device | str | None = None,
    generator: Source | None = None,
) -> Tensor:
    """Draw elements of ``0 .. a - 1``, or rows of a tensor.

    Args:
        a: a length, or a tensor [N, ...].
        size: the shape of the selection.
        replace: whether an element may be chosen again.
        p: [N], weights; by default all are equal.
        device: where the result goes, for a length.

    Returns:
        [*size], or [*size, ...]. Without replacement and with weights, elements are taken one after the other, each in
        proportion to the weights of those left (Efraimidis and Spirakis). Few of many without replacement cost what
        they are: at most one in eight are drawn one by one.

    Raises:
        ArgumentError: ``a`` is empty and something is asked of it, ``p`` does not fit, or more is asked without
            replacement
            than there is. Nothing was drawn.
    """
    if isinstance(a, Tensor):
        check.dense("choice", a=a)
    check.flag("choice", replace=replace)
    n = a.shape[0] if isinstance(a, Tensor) and a.ndim else a
    if not isinstance(n, int) or isinstance(n, bool):
        raise DtypeError("choice", "a", type(a), "an integer or a tensor with an axis")
    shape = shape_of("choice", size)
    wanted = math.prod(shape)
    where = a.device if isinstance(a, Tensor) else device
    weights = None if p is None else weights_of("choice", p).to(where or "cpu")
    if weights is not None and tuple(weights.shape) != (n,):
        raise ArgumentError("choice", "shape of p", tuple(weights.shape), f"({n},)")
    check.refuse(n < 1 and wanted, "choice", "a", n, "at least one element")
    there = n if weights is None or weights.is_meta else int((weights > 0).sum())
    if not replace and wanted > there:
        got = {"size": wanted, "elements": there}
        raise ArgumentError("choice", "size", got, hint="Without replacement there are not so many; pass replace=True")
    if not replace:
        index = _distinct(n, shape, wanted, weights=weights, device=where, generator=generator)
    elif weights is None:
        index = randint(shape, high=max(n, 1), device=where, generator=generator)
    else:
        request = Request("choice", (shape,), generator, device=where, dtypes=(torch.int64, *INTEGERS))
        index = request.finish(invert_sums(request, weights, request.open_unit()))
    return a[index] if isinstance(a, Tensor) else index


def _distinct(
    n: int, shape: tuple[int, ...], wanted: int, *, weights: Tensor | None, device: Any, generator: Source | None
) -> Tensor:
    few = weights is None and _SPARSE * wanted <= n
    size = wanted if few else n
    request = Request("choice", (size,), generator, device=device, dtypes=(torch.int64,), whole=True)
    if few:
        order = _first_distinct(request, n)
    elif weights is None:
        order = order_of(request)
    else:
        # logarithms, because a quotient by a tiny weight would be infinite as that by zero is
        there = weights > 0
        keys = maths.log(-maths.log(request.open_unit())) - maths.log_positive(torch.where(there, weights, 1.0))
        order = torch.argsort(torch.where(there, keys, float("inf")), stable=True)
    chosen = order[:wanted].reshape(shape)
    request.commit()
    return torch.tensor_split(chosen, request.source.size)[request.source.rank] if request.source.size > 1 else chosen


def _first_distinct(request: Request, n: int) -> Tensor:
    """Return distinct integers below ``n``: those that repeat another are drawn again, from a substream.

    Which element gives way depends on which are equal and not on their values, so every selection is equally likely.
    """
    index, attempt = integers_of(request, 0, n - 1), 0
    stream, first = request.claim(1)
    while (again := _find_repeats(index, n)).numel():
        words = stream_words(substream(stream, 1, attempt), 4 * first, 4 * again.numel(), request.device)
        values, taken = propose_integers(words.view(-1, 4), n)
        index[again[taken]] = values[taken]
        attempt += 1
    return index


def _find_repeats(index: Tensor, n: int) -> Tensor:
    """Return the elements that equal an earlier one, of integers below ``n``; none where there is no data."""
    if index.is_meta:
        return index[:0]
    shift = index.numel().bit_length()
    if index.device.type != "cpu" or n > 1 << 63 - shift:
        ordered, order = torch.sort(index, stable=True)
        return order[1:][ordered[1:] == ordered[:-1]]
    # NumPy sorts numbers ten times as fast as anybody sorts numbers with their positions
    keys = np.sort(index.numpy() << shift | np.arange(index.numel()))
    repeats = keys[1:] >> shift == keys[:-1] >> shift
    return torch.from_numpy(keys[1:][repeats] & (1 << shift) - 1)
