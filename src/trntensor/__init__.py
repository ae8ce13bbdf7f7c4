"""trntensor: tensor contractions for Trainium, planned as a whole and fused across their boundaries.

| name | what it does |
|---|---|
| `einsum` | everything ``numpy.einsum`` accepts, with ``alpha``, ``beta``, precision and a memory limit |
| `plan`, `ContractionPlan` | what a contraction will do, as a value to print, keep, pickle and call |
| `multi_einsum` | several contractions as one program |
| `fuse`, `FusedProgram` | contract, apply a function, reduce; or contract twice: one kernel |
| `mp2_energy`, `ao_to_mo_transform` | named fused programs of quantum chemistry |
| `cp`, `tucker`, `tensor_train` | decompositions; `einsum` takes their results as operands |
| `elementwise`, `permute`, `reduce` | cuTENSOR's other operations, by label |
| `elementwise_binary`, `elementwise_trinary` | the same under cuTENSOR's names |
| `BlockSparse`, `block_sparse`, `block_einsum` | tensors of blocks, and their contraction as one program |
| `tensordot`, `transpose` | what opt_einsum calls for ``backend="trntensor"`` |
| `to_xla`, `from_xla` | keep operands in device memory |
"""

from typing import TYPE_CHECKING

from trnsci import HAS_NKI, earlier, from_xla, library_functions, to_xla
from trntensor.ao_to_mo_transform import ao_to_mo_transform
from trntensor.block_sparse import BlockSparse, block_einsum, block_sparse
from trntensor.cp import CP, cp
from trntensor.decomposed import Convergence
from trntensor.einsum import einsum
from trntensor.elementwise import (
    elementwise,
    elementwise_binary,
    elementwise_trinary,
    permute,
    reduce,
    tensordot,
    transpose,
)
from trntensor.fuse import FusedProgram, fuse
from trntensor.mp2_energy import MP2Energy, mp2_energy
from trntensor.multi_einsum import multi_einsum
from trntensor.plan import Contraction, ContractionPlan, plan
from trntensor.tensor_train import TensorTrain, tensor_train
from trntensor.tucker import Tucker, tucker

set_backend, get_backend = library_functions("trntensor")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

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
