"""Which hardware a kernel is running on."""

from trnsim.isa.enums import nc_version
from trnsim.session import current
from trnsim.targets import target_named


def get_nc_version() -> nc_version:
    """Return the NeuronCore generation of the target; outside kernels, of the target a kernel would run on."""
    s = current()
    return nc_version((s.target if s is not None else target_named()).generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision within the generation: 0, the first, on every target here."""
    return 0
