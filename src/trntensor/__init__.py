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

from trnsci import (
    HAS_NKI as HAS_NKI,
    earlier,
    from_xla as from_xla,
    library_functions as _library_functions,
    to_xla as to_xla,
)
from trnsim.lazy import export as _export
from trntensor.ao_to_mo_transform import ao_to_mo_transform as ao_to_mo_transform
from trntensor.block_sparse import (
    BlockSparse as BlockSparse,
    block_einsum as block_einsum,
    block_sparse as block_sparse,
)
from trntensor.cp import CP as CP, cp as cp
from trntensor.decomposed import Convergence as Convergence
from trntensor.einsum import einsum as einsum
from trntensor.elementwise import (
    elementwise as elementwise,
    elementwise_binary as elementwise_binary,
    elementwise_trinary as elementwise_trinary,
    permute as permute,
    reduce as reduce,
    tensordot as tensordot,
    transpose as transpose,
)
from trntensor.fuse import FusedProgram as FusedProgram, fuse as fuse
from trntensor.mp2_energy import MP2Energy as MP2Energy, mp2_energy as mp2_energy
from trntensor.multi_einsum import multi_einsum as multi_einsum
from trntensor.plan import Contraction as Contraction, ContractionPlan as ContractionPlan, plan as plan
from trntensor.tensor_train import TensorTrain as TensorTrain, tensor_train as tensor_train
from trntensor.tucker import Tucker as Tucker, tucker as tucker

set_backend, get_backend = _library_functions("trntensor")
earlier.spell(__name__)
_export(__name__)
