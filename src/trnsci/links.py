"""The links between host and device: seconds to start work there, and to move its data.

Neuron has two: torch's own device ``neuron`` (trn2, trn3), and XLA (trn1). Every figure has its source.
"""

from dataclasses import dataclass

from trnsci import neuron


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Costs of crossing from host to device.

    Attributes:
        name: how torch reaches the device, as reports call it.
        dispatch: seconds to start one op of a program that runs op by op.
        graph: seconds to start a compiled graph, or one program of many ops.
        scale, power: ``scale * bytes ** power`` seconds to move data.
        source: where these figures come from.
    """

    name: str
    dispatch: float
    graph: float
    scale: float
    power: float
    source: str

    def transfer(self, nbytes: float) -> float:
        """Estimate moving bytes between host and device."""
        return self.scale * float(nbytes**self.power)

    def seconds(self, nbytes: float) -> float:
        """Estimate starting one op and moving its operands and results."""
        return self.dispatch + self.transfer(nbytes)


# Fitted to published times of whole calls on trn1, from 3 MB to 402 MB moved; a byte costs more in larger transfers.
_SCALE, _POWER = 0.19e-3 * 1e-6**1.15, 1.15

LINKS = {
    "xla": Link(
        name="XLA",
        dispatch=0.67e-3,
        graph=0.67e-3,
        scale=_SCALE,
        power=_POWER,
        source="both fitted to published times of whole calls on trn1",
    ),
    "native": Link(
        name="native device",
        dispatch=60e-6,
        graph=100e-6,
        scale=_SCALE,
        power=_POWER,
        source="starts as a user of torch-neuronx 2.12.3 reports them (55 to 65 us an op, 95 to 100 us a compiled "
        "graph); transfers assumed to be those of trn1",
    ),
}


def link(target: str) -> Link:
    """Return the link of a generation: XLA for trn1, torch's own device from trn2 on, unless this machine has XLA."""
    device = neuron.device()
    is_xla = target == "trn1" or (device is not None and device.kind == "xla")
    return LINKS["xla" if is_xla else "native"]


def describe_link(target: str) -> str:
    """Say in a sentence what starting work on a generation is taken to cost, and why."""
    used = link(target)
    return (
        f"Starting an op on {target} ({used.name}) is counted with {used.dispatch * 1e6:.0f} us, one program of many "
        f"with {used.graph * 1e6:.0f} us: {used.source}."
    )
