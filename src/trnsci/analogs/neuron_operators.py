"""Operators of torch that Neuron's own PyTorch runs, so that nothing of the suite is needed for them."""

import torch

from trnsci.tables import read_table

# what AWS's own PyTorch compiles for the device, besides views and everything that goes element by element
_NEURON = frozenset(row["operator"] for row in read_table("operators.csv") if row["runs_on"] == "neuron")


def runs_on_neuron(operator: str) -> bool:
    """Return whether the Neuron SDK's own PyTorch runs an operator of torch's, so that nothing of ours is needed."""
    if operator in _NEURON:
        return True
    overloads = getattr(torch.ops.aten, operator, None)
    if overloads is None:
        return False
    known = [getattr(overloads, name) for name in overloads.overloads()]
    return any(operator.is_view or torch.Tag.pointwise in operator.tags for operator in known)
