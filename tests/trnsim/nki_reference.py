"""The NKI reference as data: every name, its parameters, and the version (0.3 to 0.7) that introduced it.

Written from the API stubs and pages of the five releases and, for the attributes of a 0.3 tensor, from that release's
language guide. The simulator's own signatures, and what the linter makes of them, are compared with it.
"""

import re

# names by space, as the reference counts them
COUNTS = {
    "nki.language": 143,
    "nki.isa": 71,
    "nki.collectives": 17,
    "NkiTensor": 29,
    "nki.language.tile_size": 14,
}
# one row: the version that introduced the names, what they are (parameters of functions), the names
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
0.3 (x, dtype, buffer, name): zeros_like
0.3 (x, dtype, buffer, name, transpose_axes, address): empty_like
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
0.7 (source, tile_shape): tiles
0.7 (source, tile_shape, block_shape): blocks
0.7 (tile_shape, element_shape, buffer, dtype, address, name): alloc_tiles
0.7 (tile_shape, block_shape, element_shape, buffer, dtype, address, name): alloc_blocks
0.7 class: NkiBlockGrid NkiGrid NkiTileGrid
0.7 constant: int64
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
0.7 (src): scalar_load
0.7 (dst, value): scalar_store
0.7 class: NkiScalar
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
0.7 (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name):
  all_gather_v_prepare all_to_all_v_prepare
0.7 (prepare_instr, name): all_gather_v_trigger all_to_all_v_trigger
"""
TENSOR = """
0.3 (key): __getitem__
0.3 (shape): reshape
0.3 (pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype): ap
0.3 (dtype): view
0.3 (): get_pattern
0.3 attribute: shape offset dtype buffer ndim size address
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
0.6 attribute: strides name
0.7 attribute: data
"""
TILE_SIZE = """
0.3 attribute: pmax psum_fmax gemm_stationary_fmax gemm_moving_fmax bn_stats_fmax psum_min_align sbuf_min_align
  total_available_sbuf_size
0.4 attribute: psum_bank_fmax psum_bank_fmax_bytes sbuf_size_bytes sbuf_fmax sbuf_fmax_bytes
0.5 attribute: psum_num_banks
"""
# parameters that came after their function
LATER = {
    "dma_compute": {"oob_mode": "0.4"},
    "dma_copy": {"priority": "0.4"},
    "dma_transpose": {"priority": "0.4"},
    "empty_like": {"address": "0.7", "transpose_axes": "0.7"},
    "tensor_scalar_reduce": {"reduce_cmd": "0.4", "reduce_init": "0.4", "reduce_res_negate": "0.6"},
}
# the collectives gained these two all at once
LATER_COLLECTIVES = {"priority": "0.4", "name": "0.5"}


def rows(block):
    """``(name, version, kind, parameters)`` of each name in a block."""
    text = re.sub(r"\n  +", " ", block.strip())
    for line in text.splitlines():
        since, what, names = re.fullmatch(r"(\S+) (\(.*\)|\w+): (.*)", line).groups()
        parameters = [p for p in what.strip("()").split(", ") if p] if what.startswith("(") else None
        for name in names.split():
            yield name, since, "function" if parameters is not None else what, parameters
