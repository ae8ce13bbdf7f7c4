"""The earlier `trnsolver`: thin decompositions, tolerances of 1e-6, preconditioners as ``M``."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import trnsolver
from trnsci.earlier.calls import read_calls

_HALF = (torch.float16, torch.bfloat16)
_ours = {name: getattr(trnsolver, name) for name in ("solve_spd", "cg", "gmres")}


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function: half precision is computed in float32."""

    @functools.wraps(function)
    def compute_in_single(*args: Any, **keywords: Any) -> Any:
        tensors = [x for x in (*args, *keywords.values()) if isinstance(x, Tensor) and x.dtype in _HALF]
        wide = [_cast(x, torch.float32) for x in args]
        result = function(*wide, **{k: _cast(v, torch.float32) for k, v in keywords.items()})
        return _cast(result, tensors[0].dtype, back=True) if tensors else result

    return compute_in_single


def _cast(value: Any, dtype: torch.dtype, *, back: bool = False) -> Any:
    """Convert half-precision tensors to ``dtype``, or with ``back`` float32 results."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.dtype in ((torch.float32,) if back else _HALF) else value
    if back and isinstance(value, tuple):
        parts = [_cast(part, dtype, back=True) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


@in_single
def solve_spd(A: Tensor, B: Tensor, iterative_refinement: bool = False) -> Tensor:
    """Solve a symmetric positive definite system, with one step of refinement in float64 where asked."""
    x: Tensor = _ours["solve_spd"](A, B)
    if not iterative_refinement:
        return x
    left, right = A.double(), B.double()
    columns = right.ndim == A.ndim
    image = left @ x.double() if columns else (left @ x.double().unsqueeze(-1)).squeeze(-1)
    correction: Tensor = _ours["solve_spd"](A, (right - image).to(B.dtype))
    return x + correction


def _apply(operator: Any) -> Any:
    """Return a preconditioner as a function: a matrix or a function of one vector."""
    if operator is None:
        return None
    if isinstance(operator, Tensor):
        return lambda r: operator @ r
    return lambda r: _on_columns(operator, r)


def _on_columns(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of one vector to each column."""
    if x.ndim == 1:
        return function(x)
    return torch.stack([function(column) for column in x.unbind(-1)], -1)


def _iterate(name: str, A: Any, b: Tensor, M: Any, **options: Any) -> tuple[Tensor, int, float]:
    matrix = A if isinstance(A, Tensor) or not callable(A) else functools.partial(_on_columns, A)
    x, iterations, residual = _ours[name](matrix, b, preconditioner=_apply(M), **options)
    return x, int(iterations), float(residual)


@in_single
def cg(
    A: Any, b: Tensor, x0: Tensor | None = None, tol: float = 1e-06, maxiter: int = 1000, M: Any = None
) -> tuple[Tensor, int, float]:
    """Solve by conjugate gradients; return the solution, the steps and the residual's norm."""
    return _iterate("cg", A, b, M, x0=x0, tol=tol, maxiter=maxiter)


@in_single
def gmres(
    A: Any, b: Tensor, x0: Tensor | None = None, tol: float = 1e-06, maxiter: int = 100, restart: int = 30
) -> tuple[Tensor, int, float]:
    """Solve by restarted GMRES; return the solution, the steps and the residual's norm."""
    return _iterate("gmres", A, b, None, x0=x0, tol=tol, maxiter=maxiter, restart=restart)


_FUNCTIONS = (solve_spd, cg, gmres)
MODULES: dict[str, dict[str, Any]] = {
    "trnsolver": read_calls("trnsolver", {"single": in_single})["trnsolver"] | {f.__name__: f for f in _FUNCTIONS},
}
