"""Batches of small matrices on the device, a matrix in each partition."""
