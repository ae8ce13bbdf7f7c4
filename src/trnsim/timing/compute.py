"""Cost formulas of the four compute engines.

Each comment names the source of a figure as `trnsim.targets` abbreviates them.
"""

from collections.abc import Callable
from typing import Any

from trnsim.memory import PSUM, SBUF
from trnsim.targets import Target
from trnsim.timing.costs import Array, Call, Cost, formula, itemsize

_HALF = frozenset(("bfloat16", "float16"))
_EIGHT = frozenset(("float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e3m4"))


def _passes(call: Call, target: Target) -> float:
    """Return cycles per moving row."""
    dtypes = [operand.dtype for operand in call.reads[:2]]
    full = any(d in ("float32", "int32", "uint32") for d in dtypes)
    if call.info.get("is_transpose") or call.name == "nc_transpose":
        # P: two cycles a row for fp32 on trn2; trn1 multiplies by an identity, whose zeros and ones halve fp32's four
        return 2.0 if full else 1.0
    if full:
        return 2.0 if any(call.info.get("onezero", ())) else 4.0
    return 1.0


def _pe(call: Call, target: Target, rows: int, passes: float, stationary: int, flops: int) -> Cost:
    time, clock = target.timing, target.clock_ghz["tensor"]
    least = min(time.pe_floor, stationary)
    issue = time.pe_issue * (time.pe_fp32_parts if passes >= 4 else 1)
    stream = passes * max(least, rows) / clock
    restart = restart_half = 0.0
    if passes > 1:
        moves = flops == 0
        restart = time.pe_restart_transpose if moves else time.pe_restart
        restart_half = time.pe_restart_transpose if moves else time.pe_restart_half
    cells = _cells(call)
    # tiles share the path that loads stationary values
    slot = stream + issue if cells is None else min(stream, passes * least / clock) + issue
    array = Array(stream, restart, restart_half, cells, slot)
    return Cost("tensor", stream + issue, stream + issue + time.pe_depth, "measured", flops, None, array)


def _cells(call: Call) -> tuple[int, ...] | None:
    """Return the cells of the array that a matmul's tile occupies; others run in parallel on the rest (API)."""
    size, position = call.info.get("tile_size"), call.info.get("tile_position")
    if not size or not position or tuple(size) == (128, 128):
        return None
    rows = range(position[0] // 32, (position[0] + size[0]) // 32)
    columns = range(position[1] // 32, (position[1] + size[1]) // 32)
    return tuple(4 * row + column for row in rows for column in columns)


@formula("nc_matmul")
def _matmul(call: Call, target: Target) -> Cost:
    stationary, moving = call.reads[0], call.reads[1]
    k, m, n = stationary.shape[0], stationary.n, moving.n
    passes = _passes(call, target)
    mode = str(call.info.get("perf_mode", "none"))
    if mode.endswith("double_row"):
        k, m, n = 2 * k, m // 2, n // 2
    # Q: a moving stride of 16 fp32 elements halves the rate
    if moving.step >= 64:
        passes *= 2
    flops = 0 if call.info.get("is_transpose") else 2 * k * m * n
    return _pe(call, target, n, passes, m, flops)


@formula("nc_matmul_mx")
def _matmul_mx(call: Call, target: Target) -> Cost:
    stationary, moving = call.reads[0], call.reads[1]
    return _pe(call, target, moving.n, 1.0, stationary.n, 2 * 4 * stationary.shape[0] * stationary.n * moving.n)


@formula("nc_transpose")
def _transpose(call: Call, target: Target) -> Cost:
    data = call.reads[0]
    if call.engine == "vector":
        return _vector(call, target, 1.0)
    # the data is stationary and an identity of its partitions moves
    return _pe(call, target, data.shape[0], _passes(call, target), data.n, 0)


@formula("transpose_strip")
def _transpose_strip(call: Call, target: Target) -> Cost:
    """Cost a strip of 32 partitions: a row of blocks of 32x32, each to partitions of its own."""
    time = target.timing
    blocks = -(-call.reads[0].n // 32) * time.vector_block
    return Cost("vector", time.vector_issue + blocks, time.vector_done + blocks)


def _stride_factor(call: Call, target: Target) -> float:
    """A2: steps above 16 bytes halve a port's bandwidth; Q: on trn2 only above 64."""
    limit = 16 if target.generation == 2 else 64
    return 2.0 if any(o.n > 1 and o.step > limit for o in (*call.reads, *call.writes)) else 1.0


def _vector(call: Call, target: Target, cycles: float, basis: str = "measured") -> Cost:
    """``cycles`` per element on the engine the call runs on."""
    if call.engine == "gpsimd":
        return _gpsimd(call, target, max(cycles, 1.0))
    if call.engine == "scalar":
        return _scalar_copy(call, target)
    time = target.timing
    stream = call.n * cycles * _stride_factor(call, target) / target.clock_ghz["vector"]
    extra = time.vector_pointer * min(1, call.pointers())
    return Cost("vector", time.vector_issue + stream + extra, time.vector_done + stream + extra, basis)


def _fast(call: Call, target: Target) -> float:
    """Return cycles per element of a copy or tensor_scalar: the Vector Engine's performance modes."""
    if not target.timing.vector_modes:
        return 1.0
    data = [o for o in (*call.writes, *call.reads) if o.n > 1]
    kinds = {o.dtype for o in data}
    half = kinds <= _HALF or (target.generation >= 4 and kinds <= _HALF | _EIGHT)
    if any(o.buffer == PSUM for o in data):
        # A3: 2x when everything is 16 bit and dense
        return 0.5 if half and all(o.dense for o in data) else 1.0
    if half:
        return 0.26 if all(o.dense for o in data) else 0.5
    # Q: widening 16 to 32 bits is slower than the 2x mode
    if any(o.dtype in _HALF for o in call.reads if o.n > 1) and any(itemsize(o.dtype) == 4 for o in call.writes):
        return 0.77
    return 0.5


@formula("tensor_copy", "tensor_scalar")
def _copy(call: Call, target: Target) -> Cost:
    # C: profiles of trn1 kernels show what is left open on the Scalar Engine, those of trn2 on the Vector Engine
    if target.generation == 2 and call.info.get("free") and _activates(call):
        return _scalar_copy(call, target)
    return _vector(call, target, _fast(call, target))


# what `data * scale + bias` can say; bit operations, comparisons and minima it cannot
_AFFINE = frozenset(
    (("multiply", "add"), ("multiply", "subtract"), *((op, None) for op in ("multiply", "add", "subtract")))
)


def _activates(call: Call) -> bool:
    """Return whether an fp32 activation does the work: trn1's Scalar Engine has neither instruction (API)."""
    if any(o.dtype in ("int32", "uint32") for o in (*call.reads, *call.writes)):
        return False
    return call.name != "tensor_scalar" or (call.info["op0"], call.info["op1"]) in _AFFINE


@formula("memset")
def _memset(call: Call, target: Target) -> Cost:
    if call.engine == "gpsimd":
        return _gpsimd(call, target, 1.0)
    cycles = 0.8 if target.timing.vector_modes else 1.0
    if call.writes[0].dtype in _HALF:
        cycles /= 2  # F: 16-bit zeros
    stream = call.n * cycles / target.clock_ghz["vector"]
    took = target.timing.memset_issue + stream
    return Cost("vector", took, took)


def _two_inputs(call: Call, target: Target) -> float:
    """Return cycles per element with two streams: both from SBUF share a port on trn1."""
    streams = [o for o in call.reads if o.n > 1]
    if len(streams) < 2 or any(o.buffer == PSUM for o in streams):
        return 1.0
    half = all(o.dtype in _HALF for o in (*streams, *call.writes))
    if target.timing.vector_modes:
        return 0.5 if half else 1.0  # Q
    return 1.0 if half else 2.0  # F


def _predicated_cycles(call: Call, target: Target) -> float:
    return 1.066 if target.timing.vector_modes else _two_inputs(call, target)


def _reciprocal(call: Call, target: Target) -> float:
    # Q: 6 on trn2; C: a trn1 profile leaves at most 2.5 of the documented 8
    return 6.0 if target.generation > 2 else 1.5


def _add_readback(call: Call, cost: Cost, target: Target) -> Cost:
    """F: reading an accumulator back is one more short instruction."""
    if not (call.info.get("reduce") or len(call.writes) > 1):
        return cost
    read = 64 / target.clock_ghz["vector"]
    return cost._replace(busy=cost.busy + read, done=cost.done + read)


def _per_element(
    cycles: float | Callable[[Call, Target], float], basis: str, *names: str, reduces: bool = False
) -> None:
    """Register instructions of ``cycles`` per element, some of which may read an accumulator back."""

    @formula(*names)
    def cost(call: Call, target: Target) -> Cost:
        cost = _vector(call, target, cycles(call, target) if callable(cycles) else cycles, basis)
        return _add_readback(call, cost, target) if reduces else cost


_per_element(_two_inputs, "measured", "tensor_tensor", "scalar_tensor_tensor")
_per_element(_two_inputs, "assumed", "select_reduce", reduces=True)
_per_element(_predicated_cycles, "measured", "tensor_copy_predicated")
_per_element(_reciprocal, "measured", "reciprocal")
_per_element(1.0, "measured", "tensor_reduce")
_per_element(2.0, "measured", "tensor_tensor_scan", "tensor_scalar_cumulative")
_per_element(13 / 3, "documented", "bn_aggr")
_per_element(1.0, "documented", "bn_stats", "max8", "nc_find_index8", "nc_match_replace8")
_per_element(1.0, "documented", "dropout", "nc_stream_shuffle")
_per_element(1.0, "documented", "tensor_scalar_reduce", "range_select", reduces=True)
_per_element(0.25, "documented", "rand2", "quantize_mx")
_per_element(0.25, "documented", "exponential", reduces=True)
# F's gather with one element per index costs eight cycles
_per_element(8.0, "assumed", "nc_n_gather", "nonzero_with_count", "sequence_bounds")
# P: a published kernel lost 110 us to one; its partitions are walked one after another
_per_element(lambda call, target: float(call.reads[0].shape[0]), "assumed", "tensor_partition_reduce")
_per_element(1.0, "assumed", "rng", "set_rng_seed", "rand_set_state", "rand_get_state")


# P: these do not force a table load; the others group as trn2 profiles show them, and alone where none do
_ANY_TABLE = frozenset(("copy", "identity", "square", "relu", "abs", "none"))
_TABLES = {"sqrt": "rsqrt"}


def table_of(op: Any) -> str | None:
    """Return the function table an activation needs; ``None`` when every table has it."""
    name = str(getattr(op, "name", None) or getattr(op, "__name__", None) or op).rpartition(".")[2]
    return None if name in _ANY_TABLE else _TABLES.get(name, name)


def _scalar_rate(call: Call, target: Target) -> float:
    """Return elements per nanosecond and lane."""
    data = [o for o in (*call.writes, *call.reads) if o.n > 1]
    wide = target.generation >= 4 and all(o.dtype in _HALF | _EIGHT for o in data)
    return target.clock_ghz["scalar"] * (2.0 if wide else 1.0) / _stride_factor(call, target)


def _scalar_copy(call: Call, target: Target) -> Cost:
    time = target.timing
    stream = call.n / _scalar_rate(call, target)
    far = time.scalar_far if all(o.buffer == SBUF for o in call.reads) else 0.0
    return Cost("scalar", time.scalar_issue + stream, time.scalar_done + far + stream)


@formula("activation", "activation_reduce", "activate2")
def _activation(call: Call, target: Target) -> Cost:
    time = target.timing
    stream = call.n / _scalar_rate(call, target)
    near = time.act_psum if any(o.buffer == PSUM for o in call.reads if o.n == call.n) else 0.0
    if str(call.info.get("op")) in ("copy", "identity") and not call.pointers():
        near += time.act_plain
    busy, done = time.act_issue - near + stream, time.act_done - near + stream
    if call.name == "activation_reduce" or len(call.writes) > 1:
        busy, done = busy + time.act_read, done + time.act_read_done
    return Cost("scalar", busy, done, "measured", 0, table_of(call.info.get("op", "")))


def _gpsimd(call: Call, target: Target, cycles: float, *, n: int | None = None, basis: str = "assumed") -> Cost:
    time = target.timing
    stream = (call.n if n is None else n) * cycles / target.clock_ghz["gpsimd"]
    return Cost("gpsimd", time.gpsimd_issue + stream, time.gpsimd_done + stream, basis)


@formula("affine_select", "iota")
def _affine(call: Call, target: Target) -> Cost:
    return _gpsimd(call, target, 1.015, basis="measured")


@formula("local_gather")
def _local_gather(call: Call, target: Target) -> Cost:
    each = int(call.info.get("num_elem_per_idx") or 1)
    valid = call.info.get("num_valid_indices") or call.writes[0].n // max(1, each)
    size = itemsize(call.reads[0].dtype)
    rate = ((28 + 4 * each) / (4 * each)) / min(4 / size, each)
    return _gpsimd(call, target, rate, n=int(valid) * each, basis="documented")


@formula("topk")
def _topk(call: Call, target: Target) -> Cost:
    k = min((o.n for o in call.writes), default=8)
    return _gpsimd(call, target, 1.0, n=4 * call.n + k, basis="documented")
