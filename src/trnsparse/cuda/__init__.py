"""Attention by SDPA and FlexAttention, and Triton kernels of block-sparse products, on NVIDIA GPUs."""
