"""Types of trntensor: written by ``python -m tools.stubs`` from the signatures in the source."""

from trnsci.nki import HAS_NKI as HAS_NKI
from trntensor._types import (
    ao_to_mo_transform as ao_to_mo_transform,
    block_sparse as block_sparse,
    cp as cp,
    einsum as einsum,
    elementwise as elementwise,
    elementwise_binary as elementwise_binary,
    elementwise_trinary as elementwise_trinary,
    from_xla as from_xla,
    get_backend as get_backend,
    mp2_energy as mp2_energy,
    multi_einsum as multi_einsum,
    permute as permute,
    plan as plan,
    reduce as reduce,
    set_backend as set_backend,
    tensor_train as tensor_train,
    tensordot as tensordot,
    to_xla as to_xla,
    transpose as transpose,
    tucker as tucker,
)
from trntensor.block_sparse import BlockSparse as BlockSparse, block_einsum as block_einsum
from trntensor.cp import CP as CP
from trntensor.decomposed import Convergence as Convergence
from trntensor.fuse import FusedProgram as FusedProgram, fuse as fuse
from trntensor.mp2_energy import MP2Energy as MP2Energy
from trntensor.plan import Contraction as Contraction, ContractionPlan as ContractionPlan
from trntensor.tensor_train import TensorTrain as TensorTrain
from trntensor.tucker import Tucker as Tucker
