"""Running error analysis (Higham 2002, 3.3): a reference in NumPy that carries a bound on what float32 adds to it.

``within(made, reference(*rounded(x, w)))`` evaluates the reference in float64 on arrays that carry their errors. Sums
and products of matrices may be added in any order; any other operation may be a few instructions of a kernel.
"""

import math

import numpy as np
from scipy.special import erf

U = 2.0**-24
# Roundings of one operation of the reference: a kernel divides by a reciprocal and a product, and functions are tables.
EACH = 4 * U
_EXACT = (np.negative, np.absolute, np.maximum, np.minimum)
_COMPARED = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def _gamma(n):
    """Bound n terms added in any order: n roundings, or what one sum in 10**7 exceeds (Higham and Mary 2019)."""
    return min(n + 2, 6 * math.sqrt(n + 2)) * U


def _power(value, a, p):
    return np.abs(p.value) * np.abs(a.value) ** (p.value - 1) * a.error + (a.error**2 if np.all(p.value == 2) else 0)


# What errors of operands become, before the operation itself rounds.
_MOVED = {
    np.add: lambda value, a, b: a.error + b.error,
    np.subtract: lambda value, a, b: a.error + b.error,
    np.multiply: lambda value, a, b: np.abs(a.value) * b.error + (np.abs(b.value) + b.error) * a.error,
    np.divide: lambda value, a, b: (a.error + np.abs(value) * b.error) / (np.abs(b.value) - b.error),
    np.power: _power,
    np.negative: lambda value, a: a.error,
    np.absolute: lambda value, a: a.error,
    np.maximum: lambda value, a, b: np.maximum(a.error, b.error),
    np.minimum: lambda value, a, b: np.maximum(a.error, b.error),
    np.exp: lambda value, a: value * np.expm1(a.error),
    np.log: lambda value, a: a.error / (a.value - a.error),
    np.sqrt: lambda value, a: a.error / (value + np.sqrt(np.maximum(a.value - a.error, 0))),
    np.tanh: lambda value, a: a.error,
    erf: lambda value, a: 2 / math.sqrt(math.pi) * a.error,
}


class Rounded(np.lib.mixins.NDArrayOperatorsMixin):
    """Values in float64, and how far float32 may be from them."""

    def __init__(self, value, error=0.0):
        self.value = np.asarray(value, np.float64)
        self.error = np.broadcast_to(error, self.value.shape)

    @property
    def shape(self):
        return self.value.shape

    @property
    def T(self):
        return self.transpose()

    def _both(self, change):
        return Rounded(change(self.value), change(self.error))

    def __getitem__(self, index):
        return self._both(lambda x: x[index])

    def transpose(self, *axes):
        return self._both(lambda x: x.transpose(*axes))

    def reshape(self, *shape):
        return self._both(lambda x: x.reshape(*shape))

    def max(self, axis=None, keepdims=False):
        """Without error: it is subtracted before an exponential, where any number of its size cancels in the ratio."""
        return Rounded(self.value.max(axis, keepdims=keepdims))

    def sum(self, axis=None, keepdims=False):
        value, error = (x.sum(axis, keepdims=keepdims) for x in (self.value, self.error))
        sizes = np.abs(self.value).sum(axis, keepdims=keepdims) + error
        return Rounded(value, error + _gamma(self.value.size // max(value.size, 1)) * sizes)

    def mean(self, axis=None, keepdims=False):
        total = self.sum(axis, keepdims)
        return total / (self.value.size // total.value.size)

    def var(self, axis=None, keepdims=False):
        return ((self - self.mean(axis, keepdims=True)) ** 2).mean(axis, keepdims)

    def __array_ufunc__(self, ufunc, method, *operands, **options):
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.matmul:
            ndim = [np.ndim(_of(x).value) for x in operands]
            return _product("ij,jk->ik" if ndim == [2, 2] else "j,jk->k", *operands)
        given = [_of(x) for x in operands]
        with np.errstate(invalid="ignore"):
            value = ufunc(*(x.value for x in given))
            if ufunc in _COMPARED:
                return value
            error = _MOVED[ufunc](value, *given)
            error = error if ufunc in _EXACT else error + EACH * (np.abs(value) + error)
        # a masked score is exactly minus infinity
        return Rounded(value, np.where(np.isfinite(value), error, 0))

    def __array_function__(self, function, types, args, kwargs):
        if function is np.einsum:
            return _product(*args)
        if function is np.where:
            return _changed(lambda *pair: np.where(args[0], *pair), args[1:])
        if function is np.cumsum:
            exact, error, sizes = (np.cumsum(x, **kwargs) for x in (self.value, self.error, np.abs(self.value)))
            return Rounded(exact, error + _gamma(self.value.shape[kwargs["axis"]]) * (sizes + error))
        if function in (np.concatenate, np.stack):
            return _changed(lambda *parts: function(parts, *args[1:], **kwargs), args[0])
        if function in (np.pad, np.split):
            return _changed(lambda x: function(x, *args[1:], **kwargs), args[:1])
        return NotImplemented


def _of(x):
    return x if isinstance(x, Rounded) else Rounded(x)


def _changed(change, operands):
    given = [_of(x) for x in operands]
    return Rounded(change(*(x.value for x in given)), change(*(x.error for x in given)))


def _product(equation, *operands):
    """A contraction of two, added in any order."""
    a, b = (_of(x) for x in operands)
    summed, made = equation.split("->")
    sizes = dict(zip(summed.replace(",", ""), a.shape + b.shape, strict=True))
    terms = math.prod(size for label, size in sizes.items() if label not in made)
    least = np.einsum(equation, np.abs(a.value), np.abs(b.value))
    most = np.einsum(equation, np.abs(a.value) + a.error, np.abs(b.value) + b.error)
    return Rounded(np.einsum(equation, a.value, b.value), most - least + _gamma(terms) * most)


def rounded(*arrays):
    """Return arrays without errors yet: one, or a list of several."""
    return Rounded(arrays[0]) if len(arrays) == 1 else [Rounded(x) for x in arrays]


def within(made, expected):
    """Assert that what a kernel made is within its bound, whose last rounding is to the dtype of the result."""
    made, expected = np.asarray(made), _of(expected)
    last = {"float32": 0.0, "bfloat16": 2.0**-8, "float16": 2.0**-11}[made.dtype.name]
    assert made.shape == expected.shape, (made.shape, expected.shape)
    bound = expected.error + last * (np.abs(expected.value) + expected.error)
    left = np.abs(made.astype(np.float64) - expected.value)
    if not (left <= bound).all():
        worst = np.unravel_index(np.argmax(left - bound), left.shape)
        raise AssertionError(f"{made[worst]} at {worst} is {left[worst]:.3g} off; the bound is {bound[worst]:.3g}")
