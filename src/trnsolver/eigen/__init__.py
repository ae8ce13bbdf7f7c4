"""Eigenvalues and singular values: whole spectra of dense matrices, a few pairs of large ones."""
