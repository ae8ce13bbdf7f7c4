"""NKI kernels of trnblas, one per stem."""
