"""`ComplexTensor`: a complex tensor as two real planes, for devices that have no complex dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnfft.arguments import check_strided
from trnfft.ops import merge_planes
from trnfft.split_methods import ALIKE, OF_REAL, SEVERAL, Planes, by_torch
from trnsci import ArgumentError, DtypeError, check, from_device, to_device
from trnsci.arrays import Array, from_numpy, pass_through, to_numpy

Data = Tensor | Array
# What `to` takes: a dtype, a device, a tensor that has both, and torch's switches.
Target: TypeAlias = "torch.dtype | torch.device | str | int | bool | Tensor | torch.memory_format | None"
# What arithmetic mixes with.
Operand: TypeAlias = "ComplexTensor | Tensor | np.ndarray[Any, Any] | complex"


class ComplexTensor(Planes):
    """A complex tensor stored as a real and an imaginary plane of one shape, dtype and device.

    Arithmetic broadcasts and mixes with numbers, real tensors, complex tensors and `ComplexTensor`s. Gradients are
    those of the planes. Planes may be views; only assignment to an index, and methods whose name ends in an underscore,
    write to them. What is not defined here is what it is for tensors: a function of each plane, or torch's own on
    complex numbers, which takes planes on the host.

    Args:
        real: the real plane, or a complex tensor or NumPy array to split.
        imag: the imaginary plane; zeros when left out.

    Example:
        >>> z = ComplexTensor(torch.tensor([3.0, 0.0]), torch.tensor([4.0, 1.0]))
        >>> abs(z)
        tensor([5., 1.])
        >>> (z * z.conj()).real
        tensor([25.,  1.])
    """

    __slots__ = ("imag", "real")
    __array_priority__ = 1000

    real: Tensor
    imag: Tensor

    def __init__(self, real: Data | ComplexTensor, imag: Data | None = None) -> None:
        if isinstance(real, np.ndarray):
            real = from_numpy(real)
        if isinstance(imag, np.ndarray):
            imag = from_numpy(imag)
        if imag is not None and isinstance(real, ComplexTensor | Tensor) and real.is_complex():
            raise ArgumentError("ComplexTensor", "imag", "a plane", "None beside complex data")
        if isinstance(real, ComplexTensor):
            real, imag = real.real, real.imag
        real = check_strided("ComplexTensor", real)
        if real.is_complex():
            real, imag = real.real, real.resolve_conj().imag
        elif imag is None:
            imag = torch.zeros_like(real)
        imag = check_strided("ComplexTensor", imag)
        if not real.is_floating_point() or real.dtype != imag.dtype:
            if real.dtype == imag.dtype:
                raise DtypeError("ComplexTensor", "dtype", real.dtype, "a real floating-point dtype")
            raise DtypeError("ComplexTensor", "dtype", {"real": real.dtype, "imag": imag.dtype})
        if real.shape != imag.shape:
            raise ArgumentError("ComplexTensor", "shape", {"real": tuple(real.shape), "imag": tuple(imag.shape)})
        check.same_device("ComplexTensor", real=real, imag=imag)
        self.real, self.imag = real, imag

    # Conversion

    @classmethod
    def polar(cls, magnitude: Tensor, angle: Tensor) -> ComplexTensor:
        """Return ``magnitude * exp(i * angle)``."""
        return cls(magnitude * torch.cos(angle), magnitude * torch.sin(angle))

    def to_torch(self) -> Tensor:
        """Return a torch complex tensor; half planes become complex64."""
        if self.real.dtype in (torch.float16, torch.bfloat16):
            return torch.complex(self.real.float(), self.imag.float())
        return merge_planes(self.real, self.imag)

    def numpy(self) -> Array:
        """Return a NumPy complex array."""
        return to_numpy(self.to_torch())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def to(self, *args: Target, **kwargs: Target) -> ComplexTensor:
        """Move or convert both planes, as ``Tensor.to`` does; a complex dtype stands for that of its parts."""
        values = [_plane_dtype(value) for value in args]
        named = {name: _plane_dtype(value) for name, value in kwargs.items()}
        return self._each(lambda plane: plane.to(*values, **named))

    def cfloat(self) -> ComplexTensor:
        """Return it in single precision."""
        return self.to(torch.float32)

    def cdouble(self) -> ComplexTensor:
        """Return it in double precision."""
        return self.to(torch.float64)

    def to_device(self) -> ComplexTensor:
        """Move both planes to device memory; see `trnsci.to_device`."""
        return self._each(to_device)

    def from_device(self) -> ComplexTensor:
        """Move both planes to the host."""
        return self._each(from_device)

    # What a tensor says of itself

    @property
    def grad(self) -> ComplexTensor | None:
        """The planes' gradients, or ``None``."""
        if self.real.grad is None and self.imag.grad is None:
            return None
        re, im = self.real.grad, self.imag.grad
        return ComplexTensor(
            torch.zeros_like(self.real) if re is None else re, torch.zeros_like(self.imag) if im is None else im
        )

    def requires_grad_(self, requires_grad: bool = True) -> ComplexTensor:
        """Ask for gradients of both planes, which must be leaves."""
        self.real.requires_grad_(requires_grad)
        self.imag.requires_grad_(requires_grad)
        return self

    def __repr__(self) -> str:
        return f"ComplexTensor({self.to_torch() if not self.is_meta else tuple(self.shape)})"

    def __bool__(self) -> bool:
        return bool(self.real) or bool(self.imag)

    def __complex__(self) -> complex:
        return complex(self.real.item(), self.imag.item())

    def item(self) -> complex:
        """Return the only element as a Python number."""
        return complex(self)

    def _with(self, real: Tensor, imag: Tensor) -> ComplexTensor:
        return _from_planes(real, imag)

    def __setitem__(self, index: Any, value: Any) -> None:
        re, im = _parts(value, self)
        self.real[index] = re
        self.imag[index] = 0.0 if im is None else im

    @property
    def mH(self) -> ComplexTensor:
        """Last two dimensions swapped, and conjugated."""
        return self.mT.conj()

    @property
    def H(self) -> ComplexTensor:
        """A matrix transposed and conjugated."""
        return self.T.conj()

    # Complex arithmetic

    def conj(self) -> ComplexTensor:
        """Return the complex conjugate."""
        return _from_planes(self.real, -self.imag)

    def abs(self) -> Tensor:
        """Return the magnitude, without overflow; its gradient at 0 is 0."""
        if self.dtype in (torch.float32, torch.float64):
            return torch.view_as_complex(torch.stack((self.real, self.imag), -1)).abs()
        return torch.hypot(self.real.float(), self.imag.float()).to(self.dtype)

    def angle(self) -> Tensor:
        """Return the argument in ``(-pi, pi]``."""
        return torch.atan2(self.imag, self.real)

    def exp(self) -> ComplexTensor:
        """Return the exponential."""
        return ComplexTensor.polar(torch.exp(self.real), self.imag)

    def log(self) -> ComplexTensor:
        """Return the principal logarithm."""
        return _from_planes(torch.log(self.abs()), self.angle())

    def norm(self, p: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Return the norm of magnitudes over dimensions, or of all elements."""
        if p == 2 and dim is None and not keepdim:
            return torch.linalg.vector_norm(torch.stack((self.real.flatten(), self.imag.flatten())))
        return torch.linalg.vector_norm(self.abs(), p, dim, keepdim)

    def allclose(self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Return whether both planes agree within tolerances."""
        other = as_complex_tensor(other, self)
        return torch.allclose(self.to_torch(), other.to_torch(), rtol=rtol, atol=atol)

    def __neg__(self) -> ComplexTensor:
        return self._each(torch.neg)

    def __pos__(self) -> ComplexTensor:
        return self

    def __abs__(self) -> Tensor:
        return self.abs()

    def __add__(self, other: Operand) -> ComplexTensor:
        re, im = _parts(other, self)
        total = self.real + re
        return _from_planes(total, (self.imag if im is None else self.imag + im).expand_as(total))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> ComplexTensor:
        subtracted: Any = np.asarray(other) if isinstance(other, np.generic) else other
        return self + -subtracted

    def __rsub__(self, other: Operand) -> ComplexTensor:
        return -self + other

    def __mul__(self, other: Operand) -> ComplexTensor:
        re, im = _parts(other, self)
        if im is None:
            return _from_planes(self.real * re, self.imag * re)
        return _from_planes(self.real * re - self.imag * im, self.real * im + self.imag * re)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> ComplexTensor:
        re, im = _parts(other, self)
        if im is None:
            return _from_planes(self.real / re, self.imag / re)
        return ComplexTensor(self.to_torch() / as_complex_tensor(other, self).to_torch()).to(self.dtype)

    def __rtruediv__(self, other: Operand) -> ComplexTensor:
        return as_complex_tensor(other, self) / self

    def __pow__(self, exponent: Operand) -> ComplexTensor:
        power = exponent.to_torch() if isinstance(exponent, ComplexTensor) else exponent
        return ComplexTensor(self.to_torch() ** power).to(self.dtype)

    def __rpow__(self, base: Operand) -> ComplexTensor:
        return as_complex_tensor(base, self) ** self

    def __matmul__(self, other: Operand) -> ComplexTensor:
        re, im = _parts(other, self)
        if im is None:
            return _from_planes(self.real @ re, self.imag @ re)
        return _from_planes(self.real @ re - self.imag @ im, self.real @ im + self.imag @ re)

    def __rmatmul__(self, other: Operand) -> ComplexTensor:
        return as_complex_tensor(other, self) @ self

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        if not isinstance(other, ComplexTensor | Tensor | np.ndarray | np.generic | complex | int | float):
            # as tensors have it: what is no number differs
            return NotImplemented
        re, im = _parts(other, self)
        return (self.real == re) & (self.imag == (0.0 if im is None else im))

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else ~equal

    def __hash__(self) -> int:
        # as tensors have it: by identity, because equality is that of elements
        return id(self)

    def backward(self, gradient: ComplexTensor | None = None) -> None:
        """Propagate a gradient given for both planes."""
        if gradient is None:
            raise ArgumentError("backward", "gradient", None, "a ComplexTensor", hint="Complex results have no default")
        torch.autograd.backward((self.real, self.imag), (gradient.real, gradient.imag))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run torch functions by methods of planes where there are any, else by torch on complex numbers."""
        kwargs = kwargs or {}
        name = func.__name__
        if name in ("cat", "stack", "concatenate", "concat") and args and isinstance(args[0], list | tuple):
            tensors: Sequence[Any] = args[0]
            like = next(t for t in tensors if isinstance(t, ComplexTensor))
            planes = [as_complex_tensor(t, like) for t in tensors]
            return _from_planes(
                func([p.real for p in planes], *args[1:], **kwargs), func([p.imag for p in planes], *args[1:], **kwargs)
            )
        operator = _OPERATORS.get(name)
        if operator is not None and not kwargs and len(args) == 2:
            left = args[0] if isinstance(args[0], ComplexTensor) else as_complex_tensor(args[0], args[1])
            return getattr(left, operator)(args[1])
        if args and isinstance(args[0], ComplexTensor) and func not in _NOT_METHODS:
            if name in ("real", "imag"):
                return getattr(args[0], name)
            if callable(getattr(cls, name, None)) or name in ALIKE | SEVERAL | OF_REAL:
                return getattr(args[0], name)(*args[1:], **kwargs)
        return by_torch(func, *args, **kwargs)


# Functions with the name of a method of planes that take other arguments.
_NOT_METHODS = frozenset((torch.linalg.norm,))

_OPERATORS = {
    "add": "__add__", "sub": "__sub__", "subtract": "__sub__", "mul": "__mul__", "multiply": "__mul__",
    "div": "__truediv__", "divide": "__truediv__", "true_divide": "__truediv__", "matmul": "__matmul__",
    "pow": "__pow__", "eq": "__eq__", "ne": "__ne__", "rsub": "__rsub__",
    "__add__": "__add__", "__sub__": "__sub__", "__mul__": "__mul__", "__truediv__": "__truediv__",
    "__matmul__": "__matmul__", "__radd__": "__radd__", "__rmul__": "__rmul__",
}  # fmt: skip


def _from_planes(real: Tensor, imag: Tensor) -> ComplexTensor:
    """Build without checks: planes come from planes."""
    z = ComplexTensor.__new__(ComplexTensor)
    z.real, z.imag = real, imag
    return z


def parts_of(z: Tensor) -> ComplexTensor:
    """Return the parts of a complex tensor that is no conjugate, as views."""
    return _from_planes(z.real, z.imag)


def _parts(value: Any, like: ComplexTensor) -> tuple[Any, Any]:
    """Return real and imaginary part of an operand; ``None`` for an imaginary part that is not there."""
    if isinstance(value, ComplexTensor):
        return value.real, value.imag
    if isinstance(value, Tensor):
        return (value.real, value.resolve_conj().imag) if value.is_complex() else (value, None)
    if isinstance(value, complex):
        return value.real, value.imag
    if isinstance(value, int | float):
        return value, None
    if isinstance(value, np.ndarray | np.generic):
        return _parts(from_numpy(np.asarray(value)).to(like.device), like)
    raise DtypeError("ComplexTensor", "operand", type(value), "a number or a tensor")


def _plane_dtype(value: Any) -> Any:
    """Return what ``Tensor.to`` is given, for a plane."""
    if isinstance(value, ComplexTensor):
        return value.real
    if isinstance(value, torch.dtype):
        value = value.to_real() if value.is_complex else value
        if not value.is_floating_point:
            raise DtypeError("ComplexTensor.to", "dtype", value, "complex or floating-point")
    return value


def as_complex_tensor(value: Any, like: ComplexTensor) -> ComplexTensor:
    """Return ``value`` as planes of the dtype and device of ``like``."""
    if isinstance(value, ComplexTensor):
        return value
    re, im = _parts(value, like)
    if not isinstance(re, Tensor):
        re = torch.tensor(re, dtype=like.dtype, device=like.device)
        im = None if im is None else torch.tensor(im, dtype=like.dtype, device=like.device)
    return _from_planes(re, torch.zeros_like(re) if im is None else im)


pass_through(ComplexTensor)
