"""Products on NVIDIA GPUs: tensor cores through torch, and exact sums of integers."""
