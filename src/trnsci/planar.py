"""`PlanarTensor`: torch's complex tensor on a device that has no complex numbers, as two planes in its memory.

torch sees a tensor of a complex dtype; its operators come here and work on the planes. What planes cannot do is done
on the host, and recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.analogs import operators
from trnsci.backends import backend, get_backend
from trnsci.errors import TrnError, UnsupportedError
from trnsci.ledger import Substitution, record
from trnsci.tables import read_table
from trnsci.torch_internals import disable_torch_function, parse_to, tree_leaves, tree_map

_COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}


class PlanarTensor(Tensor):
    """A tensor of a complex dtype whose planes are real tensors on a device."""

    # libraries ask an array's class for the module that computes with it
    __module__ = "torch"
    is_planar = True

    real_plane: Tensor
    imag_plane: Tensor

    @staticmethod
    def __new__(cls, real: Tensor, imag: Tensor) -> PlanarTensor:
        if real.stride() != imag.stride():
            real, imag = real.contiguous(), imag.contiguous()
        planar_tensor: PlanarTensor = Tensor._make_wrapper_subclass(
            cls, real.shape, real.stride(), dtype=_COMPLEX[real.dtype], device=real.device
        )
        planar_tensor.real_plane, planar_tensor.imag_plane = real, imag
        return planar_tensor

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        """Planes are of one shape, real dtype and device; they are not copied."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.tolist:
            return args[0].cpu().tolist()
        if func in (Tensor.cpu, Tensor.to) and isinstance(args[0], PlanarTensor):
            # torch's own gradient of a move would move complex numbers
            device, dtype, *_ = ("cpu", None) if func is Tensor.cpu else parse_to(*args[1:], **kwargs or {})
            if device is not None and torch.device(device).type == "cpu":
                tensor: Tensor = _Fetch.apply(args[0])  # type: ignore[no-untyped-call]
                return tensor if dtype is None else tensor.to(dtype)
        with disable_torch_function():
            return func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name, overload = func._schema.name.removeprefix("aten::"), func._overloadname
        if overload.endswith("out") or name in _SHAPED:
            reason = "planes have memory and a shape of their own, which out= and methods in place cannot change"
            raise UnsupportedError(f"torch.{name}", [("nki", reason)], hint="Assign its result instead")
        if name in _BY_HAND:
            result = _BY_HAND[name](*args, **kwargs)
        elif func.is_view or name in _EACH:
            result = _each(func, args, kwargs)
        elif name in operators() and operators()[name].planes:
            result = transform(name, args, kwargs)
        elif name.endswith("_") and not name.startswith("_"):
            functional = getattr(getattr(torch.ops.aten, name.removesuffix("_")), overload)
            return _copy_into(args[0], functional(*args, **kwargs))
        else:
            result = NotImplemented
        if result is NotImplemented:
            record(Substitution(f"torch.{name}", "", "planes of complex numbers cannot do it: computed on the host"))
            return on_host(func, args, kwargs)
        return result

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PlanarTensor({self.cpu()}, device={str(self.device)!r})"


class _Fetch(torch.autograd.Function):
    """To the host as complex numbers, and the gradient back as planes."""

    @staticmethod
    def forward(ctx: Any, x: PlanarTensor) -> Tensor:
        ctx.device = x.device
        return merge_planes(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> PlanarTensor:
        return PlanarTensor(*(part.to(ctx.device) for part in parts(grad)))


# the same operator on either plane, besides views: copies, linear maps with real coefficients
_EACH = frozenset(row["operator"] for row in read_table("operators.csv") if row["runs_on"] == "planes")
_SHAPED = frozenset(("squeeze_", "unsqueeze_", "transpose_", "t_", "resize_", "set_", "as_strided_"))


def _plane(value: Any, which: str) -> Any:
    """Return the same argument for one plane: planes of planar tensors, real dtypes for complex ones."""
    if isinstance(value, PlanarTensor):
        return getattr(value, which)
    if isinstance(value, Tensor):
        if value.is_complex():
            return value.real if which == "real_plane" else value.imag
        # indices and masks are the same for both planes; real numbers have no imaginary part
        return torch.zeros_like(value) if which == "imag_plane" and value.is_floating_point() else value
    return value.to_real() if isinstance(value, torch.dtype) and value.is_complex else value


def _each(func: Any, args: Any, kwargs: Any) -> Any:
    dtype = kwargs.get("dtype")
    value = args[2] if func._schema.name == "aten::constant_pad_nd" and len(args) > 2 else 0
    mixed = [x for x in tree_leaves(args) if isinstance(x, Tensor) and not x.is_complex() and not x.is_floating_point()]
    joined = func._schema.name in ("aten::cat", "aten::stack") and mixed
    if (dtype is not None and not dtype.is_complex) or value != 0 or joined:
        return NotImplemented
    each = [tree_map(lambda x, which=which: _plane(x, which), (args, kwargs)) for which in ("real_plane", "imag_plane")]
    real, imag = (func(*given, **named) for given, named in each)
    if func._schema.name.endswith("_"):
        return args[0]
    return PlanarTensor(real, imag) if isinstance(real, Tensor) else list(map(PlanarTensor, real, imag))


def transform(name: str, args: Any, kwargs: Any) -> Any:
    """Return the result of an operator whose analog takes planes, by its kernels alone; `NotImplemented` elsewhere."""
    analog = operators()[name]
    library = analog.name.partition(".")[0]
    try:
        # what is in device memory has nowhere else to go that has complex numbers
        with backend("nki" if get_backend(library) == "auto" else get_backend(library), library=library):
            return analog.run(args, kwargs)[0]
    except TrnError:
        return NotImplemented


def on_host(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute on the host what the device cannot, and put the results back."""
    tensors = (x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor))
    home = next(x.device for x in tensors if isinstance(x, PlanarTensor) or not x.is_cpu)

    def fetch(x: Any) -> Any:
        if isinstance(x, PlanarTensor):
            return merge_planes(x)
        return x.cpu() if isinstance(x, Tensor) else torch.device("cpu") if isinstance(x, torch.device) else x

    def put(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return PlanarTensor(*(part.to(home) for part in parts(x))) if x.is_complex() else x.to(home)

    return tree_map(put, func(*tree_map(fetch, args), **tree_map(fetch, kwargs)))


def merge_planes(x: PlanarTensor) -> Tensor:
    """Return the complex tensor on the host."""
    return torch.complex(x.real_plane.cpu(), x.imag_plane.cpu())


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the planes of a complex tensor, contiguous, so that a device can take them."""
    x = x.resolve_conj()
    return x.real.contiguous(), x.imag.contiguous()


def _copy_into(target: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
    """``copy_``: into planes, or the real part into a real tensor."""
    if not isinstance(target, PlanarTensor):
        if not target.is_complex():
            return target.copy_(_plane(source, "real_plane"))
        return target.copy_(merge_planes(source))
    target.real_plane.copy_(_plane(source, "real_plane"))
    is_complex = isinstance(source, Tensor) and source.is_complex()
    target.imag_plane.copy_(_plane(source, "imag_plane")) if is_complex else target.imag_plane.zero_()
    return target


def _to_copy(x: Any, *, dtype: Any = None, device: Any = None, layout: Any = None, **options: Any) -> Any:
    where = x.device if device is None else torch.device(device)
    if dtype is torch.bool:
        return ((x.real_plane != 0) | (x.imag_plane != 0)).to(where)
    if dtype is not None and not dtype.is_complex:
        return x.real_plane.to(device=where, dtype=dtype)
    if where.type == "cpu" and not x.is_cpu:
        return merge_planes(x).to(dtype or x.dtype)
    real = None if dtype is None else dtype.to_real()
    return PlanarTensor(*(p.to(device=where, dtype=real or p.dtype) for p in (x.real_plane, x.imag_plane)))


def _planes(value: Any) -> tuple[Any, Any]:
    """Return both planes of an operand; the second is ``None`` for real numbers."""
    if isinstance(value, PlanarTensor):
        return value.real_plane, value.imag_plane
    if isinstance(value, Tensor):
        return parts(value) if value.is_complex() else (value, None)
    return (value.real, value.imag) if isinstance(value, complex) else (value, None)


def _sum(sign: int) -> Callable[..., Any]:
    """Return addition or subtraction."""

    def compute(a: Any, b: Any, *, alpha: Any = 1) -> Any:
        if isinstance(alpha, complex):
            return NotImplemented
        (left, left_imag), (right, right_imag) = _planes(a), _planes(b)
        real, imag = left + sign * alpha * right, left_imag
        if right_imag is not None:
            imag = sign * alpha * right_imag if imag is None else imag + sign * alpha * right_imag
        return PlanarTensor(real, imag.to(real.dtype).expand_as(real))

    return compute


def _product(multiply: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a bilinear operator: as many real products on the device as there are pairs of planes."""

    def compute(a: Any, b: Any) -> Any:
        (left, left_imag), (right, right_imag) = _planes(a), _planes(b)
        if right_imag is None:
            return PlanarTensor(multiply(left, right), multiply(left_imag, right))
        if left_imag is None:
            return PlanarTensor(multiply(left, right), multiply(left, right_imag))
        real = multiply(left, right) - multiply(left_imag, right_imag)
        return PlanarTensor(real, multiply(left, right_imag) + multiply(left_imag, right))

    return compute


def _divide(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        return NotImplemented
    if not isinstance(b, PlanarTensor):
        return _scale(a, b)
    # scaled first, so that nothing overflows on the way
    size = torch.maximum(b.real_plane.abs(), b.imag_plane.abs())
    re, im = b.real_plane / size, b.imag_plane / size
    quotient = PlanarTensor(re, -im) * a
    return _scale(_scale(quotient, re * re + im * im), size)


def _scale(a: Any, by: Any) -> Any:
    if isinstance(by, complex) or (isinstance(by, Tensor) and by.is_complex()):
        return a * (1 / by)
    return PlanarTensor(a.real_plane / by, a.imag_plane / by)


def _choose_planes(condition: Tensor, a: Any, b: Any) -> Any:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return NotImplemented
    names = ("real_plane", "imag_plane")
    return PlanarTensor(*(torch.where(condition, _plane(a, name), _plane(b, name)) for name in names))


def _magnitude(x: PlanarTensor) -> Tensor:
    return torch.hypot(x.real_plane, x.imag_plane)


def _sign(x: PlanarTensor) -> PlanarTensor:
    size = _magnitude(x)
    size = torch.where(size == 0, torch.ones_like(size), size)
    return PlanarTensor(x.real_plane / size, x.imag_plane / size)


def _conjugate(x: PlanarTensor) -> PlanarTensor:
    return PlanarTensor(x.real_plane, -x.imag_plane)


_BY_HAND: dict[str, Callable[..., Any]] = {
    "_to_copy": _to_copy,
    "copy_": _copy_into,
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product(operator.mul),
    "div": _divide,
    **dict.fromkeys(("mm", "bmm", "mv"), _product(operator.matmul)),
    "abs": _magnitude,
    "angle": lambda x: torch.atan2(x.imag_plane, x.real_plane),
    "sgn": _sign,
    "exp": lambda x: PlanarTensor(x.real_plane.exp() * x.imag_plane.cos(), x.real_plane.exp() * x.imag_plane.sin()),
    "log": lambda x: PlanarTensor(_magnitude(x).log(), torch.atan2(x.imag_plane, x.real_plane)),
    "reciprocal": lambda x: _divide(1.0, x),
    "pow": lambda x, power: x * x if isinstance(power, int) and power == 2 else NotImplemented,
    "dot": lambda a, b: (a * b).sum(),
    "vdot": lambda a, b: (a.conj() * b).sum(),
    "where": _choose_planes,
    "_conj": _conjugate,
    "conj_physical": _conjugate,
    "_conj_physical": _conjugate,
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
    "view_as_real": lambda x: torch.stack((x.real_plane, x.imag_plane), -1),
    "real": lambda x: x.real_plane,
    "imag": lambda x: x.imag_plane,
    "_local_scalar_dense": lambda x: complex(x.real_plane.item(), x.imag_plane.item()),
    "ones_like": lambda x, **options: PlanarTensor(torch.ones_like(x.real_plane), torch.zeros_like(x.imag_plane)),
}
