"""NKI kernels of trntensor."""
