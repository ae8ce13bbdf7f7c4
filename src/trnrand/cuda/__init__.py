"""Triton kernels of the streams on NVIDIA GPUs: the same words, and the same steps from words to numbers."""
