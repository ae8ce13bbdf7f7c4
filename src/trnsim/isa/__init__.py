"""``nki.isa``: the instructions, one file per engine, and the constants they take."""

import warnings as _warnings

from trnsim.calls import DYNAMIC_COPIES as _DYNAMIC_COPIES, unknown_name as _unknown_name
from trnsim.errors import HardwareLimit as NkiValidationError
from trnsim.isa.dma import dma_compute, dma_copy
from trnsim.isa.dma_transpose import dma_transpose
from trnsim.isa.enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd
from trnsim.isa.gather import local_gather, nc_n_gather, nonzero_with_count, topk
from trnsim.isa.gpsimd import affine_select, iota, tensor_partition_reduce
from trnsim.isa.multicore import core_barrier, sendrecv
from trnsim.isa.mx import nc_matmul_mx, quantize_mx
from trnsim.isa.random import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from trnsim.isa.registers import VirtualRegister, register_alloc, register_load, register_move, register_store
from trnsim.isa.scalar import activate2, activation, activation_reduce
from trnsim.isa.scalars import NkiScalar, scalar_load, scalar_store
from trnsim.isa.tensor import nc_matmul, nc_transpose
from trnsim.isa.vector import memset, nc_stream_shuffle, tensor_copy, tensor_copy_predicated
from trnsim.isa.vector_exp import exponential
from trnsim.isa.vector_math import reciprocal, scalar_tensor_tensor, tensor_tensor, tensor_tensor_scan
from trnsim.isa.vector_reduce import bn_aggr, bn_stats, tensor_reduce, tensor_scalar_cumulative, tensor_scalar_reduce
from trnsim.isa.vector_scalar import tensor_scalar
from trnsim.isa.vector_search import max8, nc_find_index8, nc_match_replace8
from trnsim.isa.vector_select import range_select, select_reduce, sequence_bounds
from trnsim.isa.version import get_nc_sub_version, get_nc_version
from trnsim.lazy import public_names as _public_names
from trnsim.session import NkiInstruction
from trnsim.tensors.objects import NKIObject

_ENGINES = frozenset({"tensor_engine", "vector_engine", "scalar_engine", "gpsimd_engine", "unknown_engine"})


def __getattr__(name: str) -> engine:
    """``vector_engine`` and its siblings, now members of ``nki.isa.engine``."""
    if name not in _ENGINES:
        raise _unknown_name("nki.isa", name, __all__, _DYNAMIC_COPIES)
    member = engine[name.removesuffix("_engine")]
    _warnings.warn(f"nki.isa.{name} is now nki.isa.engine.{member.name}", DeprecationWarning, stacklevel=2)
    return member


__all__ = _public_names(globals())
