"""Every name of the NKI reference exists, with the reference's parameters, and the page that says so is up to date.

The names, parameters and versions below are the reference's (NKI 0.3 to 0.6). Run this file to write
``docs/reference/nki-api.md``: ``python -m tests.trnsim.test_api_table``.
"""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import trnsim
import trnsim.collectives
from trnsim import isa, language
from trnsim.errors import HardwareLimit
from trnsim.language.dtypes import PACKED, ExtraDtype
from trnsim.language.results import Operator

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "nki-api.md"
TARGETS = {"trn1": 2, "trn2": 3, "trn3": 4}

# one row: NKI version that introduced the names, what they are (parameters of functions), the names
LANGUAGE = """
0.3 (x, dtype): abs arctan ceil copy cos erf erf_dx exp floor gelu gelu_apprx_sigmoid gelu_apprx_sigmoid_dx
  gelu_apprx_tanh gelu_dx invert log logical_not mish negative reciprocal relu rsqrt sigmoid sign silu silu_dx sin
  softplus sqrt square tan tanh transpose trunc
0.3 (x, y, dtype): add bitwise_and bitwise_or bitwise_xor divide equal fmod greater greater_equal left_shift less
  less_equal logical_and logical_or logical_xor maximum minimum mod multiply not_equal power right_shift subtract
0.3 (x, axis, dtype, keepdims): max mean min prod sum var
0.3 (start, stop, step): affine_range dynamic_range sequential_range static_range
0.3 (buffer): is_hbm is_on_chip is_psum is_sbuf
0.3 (shape, dtype, buffer, name): ones rand zeros
0.3 (x, axis, dtype): all softmax
0.3 (x, dtype, buffer, name): empty_like zeros_like
0.3 (src, dtype): load load_transpose2d
0.3 (): no_reorder program_ndim
0.3 (x, shape, dtype): broadcast_to
0.3 (print_prefix, tensor): device_print
0.3 (x, rate, dtype): dropout
0.3 (start, size): ds
0.3 (x, axis): expand_dims
0.3 (shape, fill_value, dtype, buffer, name): full
0.3 (data, indices, axis, dtype): gather_flattened
0.3 (x, y, transpose_x): matmul
0.3 (shape, dtype, buffer, name, address): ndarray
0.3 (axes): num_programs
0.3 (axis): program_id
0.3 (seed): random_seed
0.3 (x, w, axis, n, epsilon, dtype, compute_dtype): rms_norm
0.3 (n, dtype, dst): shared_identity_matrix
0.3 (constant): shared_constant
0.3 (dst, value): store
0.3 (condition, x, y, dtype): where
0.3 class: MemoryRegion NKIObject NkiTensor
0.3 constant: bfloat16 bool_ float16 float32 float4_e2m1fn_x4 float8_e4m3 float8_e4m3fn float8_e4m3fn_x4 float8_e5m2
  float8_e5m2_x4 hbm int16 int32 int8 private_hbm psum sbuf shared_hbm tfloat32 tile_size uint16
  uint32 uint8
0.4 (x, y, dtype): abs_max abs_min
0.4 constant: bypass prelu
0.5 constant: average float8_e8m0fnu
0.6 (lower, upper, body_fun, step): fori_loop
0.6 (init, body_fun): while_loop
0.6 class: _TileSize
0.6 constant: DType
"""
ISA = """
0.3 (dst, data, name): bn_aggr bn_stats reciprocal
0.3 (dst, src): register_load register_move register_store
0.3 (dst, engine, name): rand_get_state rng
0.3 (dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, name): activation
0.3 (dst, op, data, reduce_op, reduce_res, bias, scale, name): activation_reduce
0.3 (dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset, name): affine_select
0.3 (data, cores, engine, name): core_barrier
0.3 (dst, srcs, reduce_op, scales, unique_indices, oob_mode, name): dma_compute
0.3 (dst, src, priority, oob_mode, dge_mode, engine, name): dma_copy
0.3 (dst, src, axes, priority, dge_mode, oob_mode, name): dma_transpose
0.3 (dst, data, prob, name): dropout
0.3 (dst, src, max_value, reduce_res, reduce_cmd, reduce_init, name): exponential
0.3 (): get_nc_version
0.3 (dst, pattern, offset, channel_multiplier, name): iota
0.3 (dst, src_buffer, index, num_elem_per_idx, num_valid_indices, name): local_gather
0.3 (dst, src, name): max8
0.3 (dst, value, engine, name): memset
0.3 (dst, data, vals, name): nc_find_index8
0.3 (dst, data, vals, imm, dst_idx, name): nc_match_replace8
0.3 (dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose, accumulate, tile_position,
  tile_size, perf_mode, name): nc_matmul
0.3 (dst, stationary, moving, stationary_scale, moving_scale, tile_position, tile_size, accumulate, name):
  nc_matmul_mx
0.3 (dst, data, indices, name): nc_n_gather
0.3 (dst, src, shuffle_mask, name): nc_stream_shuffle
0.3 (dst, data, engine, name): nc_transpose
0.3 (dst, src, index_offset, padding_val, name): nonzero_with_count
0.3 (dst, src, dst_scale, name): quantize_mx
0.3 (dst, min, max, name): rand2
0.3 (src_seeds, engine, name): rand_set_state
0.3 (dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op, range_start,
  on_false_value, name): range_select
0.3 (x): register_alloc
0.3 (dst, data, op0, operand0, op1, operand1, reverse0, reverse1, name): scalar_tensor_tensor
0.3 (dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred, name): select_reduce
0.3 (src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine, name): sendrecv
0.3 (dst, segment_ids, name): sequence_bounds
0.3 (src_seeds, name): set_rng_seed
0.3 (dst, src, engine, name): tensor_copy
0.3 (dst, src, predicate, reverse_pred, name): tensor_copy_predicated
0.3 (dst, op, data, name): tensor_partition_reduce
0.3 (dst, op, data, axis, negate, keepdims, name): tensor_reduce
0.3 (dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine, name): tensor_scalar
0.3 (dst, src, op0, op1, imm0, imm1, reduce_cmd, name): tensor_scalar_cumulative
0.3 (dst, data, op0, operand0, reduce_op, reduce_res, reverse0, reduce_cmd, reduce_init, reduce_res_negate, name):
  tensor_scalar_reduce
0.3 (dst, data1, data2, op, engine, name): tensor_tensor
0.3 (dst, data0, data1, initial, op0, op1, reverse0, reverse1, name): tensor_tensor_scan
0.3 class: dge_mode dma_engine engine matmul_perf_mode nc_version NKIObject NkiValidationError oob_mode reduce_cmd
  VirtualRegister
0.3 constant: gpsimd_engine scalar_engine tensor_engine unknown_engine vector_engine
0.4 (dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduce_op, reduce_res, reduce_cmd, name):
  activate2
0.5 (): get_nc_sub_version
0.6 (val_dst, idx_dst, src, n, name): topk
0.6 class: NkiInstruction
"""
COLLECTIVES = """
0.3 (srcs, dsts, replica_group, collective_dim, priority, name): all_gather all_to_all
0.3 (srcs, dsts, replica_group, op, priority, name): all_reduce
0.3 (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name): all_to_all_v
0.3 (srcs, dsts, source_target_pairs, priority, name): collective_permute
0.3 (srcs_by_channel, dsts_by_channel, replica_group, channel_ids, priority, name): collective_permute_implicit
0.3 (iteration_id, replica_group, channel_id, name): collective_permute_implicit_current_processing_rank_id
0.3 (srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids, priority, name):
  collective_permute_implicit_reduce
0.3 (name): rank_id
0.3 (srcs, dsts, replica_group, collective_dim, op, priority, name): reduce_scatter
0.3 class: NKIObject ReplicaGroup
0.6 (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name): all_gather_v
"""
TENSOR = """
0.3 (key): __getitem__
0.3 (shape): reshape
0.3 (pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype): ap
0.3 (dtype): view
0.3 (): get_pattern
0.3 attribute: shape strides offset name dtype buffer ndim size
0.5 (): is_contiguous is_indirect
0.5 (dims): permute
0.5 (dim): expand_dim squeeze_dim
0.5 (dim, size): broadcast
0.5 (dim, shape): reshape_dim
0.5 (start_dim, end_dim): flatten_dims
0.5 (src_pattern, dst_pattern, fixed_sizes): rearrange
0.5 (dim, start, end, step): slice
0.5 (dim, index): select
0.5 (dim, vector_offset): vector_select
0.5 (index, num_elem): indirect
0.5 (dtype): reinterpret_cast
"""
TILE_SIZE = """
0.3 attribute: pmax psum_fmax gemm_stationary_fmax gemm_moving_fmax bn_stats_fmax psum_min_align sbuf_min_align
  total_available_sbuf_size
0.4 attribute: psum_bank_fmax psum_bank_fmax_bytes sbuf_size_bytes sbuf_fmax sbuf_fmax_bytes
0.5 attribute: psum_num_banks
"""
ENUMS = {
    "engine": {"unknown": 0, "tensor": 1, "scalar": 2, "gpsimd": 3, "dma": 4, "vector": 5, "sync": 6},
    "reduce_cmd": {"idle": 0, "reset": 1, "reduce": 2, "reset_reduce": 3, "load_reduce": 4},
    "dge_mode": {"unknown": 0, "swdge": 1, "hwdge": 2, "none": 3},
    "oob_mode": {"error": 0, "skip": 1},
    "matmul_perf_mode": {"none": "none", "double_row": "double_row"},
    "nc_version": {"gen2": 2, "gen3": 3, "gen4": 4},
    "dma_engine": {"dma": 1, "gpsimd_dma": 2},
}
# first generation, where the reference names one
SINCE = {
    "trn2": "range_select nonzero_with_count rand_set_state rand_get_state core_barrier sendrecv",
    "trn3": "activate2 exponential rand2 nc_matmul_mx quantize_mx abs_max abs_min indirect",
}
# gone from the reference by 0.4; kernels for 0.3 may still have them
RETIRED = {"tensor_copy_dynamic_src": "dst src", "tensor_copy_dynamic_dst": "dst src"}
DEPRECATED = {
    *(f"{e}_engine" for e in ("tensor", "vector", "scalar", "gpsimd", "unknown")),
    *("affine_range", "sequential_range", "static_range"),
    *("psum_fmax", "total_available_sbuf_size"),
    *RETIRED,
}
SIMULATION_ONLY = {"divide", "fmod", "mod"}
SPACES = {
    "nki.language": (language, LANGUAGE),
    "nki.isa": (isa, ISA),
    "nki.collectives": (trnsim.collectives, COLLECTIVES),
    "NkiTensor": (language.NkiTensor, TENSOR),
    "nki.language.tile_size": (type(language.tile_size), TILE_SIZE),
}


def rows(block):
    """``(name, version, kind, parameters)`` of each name in a block."""
    text = re.sub(r"\n  +", " ", block.strip())
    for line in text.splitlines():
        version, what, names = re.fullmatch(r"(\S+) (\(.*\)|\w+): (.*)", line).groups()
        parameters = [p for p in what.strip("()").split(", ") if p] if what.startswith("(") else None
        for name in names.split():
            yield name, version, "function" if parameters is not None else what, parameters


ALL = [(space, *row) for space, (_, block) in SPACES.items() for row in rows(block)]
IDS = [f"{space}.{name}" for space, name, *_ in ALL]


def found(space, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(SPACES[space][0], name)


def generation(name):
    return next((TARGETS[t] for t, names in SINCE.items() if name in names.split()), 2)


def test_the_lists_are_complete():
    counts = {space: sum(1 for s, *_ in ALL if s == space) for space in SPACES}
    assert counts == {
        "nki.language": 135,
        "nki.isa": 68,
        "nki.collectives": 13,
        "NkiTensor": 27,
        "nki.language.tile_size": 14,
    }


@pytest.mark.parametrize(("space", "name", "version", "kind", "parameters"), ALL, ids=IDS)
def test_every_name_exists_with_its_parameters(space, name, version, kind, parameters):
    thing = found(space, name)
    if kind == "class":
        assert isinstance(thing, type)
    elif kind == "function":
        assert callable(thing)
        ours = [p for p in inspect.signature(thing).parameters if p != "self"]
        if ours != ["shape"] or parameters != ["shape"]:
            assert ours[: len(parameters)] == parameters, f"{name}{inspect.signature(thing)}"


@pytest.mark.parametrize("name", [n for space, n, *_ in ALL if space in ("nki.language", "nki.isa", "nki.collectives")])
def test_instructions_know_their_first_generation(name):
    things = [getattr(m, name, None) for m in (language, isa) if name not in DEPRECATED]
    for thing in things:
        if callable(thing) and not isinstance(thing, type):
            assert getattr(thing, "__nki_since__", 2) == generation(name)


@pytest.mark.parametrize("name", ENUMS)
def test_enums_have_the_references_members(name):
    assert {m.name: m.value for m in getattr(isa, name)} == ENUMS[name]


def test_public_lists_name_what_exists():
    for module in (language, isa, trnsim.collectives):
        assert sorted(set(module.__all__)) == sorted(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name)
    for space, name, *_ in ALL:
        if space in ("nki.language", "nki.isa"):
            assert name in SPACES[space][0].__all__ or name in DEPRECATED


@pytest.mark.parametrize("name", sorted(n for n in DEPRECATED if n.endswith("_engine")))
def test_engine_constants_warn(name):
    with pytest.warns(DeprecationWarning, match=f"nki.isa.engine.{name.removesuffix('_engine')}"):
        assert getattr(isa, name) is isa.engine[name.removesuffix("_engine")]


def test_other_deprecated_names_warn():
    with pytest.warns(DeprecationWarning, match="affine_range"):
        assert list(language.affine_range(3)) == [0, 1, 2]
    with pytest.warns(DeprecationWarning, match="sequential_range"):
        assert list(language.sequential_range(1, 5, 2)) == [1, 3]
    with pytest.warns(DeprecationWarning, match="static_range"):
        assert list(language.static_range(2)) == [0, 1]
    for name in ("psum_fmax", "total_available_sbuf_size"):
        with pytest.warns(DeprecationWarning, match=name):
            assert getattr(language.tile_size, name) > 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_instruction"):
        isa.no_such_instruction  # noqa: B018


def test_names_older_than_the_reference_say_what_replaced_them():
    with pytest.raises(AttributeError, match=r"mgrid.*slices"):
        language.mgrid  # noqa: B018
    assert not hasattr(language, "no_such_function")


def test_validation_errors_are_hardware_limits():
    assert isa.NkiValidationError is HardwareLimit


def test_versions_follow_the_target():
    seen = []
    for target, gen in TARGETS.items():
        trnsim.simulate(lambda: seen.append(isa.get_nc_version()), target=target, lint="off")()
        assert seen[-1] is isa.nc_version(gen)
    assert isa.nc_version.gen2 < isa.nc_version.gen3 <= isa.nc_version.gen4
    assert isa.get_nc_sub_version() == 0


def status(space, name, target):
    """What a kernel gets from ``name`` on ``target``."""
    thing = found(space, name)
    since = getattr(thing, "__nki_since__", 2)
    if isinstance(thing, ExtraDtype) and thing in PACKED and target != "trn3":
        return "storage only"
    if space == "NkiTensor":
        since = generation(name)
    if TARGETS[target] < since:
        return "–"
    if name in SIMULATION_ONLY and space == "nki.language":
        return "simulation only"
    return "deprecated" if name in DEPRECATED else "yes"


def meaning(space, name, kind):
    """The first sentence of the docstring, or what kind of constant it is."""
    thing = found(space, name)
    if kind == "attribute" and space == "NkiTensor":
        return ""
    if isinstance(thing, Operator):
        return f"Operator: {thing.hint}."
    if isinstance(thing, (np.dtype, ExtraDtype)):
        return f"Data type of {thing.itemsize} byte{'s' * (thing.itemsize > 1)}."
    if kind == "constant" and not callable(thing):
        return {"MemoryRegion": "Memory.", "engine": "Engine."}.get(type(thing).__name__, "What describes a data type.")
    first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return first.replace("``", "`")


def page():
    """The reference table, written from the code."""
    lines = [
        "# NKI API coverage",
        "",
        "Every name of the NKI reference (0.3 to 0.6) and what the simulator does with it on each target.",
        "*yes* runs with the documented semantics and rules, *–* is refused there with an error that names the first",
        "generation that has it, *deprecated* runs with a warning, *simulation only* runs with a warning because no",
        "hardware has it, *storage only* can be kept and moved, but no instruction there computes with it.",
        "The page is written from the code; a test fails when a name is missing.",
    ]
    for space in SPACES:
        lines += [
            "",
            f"## {space}",
            "",
            "| name | since NKI | trn1 | trn2 | trn3 | meaning |",
            "|---|---|---|---|---|---|",
        ]
        entries = [(n, v, k) for s, n, v, k, _ in ALL if s == space]
        if space == "nki.isa":
            entries += [(n, "retired in 0.4", "function") for n in RETIRED]
        for name, version, kind in sorted(entries, key=lambda e: e[0].lower()):
            cells = [status(space, name, t) for t in TARGETS]
            lines.append(f"| `{name}` | {version} | {' | '.join(cells)} | {meaning(space, name, kind)} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_up_to_date():
    assert PAGE.exists(), "write it: python -m tests.trnsim.test_api_table"
    assert PAGE.read_text(encoding="utf-8") == page(), "the code changed: python -m tests.trnsim.test_api_table"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
