"""Random and adversarial calls of every public function against oracles in higher precision; see `make campaign`."""

from tests.campaign.trial import EXEMPT, SPECS, Trial, attempt, drawn, functions, load, public, spec

__all__ = ["EXEMPT", "SPECS", "Trial", "attempt", "drawn", "functions", "load", "public", "spec"]
