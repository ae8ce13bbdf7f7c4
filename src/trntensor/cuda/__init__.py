"""Triton kernels and blocked products on NVIDIA GPUs."""
