"""Types of trntensor: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.nki import HAS_NKI as HAS_NKI
from trnsci.precision import Precision
from trntensor.block_sparse import BlockSparse as BlockSparse, block_einsum as block_einsum
from trntensor.cp import CP as CP
from trntensor.decomposed import Convergence as Convergence, Decomposed, Progress
from trntensor.elementwise import Pairing
from trntensor.equation import Order
from trntensor.fuse import FusedProgram as FusedProgram, fuse as fuse
from trntensor.mp2_energy import MP2Energy as MP2Energy
from trntensor.plan import Contraction as Contraction, ContractionPlan as ContractionPlan
from trntensor.tensor_train import TensorTrain as TensorTrain
from trntensor.tucker import Tucker as Tucker

__all__ = [
    "CP",
    "HAS_NKI",
    "BlockSparse",
    "Contraction",
    "ContractionPlan",
    "Convergence",
    "FusedProgram",
    "MP2Energy",
    "TensorTrain",
    "Tucker",
    "ao_to_mo_transform",
    "block_einsum",
    "block_sparse",
    "cp",
    "einsum",
    "elementwise",
    "elementwise_binary",
    "elementwise_trinary",
    "from_xla",
    "fuse",
    "get_backend",
    "mp2_energy",
    "multi_einsum",
    "permute",
    "plan",
    "reduce",
    "set_backend",
    "tensor_train",
    "tensordot",
    "to_xla",
    "transpose",
    "tucker",
]

@overload
def ao_to_mo_transform(eri: Tensor, C_occ: Tensor, C_vir: Tensor) -> Tensor: ...
@overload
def ao_to_mo_transform(eri: Array, C_occ: Array, C_vir: Array) -> Array: ...
@overload
def ao_to_mo_transform(eri: Tensor | Array, C_occ: Tensor | Array, C_vir: Tensor | Array) -> Tensor: ...
def block_sparse(x: Array, sections: Sequence[Sequence[int]]) -> BlockSparse: ...
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
) -> CP: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
@overload
def elementwise(
    subscripts: str,
    *operands: Tensor,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def elementwise(
    subscripts: str,
    *operands: Array,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Array | None = None,
) -> Array: ...
@overload
def elementwise(
    subscripts: str,
    *operands: Tensor | Array,
    scalars: Sequence[complex] | None = None,
    operators: Sequence[str] | None = None,
    combine: str | Sequence[str] = "add",
    out: Tensor | Array | None = None,
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
@overload
def from_xla(tensor: Tensor) -> Tensor: ...
@overload
def from_xla(tensor: Array) -> Array: ...
def get_backend() -> BackendName: ...
@overload
def mp2_energy(
    B: Tensor,
    eps_occ: Tensor,
    eps_vir: Tensor,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor | MP2Energy: ...
@overload
def mp2_energy(
    B: Array,
    eps_occ: Array,
    eps_vir: Array,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Array | MP2Energy: ...
@overload
def mp2_energy(
    B: Tensor | Array,
    eps_occ: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    parts: bool = False,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor | MP2Energy: ...
@overload
def multi_einsum(
    expressions: Sequence[Sequence[str | Tensor | Decomposed | Sequence[object]]],
    *,
    precision: Precision | None = None,
    optimize: Order = "auto",
) -> list[Tensor]: ...
@overload
def multi_einsum(
    expressions: Sequence[Sequence[str | Array | Decomposed | Sequence[object]]],
    *,
    precision: Precision | None = None,
    optimize: Order = "auto",
) -> list[Array]: ...
@overload
def permute(
    subscripts: str, a: Tensor, *, alpha: complex = 1.0, operator: str = "identity", out: Tensor | None = None
) -> Tensor: ...
@overload
def permute(
    subscripts: str, a: Array, *, alpha: complex = 1.0, operator: str = "identity", out: Array | None = None
) -> Array: ...
@overload
def permute(
    subscripts: str,
    a: Tensor | Array,
    *,
    alpha: complex = 1.0,
    operator: str = "identity",
    out: Tensor | Array | None = None,
) -> Tensor: ...
def plan(
    subscripts: str | Tensor | Array | Decomposed | Sequence[object],
    *shapes_or_tensors: Tensor | Array | Decomposed | Sequence[object],
    dtype: torch.dtype | None = None,
    precision: Precision | None = None,
    target_error: float | None = None,
    memory_limit: int | None = None,
    optimize: Order = "auto",
    constants: Sequence[int] = ...,
) -> ContractionPlan: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
def tensor_train(x: Array, rank: int | Sequence[int] | None = None, *, error: float | None = None) -> TensorTrain: ...
@overload
def tensordot(a: Tensor, b: Tensor, axes: Pairing = 2, *, dims: Pairing | None = None) -> Tensor: ...
@overload
def tensordot(a: Array, b: Array, axes: Pairing = 2, *, dims: Pairing | None = None) -> Array: ...
@overload
def tensordot(a: Tensor | Array, b: Tensor | Array, axes: Pairing = 2, *, dims: Pairing | None = None) -> Tensor: ...
@overload
def to_xla(tensor: Tensor) -> Tensor: ...
@overload
def to_xla(tensor: Array) -> Array: ...
@overload
def transpose(a: Tensor, axes: Sequence[int]) -> Tensor: ...
@overload
def transpose(a: Array, axes: Sequence[int]) -> Array: ...
def tucker(
    x: Array,
    ranks: int | Sequence[int],
    *,
    method: str = "hooi",
    max_iter: int = 50,
    tol: float = 1e-08,
    callback: Progress | None = None,
) -> Tucker: ...
