"""Benchmarks: one file per stem, every op beside its peers, predicted cycles held to recorded baselines."""
