"""NKI kernels of trnfft, one per stem."""
