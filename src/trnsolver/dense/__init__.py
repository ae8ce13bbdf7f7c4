"""Factorisations of dense matrices, systems, inverses, least squares, and functions of matrices."""
