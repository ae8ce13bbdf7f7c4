"""Iterative solvers of linear systems, the operators they take, and preconditioners."""
