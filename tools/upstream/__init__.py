"""Test suites of other packages, run through `trnsci.drop_in` beside the plain run."""
