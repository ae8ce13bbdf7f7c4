"""NKI kernels of trnsolver."""
