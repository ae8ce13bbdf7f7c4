"""Algorithms for matrices that are sharded over ranks."""
