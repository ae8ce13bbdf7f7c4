"""Base of decompositions: a network of small tensors that stands for a large one, and how it converged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trnsci import ArgumentError, DtypeError, check, figures
from trnsim import notebook

Progress = Callable[[int, float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """How an iteration ended: sweeps, whether it met its tolerance, relative error after each sweep."""

    iterations: int
    converged: bool
    errors: tuple[float, ...] = field(repr=False)

    @property
    def error(self) -> float:
        """Relative error ``|x - approximation| / |x|`` at the end."""
        return self.errors[-1] if self.errors else 0.0

    def _repr_html_(self) -> str:
        return notebook.fragment(repr(self), notebook.curve("relative error after each sweep", self.errors))

    def plot(self, axes: figures.Axes | None = None) -> figures.Axes:
        """Draw the relative error after each sweep into Matplotlib's axes, new ones by default; return them."""
        return figures.plot_convergence(self.errors, "relative error", axes)


def relative_error(x: Tensor, norm: Tensor, square: Tensor, approximation: Callable[[], Tensor]) -> float:
    """Return the root of the relative ``square`` distance to ``x``, which cancellation spoils near zero.

    The approximation itself is formed only where the square is too small to be trusted.
    """
    if float(norm) == 0:
        return 0.0
    if float(square) > 1e6 * torch.finfo(x.dtype).eps:
        return float(square.sqrt())
    return float(torch.linalg.vector_norm(x - approximation()) / norm)


class Decomposed:
    """A tensor kept as a network. `einsum` takes it as an operand and contracts its parts, never the whole."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor it stands for."""
        raise NotImplementedError

    def network(self, labels: str, fresh: Callable[[], str]) -> list[tuple[str, Tensor]]:
        """Return the parts and their labels, given labels for the axes; ``fresh`` creates inner ones."""
        raise NotImplementedError

    def reconstruct(self) -> Tensor:
        """Return the whole tensor."""
        from trntensor.einsum import einsum

        labels = "".join(chr(ord("a") + axis) for axis in range(len(self.shape)))
        whole: Tensor = einsum(f"{labels}->{labels}", self)
        return whole


def expand_operands(text: str, operands: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Expand decomposed operands into their parts; the output becomes explicit first."""
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    check.equal("einsum", "number of operands", subscripts=len(terms), call=len(operands))
    check.refuse("." in text, "einsum", "subscripts", text, "no ellipsis beside a decomposed operand")
    if not arrow:
        letters = [label for term in terms for label in term]
        right = "".join(sorted(label for label in set(letters) if letters.count(label) == 1))
    used = set(text)
    spare = (chr(code) for code in range(0x4E00, 0x9FFF) if chr(code) not in used)
    names: list[str] = []
    tensors: list[Any] = []
    for term, x in zip(terms, operands, strict=True):
        if not isinstance(x, Decomposed):
            names.append(term)
            tensors.append(x)
            continue
        if len(term) != len(x.shape):
            raise ArgumentError(
                "einsum", "number of axes", {f"subscripts {term!r}": len(term), "operand": len(x.shape)}
            )
        for labels, part in x.network(term, lambda: next(spare)):
            names.append(labels)
            tensors.append(part)
    return f"{','.join(names)}->{right}", tuple(tensors)


def real_input(op: str, x: Any, minimum: int = 1) -> tuple[Tensor, int]:
    """Check for a finite floating-point tensor of at least ``minimum`` axes, in a dtype of linear algebra.

    Returns it divided by a power of two, so that its squares are in range, and the exponent.
    """
    check.dense(op, x=x)
    check.data(op, wrapped=True, x=x)
    if not isinstance(x, Tensor) or not (x.dtype.is_floating_point or x.dtype.is_complex):
        got = x.dtype if isinstance(x, Tensor) else type(x)
        raise DtypeError(op, "dtype of x", got, "a floating-point tensor")
    if x.ndim < minimum or x.numel() == 0:
        raise ArgumentError(op, "shape of x", tuple(x.shape), f"at least {minimum} axes and no empty one")
    if not x.is_meta and not bool(x.isfinite().all()):
        raise ArgumentError(op, "x", "an entry that is NaN or infinite", "finite entries")
    return scale_down(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x)


def scale_down(x: Tensor) -> tuple[Tensor, int]:
    """Return a tensor whose largest entry is near 1, and the exponent of the power of two it was divided by."""
    parts = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    exponent = int(torch.frexp(parts.abs().max())[1])
    return scale_up(x, -exponent), exponent


def scale_up(x: Tensor, exponent: int) -> Tensor:
    """Multiply by a power of two, in two steps, each inside the range."""
    half = exponent // 2
    return x * 2.0**half * 2.0 ** (exponent - half) if exponent else x


def unfold(x: Tensor, axis: int) -> Tensor:
    """Return [n_axis, everything else]."""
    return x.movedim(axis, 0).reshape(x.shape[axis], -1)


def check_sweeps(op: str, max_iter: Any, tol: Any, callback: Any) -> None:
    """Check what ends an iteration."""
    check.integer(op, "max_iter", max_iter, 1, 2**63 - 1)
    check.real(op, "tol", tol)
    if callback is not None and not callable(callback):
        raise DtypeError(op, "callback", type(callback), "a function of sweep and error")
