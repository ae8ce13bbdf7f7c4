"""The earlier `trntensor`: an addend as ``out=``, strategies in plans, decompositions as tuples."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import trnsci
import trntensor
from trnsci import ArgumentError

_ours = {
    name: getattr(trntensor, name)
    for name in ("einsum", "plan", "multi_einsum", "cp", "tucker", "tensor_train")
}  # fmt: skip
# On the host the plain product, whatever is asked of a device.
_PRECISIONS = {
    "fast": None,
    "fp32": "fp32",
    "kahan": "compensated",
    "compensated": "compensated",
    "fp64": "fp64",
    "dd": "fp64",
}


def _policy(op: str, precision: str) -> Any:
    if precision not in _PRECISIONS:
        raise ArgumentError(op, "precision", precision, f"one of {', '.join(map(repr, _PRECISIONS))}")
    return _PRECISIONS[precision]


def einsum(
    subscripts: str,
    *operands: Tensor,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Tensor | None = None,
    dtype: torch.dtype | None = None,
    precision: str = "fast",
) -> Tensor:
    """Return ``alpha * contraction + beta * out``; ``out`` is read and left alone."""
    values = operands if dtype is None else tuple(x.to(dtype) for x in operands)
    # plans are kept by what was contracted, and counted
    if all(isinstance(x, Tensor) for x in values):
        plan_contraction(subscripts, *values, precision=precision)
    addend = {} if out is None or beta == 0 else {"c": out if dtype is None else out.to(dtype), "beta": beta}
    return _ours["einsum"](subscripts, *values, alpha=alpha, precision=_policy("einsum", precision), **addend)


def multi_einsum(*contractions: Sequence[Any]) -> list[Tensor]:
    """Return several contractions, each given as ``(subscripts, operand, ...)`` or ``(subscripts, operands)``."""
    flat = [
        (text, *(rest[0] if len(rest) == 1 and isinstance(rest[0], list | tuple) else rest))
        for text, *rest in contractions
    ]
    return _ours["multi_einsum"](flat)


@dataclass
class ContractionPlan:
    """How one contraction is done: as a matrix product, a batch of them, or otherwise."""

    subscripts: str
    strategy: str
    backend: str = "pytorch"
    transA: bool = False
    transB: bool = False
    contraction_indices: list[str] = field(default_factory=list)
    batch_indices: list[str] = field(default_factory=list)
    output_indices: list[str] = field(default_factory=list)
    estimated_flops: int = 0
    contraction_path: list[Any] = field(default_factory=list)
    precision: str = "fast"


def plan_contraction(subscripts: str, *operands: Tensor, precision: str = "fast") -> ContractionPlan:
    """Return the strategy of a contraction, its indices, its work and the backend that runs it."""
    return _plan(subscripts, precision, *((tuple(x.shape), x.dtype, x.device) for x in operands))


@functools.lru_cache(maxsize=1024)
def _plan(subscripts: str, precision: str, *specs: tuple[Any, ...]) -> ContractionPlan:
    """Plan for operands given by shape, dtype and device."""
    operands = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in specs]
    plan = _ours["plan"](subscripts, *operands, precision=_policy("plan_contraction", precision))
    text = _complete_equation(subscripts).replace("...", "")
    inputs, output = text.split("->")
    terms = inputs.split(",")
    result = ContractionPlan(subscripts, "torch", output_indices=list(output), precision=precision)
    result.estimated_flops = int(plan.flops)
    result.backend = "nki" if "nki" in str(plan.backend) else "pytorch"
    result.contraction_indices = sorted(set("".join(terms)) - set(output))
    if len(terms) > 2:
        result.strategy = "path"
        result.contraction_path = [row.subscripts for row in plan.contractions]
    elif len(terms) == 2 and "..." not in subscripts:
        _classify(result, terms, output)
    return result


def _complete_equation(subscripts: str) -> str:
    """Return an equation with its output, as NumPy completes it."""
    text = subscripts.replace(" ", "")
    if "->" in text:
        return text
    letters = "".join(text.split(","))
    return f"{text}->{''.join(sorted(x for x in set(letters) if letters.count(x) == 1))}"


def _classify(plan: ContractionPlan, terms: Sequence[str], output: str) -> None:
    """Name a product of two operands: ``matmul`` and ``bmm`` where their axes are those of matrices."""
    a, b = terms
    shared, both = set(a) & set(b), set(a) & set(b) & set(output)
    plan.batch_indices = sorted(both)
    plan.contraction_indices = sorted(shared - both)
    lead = len(both)
    plain = all(len(set(x)) == len(x) for x in (*terms, output)) and len(plan.contraction_indices) == 1
    batched = plain and a[:lead] == b[:lead] == output[:lead] and set(a[:lead]) == both
    if not batched or not len(a) == len(b) == len(output) == lead + 2:
        return
    inner = plan.contraction_indices[0]
    plan.strategy = "bmm" if lead else "matmul"
    plan.transA, plan.transB = a[lead] == inner, b[-1] == inner


def estimate_flops(subscripts: str, *operands: Tensor) -> int:
    """Return the floating-point operations of a contraction."""
    return int(_ours["plan"](subscripts, *operands).flops)


def clear_plan_cache() -> None:
    """Forget all plans."""
    _plan.cache_clear()
    trnsci.clear_plans()


def plan_cache_info() -> Any:
    """Return how many plans are kept, and how often one was found, as `functools.lru_cache` counts them."""
    return _plan.cache_info()


def cp_decompose(
    tensor: Tensor,
    rank: int,
    max_iter: int = 100,
    tol: float = 1e-06,
    nonneg: bool = False,
    factors: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Return factors and weights of a sum of products of vectors, from given factors or from singular vectors."""
    start = {} if factors is None else {"init": list(factors)}
    result = _ours["cp"](tensor, rank, nonnegative=nonneg, max_iter=max_iter, tol=tol, **start)
    return list(result.factors), result.weights


def cp_reconstruct(factors: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the tensor of factors and weights."""
    letters = "abcdefghijklmnopqrstuvwxy"[: len(factors)]
    terms = ",".join(f"{x}z" for x in letters)
    return _ours["einsum"](f"{terms},z->{letters}", *factors, weights)


def tucker_decompose(tensor: Tensor, ranks: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
    """Return core and factors."""
    result = _ours["tucker"](tensor, ranks)
    return result.core, list(result.factors)


def tucker_reconstruct(core: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Return the tensor of a core and its factors."""
    small, large = "abcdefghijklm"[: core.ndim], "nopqrstuvwxyz"[: core.ndim]
    terms = ",".join(f"{x}{y}" for x, y in zip(large, small, strict=True))
    return _ours["einsum"](f"{small},{terms}->{large}", core, *factors)


def tt_decompose(tensor: Tensor, max_rank: int) -> list[Tensor]:
    """Return the cores of a tensor train."""
    return list(_ours["tensor_train"](tensor, max_rank).cores)


def tt_reconstruct(cores: Sequence[Tensor]) -> Tensor:
    """Return the tensor of a train of cores [r, n, s]."""
    result = cores[0]
    for core in cores[1:]:
        result = torch.tensordot(result, core, dims=1)
    return result.squeeze(0).squeeze(-1)


_FUNCTIONS = (
    einsum, multi_einsum, plan_contraction, estimate_flops, clear_plan_cache, plan_cache_info, cp_decompose,
    cp_reconstruct, tucker_decompose, tucker_reconstruct, tt_decompose, tt_reconstruct,
)  # fmt: skip
MODULES: dict[str, dict[str, Any]] = {
    "trntensor": {x.__name__: x for x in (*_FUNCTIONS, ContractionPlan)},
    "trntensor.plan": {x.__name__: x for x in (ContractionPlan, plan_contraction, estimate_flops)},
}
