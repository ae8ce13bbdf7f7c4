"""Types of trntensor: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.precision import Precision
from trntensor.block_sparse import BlockSparse
from trntensor.cp import CP
from trntensor.decomposed import Decomposed, Progress
from trntensor.elementwise import Pairing
from trntensor.equation import Order
from trntensor.mp2_energy import MP2Energy
from trntensor.plan import ContractionPlan
from trntensor.tensor_train import TensorTrain
from trntensor.tucker import Tucker

@overload
def ao_to_mo_transform(eri: Tensor, C_occ: Tensor, C_vir: Tensor) -> Tensor:
    """Transform integrals to occupied and virtual orbitals."""

@overload
def ao_to_mo_transform(eri: Array, C_occ: Array, C_vir: Array) -> Array:
    """Transform integrals to occupied and virtual orbitals."""

@overload
def ao_to_mo_transform(eri: Tensor | Array, C_occ: Tensor | Array, C_vir: Tensor | Array) -> Tensor:
    """Transform integrals to occupied and virtual orbitals."""

def block_sparse(x: Array, sections: Sequence[Sequence[int]]) -> BlockSparse:
    """Cut a tensor into blocks and keep those that are not zero."""

def cp(
    x: Tensor | Array,
    rank: int,
    *,
    nonnegative: bool = False,
    init: str | Sequence[Tensor | Array] = "svd",
    max_iter: int = 200,
    tol: float = 1e-08,
    seed: int = 0,
    callback: Progress | None = None,
) -> CP:
    """Approximate a tensor by a sum of ``rank`` products of vectors."""

@overload
def einsum(
    subscripts: str | Tensor | Decomposed | Sequence[object],
    *operands: Tensor | Decomposed | Sequence[object],
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Tensor | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    c: Tensor | None = None,
) -> Tensor:
    """Contract tensors: ``alpha * contraction + beta * c``."""

@overload
def einsum(
    subscripts: str | Array | Decomposed | Sequence[object],
    *operands: Array | Decomposed | Sequence[object],
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Array | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    c: Array | None = None,
) -> Array:
    """Contract tensors: ``alpha * contraction + beta * c``."""

@overload
def einsum(
    subscripts: str | Tensor | Array | Decomposed | Sequence[object],
    *operands: Tensor | Array | Decomposed | Sequence[object],
    alpha: complex = 1.0,
    beta: complex = 0.0,
    out: Tensor | Array | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    c: Tensor | Array | None = None,
) -> Tensor:
    """Contract tensors: ``alpha * contraction + beta * c``."""

@overload
def elementwise(
    subscripts: str,
    *operands: Tensor,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Tensor | None = None,
) -> Tensor:
    """Combine one, two or three (or more) tensors element by element, axes matched by label."""

@overload
def elementwise(
    subscripts: str,
    *operands: Array,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Array | None = None,
) -> Array:
    """Combine one, two or three (or more) tensors element by element, axes matched by label."""

@overload
def elementwise(
    subscripts: str,
    *operands: Tensor | Array,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Tensor | Array | None = None,
) -> Tensor:
    """Combine one, two or three (or more) tensors element by element, axes matched by label."""

@overload
def elementwise_binary(
    subscripts: str,
    a: Tensor,
    c: Tensor,
    *,
    alpha: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: str = "add",
    out: Tensor | None = None,
) -> Tensor:
    """Return ``(alpha op(A)) combine (gamma op(C))``: `elementwise` under the names of cuTENSOR's binary operation."""

@overload
def elementwise_binary(
    subscripts: str,
    a: Array,
    c: Array,
    *,
    alpha: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: str = "add",
    out: Array | None = None,
) -> Array:
    """Return ``(alpha op(A)) combine (gamma op(C))``: `elementwise` under the names of cuTENSOR's binary operation."""

@overload
def elementwise_binary(
    subscripts: str,
    a: Tensor | Array,
    c: Tensor | Array,
    *,
    alpha: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: str = "add",
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``(alpha op(A)) combine (gamma op(C))``: `elementwise` under the names of cuTENSOR's binary operation."""

@overload
def elementwise_trinary(
    subscripts: str,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: Sequence[str] = ...,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``((alpha op(A)) combine0 (beta op(B))) combine1 (gamma op(C))``, as cuTENSOR names it."""

@overload
def elementwise_trinary(
    subscripts: str,
    a: Array,
    b: Array,
    c: Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: Sequence[str] = ...,
    out: Array | None = None,
) -> Array:
    """Return ``((alpha op(A)) combine0 (beta op(B))) combine1 (gamma op(C))``, as cuTENSOR names it."""

@overload
def elementwise_trinary(
    subscripts: str,
    a: Tensor | Array,
    b: Tensor | Array,
    c: Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
    gamma: complex = 1.0,
    operators: Sequence[str] = ...,
    combine: Sequence[str] = ...,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``((alpha op(A)) combine0 (beta op(B))) combine1 (gamma op(C))``, as cuTENSOR names it."""

@overload
def from_xla(tensor: Tensor) -> Tensor:
    """Copy a resident tensor to the host; a host tensor is returned as it is."""

@overload
def from_xla(tensor: Array) -> Array:
    """Copy a resident tensor to the host; a host tensor is returned as it is."""

def get_backend() -> BackendName:
    """Return the backend of trntensor in force here."""

@overload
def mp2_energy(
    B: Tensor,
    eps_occ: Tensor,
    eps_vir: Tensor,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor | MP2Energy:
    """Return the closed-shell MP2 correlation energy, ``sum T_ab (2 T_ab - T_ba) / (e_i + e_j - e_a - e_b)``."""

@overload
def mp2_energy(
    B: Array,
    eps_occ: Array,
    eps_vir: Array,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Array | MP2Energy:
    """Return the closed-shell MP2 correlation energy, ``sum T_ab (2 T_ab - T_ba) / (e_i + e_j - e_a - e_b)``."""

@overload
def mp2_energy(
    B: Tensor | Array,
    eps_occ: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor | MP2Energy:
    """Return the closed-shell MP2 correlation energy, ``sum T_ab (2 T_ab - T_ba) / (e_i + e_j - e_a - e_b)``."""

@overload
def multi_einsum(
    expressions: Sequence[Sequence[str | Tensor | Decomposed | Sequence[object]]],
    *,
    precision: Precision | None = None,
    optimize: Order = "auto",
) -> list[Tensor]:
    """Evaluate several contractions together."""

@overload
def multi_einsum(
    expressions: Sequence[Sequence[str | Array | Decomposed | Sequence[object]]],
    *,
    precision: Precision | None = None,
    optimize: Order = "auto",
) -> list[Array]:
    """Evaluate several contractions together."""

def permute(
    subscripts: str,
    a: Tensor | Array,
    *,
    alpha: complex = 1.0,
    operator: str = "identity",
    out: Tensor | Array | None = None,
) -> Tensor:
    """Reorder axes: ``alpha * op(a)`` with the labels of the result, ``"ijk->kij"``, which are those of `a`."""

def plan(
    subscripts: str | Tensor | Array | Decomposed | Sequence[object],
    *shapes_or_tensors: Tensor | Array | Decomposed | Sequence[object],
    dtype: torch.dtype | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    constants: Sequence[int] = ...,
) -> ContractionPlan:
    """Plan a contraction without running it."""

@overload
def reduce(
    subscripts: str,
    a: Tensor,
    *,
    op: str = "add",
    alpha: complex = 1.0,
    operator: str = "identity",
    beta: complex = 0.0,
    c: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Reduce over the labels the result lacks: ``alpha * fold(op(a)) + beta * c``."""

@overload
def reduce(
    subscripts: str,
    a: Array,
    *,
    op: str = "add",
    alpha: complex = 1.0,
    operator: str = "identity",
    beta: complex = 0.0,
    c: Array | None = None,
    out: Array | None = None,
) -> Array:
    """Reduce over the labels the result lacks: ``alpha * fold(op(a)) + beta * c``."""

@overload
def reduce(
    subscripts: str,
    a: Tensor | Array,
    *,
    op: str = "add",
    alpha: complex = 1.0,
    operator: str = "identity",
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Reduce over the labels the result lacks: ``alpha * fold(op(a)) + beta * c``."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trntensor: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

def tensor_train(x: Array, rank: int | Sequence[int] | None = None, *, error: float | None = None) -> TensorTrain:
    """Decompose a tensor into a train of three-index cores."""

@overload
def tensordot(a: Tensor, b: Tensor, axes: Pairing = 2, *, dims: Pairing | None = None) -> Tensor:
    """Contract over ``axes`` as ``numpy.tensordot``; opt_einsum calls it for ``contract(..., backend="trntensor")``."""

@overload
def tensordot(a: Array, b: Array, axes: Pairing = 2, *, dims: Pairing | None = None) -> Array:
    """Contract over ``axes`` as ``numpy.tensordot``; opt_einsum calls it for ``contract(..., backend="trntensor")``."""

@overload
def tensordot(a: Tensor | Array, b: Tensor | Array, axes: Pairing = 2, *, dims: Pairing | None = None) -> Tensor:
    """Contract over ``axes`` as ``numpy.tensordot``; opt_einsum calls it for ``contract(..., backend="trntensor")``."""

@overload
def to_xla(tensor: Tensor) -> Tensor:
    """Copy a tensor to device memory. Ops on resident operands skip the transfer, and their results are resident."""

@overload
def to_xla(tensor: Array) -> Array:
    """Copy a tensor to device memory. Ops on resident operands skip the transfer, and their results are resident."""

@overload
def transpose(a: Tensor, axes: Sequence[int]) -> Tensor:
    """Reorder axes as ``numpy.transpose``; opt_einsum calls it for ``contract(..., backend="trntensor")``."""

@overload
def transpose(a: Array, axes: Sequence[int]) -> Array:
    """Reorder axes as ``numpy.transpose``; opt_einsum calls it for ``contract(..., backend="trntensor")``."""

def tucker(
    x: Array,
    ranks: int | Sequence[int],
    *,
    method: str = "hooi",
    max_iter: int = 50,
    tol: float = 1e-08,
    callback: Progress | None = None,
) -> Tucker:
    """Approximate a tensor by a small core and an orthonormal factor per axis."""
