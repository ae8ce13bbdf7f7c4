"""trntensor: tensor contractions for Trainium."""

from trnsci import HAS_NKI, library_functions
from trntensor.einsum import einsum
from trntensor.plan import ContractionPlan, plan

set_backend, get_backend = library_functions("trntensor")

__all__ = ["HAS_NKI", "ContractionPlan", "einsum", "get_backend", "plan", "set_backend"]
