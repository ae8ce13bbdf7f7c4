"""Direct solvers of sparse systems: orderings, factors, refinement."""
