"""``nki.language``: tensors, dtypes, loops, and functions built on the instructions of ``nki.isa``."""

from trnsim.calls import RETIRED as _RETIRED, unknown_name as _unknown_name
from trnsim.language.creation import *  # noqa: F403
from trnsim.language.functions import *  # noqa: F403
from trnsim.language.loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    static_range,
    while_loop,
)
from trnsim.language.maths import *  # noqa: F403
from trnsim.language.operations import *  # noqa: F403
from trnsim.language.reductions import *  # noqa: F403
from trnsim.language.tiles import alloc_blocks, alloc_tiles, blocks, tiles
from trnsim.lazy import public_names as _public_names
from trnsim.tensors.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from trnsim.tensors.grids import NkiBlockGrid, NkiGrid, NkiTileGrid
from trnsim.tensors.objects import (
    DynamicSlice,
    MemoryRegion,
    NKIObject,
    TileSize as _TileSize,
    ds,
    hbm,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
    tile_size,
)
from trnsim.tensors.tensor import NkiTensor


def __getattr__(name: str) -> object:
    """Raise the error that says what replaced a name older than NKI 0.3."""
    raise _unknown_name("nki.language", name, __all__, _RETIRED)


# kernels write nl.bool as well as nl.bool_
bool = bool_  # noqa: A001

__all__ = [*_public_names(globals()), "_TileSize"]
