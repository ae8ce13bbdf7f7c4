"""NKI kernels of trnrand."""
