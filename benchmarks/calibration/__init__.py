"""Predicted time beside published measurements: kernels restated from their descriptions, and the table of both."""
