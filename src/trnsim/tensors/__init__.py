"""Tensors of a kernel: dtypes, memory regions, storage seen through views. Instructions are built on these."""
