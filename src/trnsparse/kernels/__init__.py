"""NKI kernels of trnsparse."""
