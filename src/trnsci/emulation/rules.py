"""Operators of torch on the device, as far as they are documented or reported for torch-neuronx 2.14."""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from trnsci.analogs.neuron_operators import runs_on_neuron

# Reported by users of torch-neuronx 2.12 to run on the host: random draws, and these.
FALLBACKS = frozenset(["_unique", "_unique2", "unique_dim", "linalg_cross", "acos", "atan2", "scatter_reduce"])
RANDOM = ("normal", "uniform", "bernoulli", "exponential", "geometric", "cauchy", "log_normal", "random", "rand")
# Products and attention, which AWS's compiler has.
PRODUCTS = frozenset(
    ["mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "_scaled_dot_product_flash_attention_for_cpu"]
)
# Families of torch that XLA's operators do not have.
LACKING = ("linalg_", "_linalg_", "_fft_", "cholesky", "lu_", "geqrf", "orgqr", "ormqr", "svd", "triangular_solve")
REFUSED = "[NCC_EVRF004] Complex data types are not supported on the Neuron device."

Ending = Literal["device", "host", "unknown"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that are not known of a release, or depend on it.

    Attributes:
        has_complex: whether complex tensors exist on the device; AWS's framework decomposes their operators, its
            compiler refuses them.
        casts: whether 64-bit numbers are computed in 32 bits, as eager mode did before 2.33.
        fallback: whether operators that the device lacks run on the host, or raise.
        has_send: whether process groups have ``send`` and ``recv``.
    """

    has_complex: bool = False
    casts: bool = True
    fallback: bool = True
    has_send: bool = False


def ending(packet: str) -> Ending:
    """Return where an operator runs: on the device, on the host, or unknown."""
    base = packet.rstrip("_")
    if base in FALLBACKS or base.startswith((*RANDOM, *LACKING)):
        return "host"
    if base in PRODUCTS or runs_on_neuron(packet) or runs_on_neuron(base) or "backward" in base:
        return "device"
    return "unknown"


def is_view(op: Any) -> bool:
    """Return whether an operator moves no data: its result is a view of an operand."""
    return any(r.alias_info is not None and not r.alias_info.is_write for r in op._schema.returns)


def lower_precision(x: torch.Tensor) -> torch.Tensor:
    """Return the operand the device computes with in place of one of 64 bits."""
    return x.float() if x.dtype == torch.float64 else x.to(torch.complex64) if x.dtype == torch.complex128 else x


def narrow_result(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a result of 32 bits as the dtype the tensor claims; integers have wrapped."""
    return (x.to(torch.int32) if dtype == torch.int64 else x).to(dtype)
