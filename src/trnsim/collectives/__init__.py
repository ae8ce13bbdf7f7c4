"""``nki.collectives``: communication between ranks. `trnsim.simulate_ranks` runs a kernel on several."""

from trnsim.collectives.fixed import all_gather, all_reduce, all_to_all, reduce_scatter
from trnsim.collectives.groups import ReplicaGroup
from trnsim.collectives.permute import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from trnsim.collectives.variable import (
    all_gather_v,
    all_gather_v_prepare,
    all_gather_v_trigger,
    all_to_all_v,
    all_to_all_v_prepare,
    all_to_all_v_trigger,
)
from trnsim.lazy import public_names as _public_names
from trnsim.tensors.objects import NKIObject

__all__ = _public_names(globals())
