"""Triton kernels around cuFFT on NVIDIA GPUs."""
