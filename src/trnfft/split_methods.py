"""Methods that a tensor of two planes applies to both alike, and those it leaves to torch's complex numbers."""

import functools
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, is_resident

# Methods of tensors that are one function of each plane, those of them that give several tensors, and what a plane says
# of the tensor.
ALIKE = frozenset(
    (
        *("reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "expand", "contiguous", "clone"),
        *("detach", "sum", "mean"),
        *("t", "ravel", "movedim", "moveaxis", "swapaxes", "swapdims", "unflatten", "broadcast_to", "repeat", "tile"),
        *("repeat_interleave", "roll", "flip", "fliplr", "flipud", "rot90", "narrow", "select", "index_select"),
        *("gather", "take", "take_along_dim", "diagonal", "diag", "diag_embed", "tril", "triu", "trace", "unfold"),
        *("cumsum", "cpu", "cuda", "pin_memory", "half", "bfloat16", "float", "double"),
    )
)
SEVERAL = frozenset(("chunk", "split", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit"))
OF_REAL = frozenset(("is_meta", "is_cuda", "stride", "numel", "dim", "size"))
# Memory, which two planes do not share, and what would change the tensor under everybody.
_REFUSED = frozenset(("data_ptr", "storage", "untyped_storage", "storage_offset", "set_", "resize_", "share_memory_"))


class Planes:
    """Methods that are one function of each plane."""

    __slots__ = ()

    real: Tensor
    imag: Tensor

    # no abstract base class: every transform asks whether its operand is one of these, which would take it longer
    def _with(self, real: Tensor, imag: Tensor) -> Self:
        """Return a tensor of the same kind with these planes."""
        raise NotImplementedError

    def _each(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return the tensor whose planes are ``fn`` of these."""
        return self._with(fn(self.real), fn(self.imag))

    def __getitem__(self, index: Any) -> Self:
        return self._each(lambda plane: plane[index])

    def view(self, *shape: Any) -> Self:
        """Return the same elements in other sizes; planes may be views already, so that this is `reshape`."""
        return self._each(lambda plane: plane.reshape(*shape))

    @property
    def mT(self) -> Self:
        """Last two dimensions swapped."""
        return self._each(lambda plane: plane.mT)

    @property
    def T(self) -> Self:
        """A matrix transposed."""
        return self._each(lambda plane: plane.transpose(0, 1) if plane.ndim == 2 else plane.T)

    @property
    def shape(self) -> torch.Size:
        """Sizes."""
        return self.real.shape

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the planes."""
        return self.real.dtype

    @property
    def device(self) -> torch.device:
        """Where the planes are."""
        return self.real.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.real.ndim

    @property
    def requires_grad(self) -> bool:
        """Whether either plane requires grad."""
        return self.real.requires_grad or self.imag.requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether both planes are leaves of the graph."""
        return self.real.is_leaf and self.imag.is_leaf

    @property
    def nbytes(self) -> int:
        """Bytes of both planes."""
        return self.real.nbytes + self.imag.nbytes

    def element_size(self) -> int:
        """Return bytes of a complex element."""
        return 2 * self.real.element_size()

    def is_contiguous(self) -> bool:
        """Return whether both planes are."""
        return self.real.is_contiguous() and self.imag.is_contiguous()

    def is_complex(self) -> bool:
        """Return ``True``."""
        return True

    def is_floating_point(self) -> bool:
        """Return ``False``: the planes are, the numbers are not."""
        return False

    def __len__(self) -> int:
        return len(self.real)

    def to_torch(self) -> Tensor:
        """Return a torch complex tensor."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Return any other method of a tensor: applied to each plane, or by torch on complex numbers."""
        if name in OF_REAL:
            return getattr(self.real, name)
        if name in ALIKE:
            return lambda *args, **kwargs: self._each(lambda plane: getattr(plane, name)(*args, **kwargs))
        if name in SEVERAL:
            return functools.partial(several, getattr(Tensor, name), self)
        method = getattr(Tensor, name, None)
        if name.startswith("_") or name in _REFUSED or not callable(method):
            raise AttributeError(f"a {type(self).__name__} has no {name!r}; its planes are .real and .imag")
        if name.endswith("_"):
            return functools.partial(_write_planes, method, self)
        return functools.partial(by_torch, method, self)


def several(function: Callable[..., Any], z: Planes, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Apply a function that gives several tensors to each plane."""
    pairs = zip(function(z.real, *args, **kwargs), function(z.imag, *args, **kwargs), strict=True)
    return tuple(z._with(re, im) for re, im in pairs)


def by_torch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a torch function on complex tensors; complex results become planes of the operands' dtype."""
    planes: list[Planes] = []
    operands, options = _join_planes(args, function, planes), _join_planes(kwargs, function, planes)
    if isinstance(kwargs.get("out"), Planes):
        raise ArgumentError(_name(function), "out", "planes", "None", hint="Copy the result with copy_")
    return _apart(function(*operands, **options), planes[0])


def _write_planes(function: Callable[..., Any], z: Planes, *args: Any, **kwargs: Any) -> Planes:
    """Return a method that changes its tensor: computed beside it and copied into its planes."""
    result = by_torch(function, z._each(torch.clone), *args, **kwargs)
    z.real.copy_(result.real)
    z.imag.copy_(result.imag)
    return z


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _join_planes(value: Any, function: Callable[..., Any], planes: list[Planes]) -> Any:
    """Return planes, in lists and dictionaries as well, as complex tensors."""
    if isinstance(value, Planes):
        planes.append(value)
        if is_resident(value.real):
            got = "planes in device memory"
            expected = "planes on the host, where torch has complex numbers"
            raise DtypeError(_name(function), "operand", got, expected, hint="Call from_device() first")
        return value.to_torch()
    if isinstance(value, list | tuple):
        return type(value)([_join_planes(item, function, planes) for item in value])
    return {k: _join_planes(v, function, planes) for k, v in value.items()} if isinstance(value, dict) else value


def _apart(value: Any, like: Planes) -> Any:
    if isinstance(value, Tensor) and value.is_complex():
        value = value.resolve_conj()
        parts = like._with(value.real, value.imag)
        return parts._each(lambda plane: plane.to(like.real.dtype)) if value.dtype == torch.complex64 else parts
    if isinstance(value, list | tuple):
        return type(value)([_apart(item, like) for item in value])
    return value
