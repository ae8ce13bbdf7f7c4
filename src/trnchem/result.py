"""The result of a calculation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from trnchem.budget import MP2Plan
from trnchem.metric import Metric
from trnchem.screening import Screen
from trnsim import notebook

# of the opposite-spin energy, where it stands for all
SOS = 1.3


class Progress(NamedTuple):
    """How far a stage is."""

    stage: str
    done: int
    total: int


class PairEnergies(NamedTuple):
    """Symmetric [nocc, nocc] matrices whose elements add up to the energy.

    In an open shell they have a row for every occupied orbital of either spin: the first ``plan.sizes.spins.up`` have
    spin up.
    """

    opposite_spin: Tensor
    same_spin: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MP2Result:
    """Energies in hartree.

    Attributes:
        method: ``pairs``, ``laplace`` or ``stochastic``.
        reference: of the mean field: ``RHF``, ``UHF`` or ``ROHF``.
        e_hf: energy of the mean field.
        e_os, e_ss: opposite- and same-spin parts; the same-spin part is ``None`` for the methods without pairs, unless
            it was sampled.
        standard_error: of ``e_os`` where it was sampled, of ``e_corr`` where both spins were.
        interval: holds that energy 95.4 times of 100.
        error: hartree within which ``e_corr`` is stated: rounding, quadrature, and sampling 99.7 times of 100.
        pairs: energies of pairs of occupied orbitals, where asked for.
        metric: how the metric was inverted and how many vectors were kept.
        screen: which pairs of atomic orbitals were kept; ``None`` where nothing was screened.
        plan: what was decided before starting.
        timings: measured seconds by stage.
        resumed: pairs taken from the checkpoint.
    """

    method: str
    reference: str
    e_hf: float
    e_os: float
    e_ss: float | None
    standard_error: float | None
    interval: tuple[float, float] | None
    error: float
    pairs: PairEnergies | None = field(repr=False)
    metric: Metric
    screen: Screen | None = field(repr=False)
    plan: MP2Plan = field(repr=False)
    timings: dict[str, float] = field(repr=False)
    resumed: int = 0

    @property
    def e_corr(self) -> float:
        """The correlation energy; scaled opposite spin (`e_sos`) for the methods that have no other."""
        return self.e_sos if self.e_ss is None else self.e_os + self.e_ss

    @property
    def e_scs(self) -> float | None:
        """Spin-component scaled: 6/5 opposite spin, 1/3 same spin."""
        return None if self.e_ss is None else 1.2 * self.e_os + self.e_ss / 3

    @property
    def e_sos(self) -> float:
        """Scaled opposite spin: 1.3 opposite spin."""
        return SOS * self.e_os

    @property
    def e_tot(self) -> float:
        """Mean field and correlation."""
        return self.e_hf + self.e_corr

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for programs."""
        return {
            "method": self.method,
            "reference": self.reference,
            "e_hf": self.e_hf,
            "e_corr": self.e_corr,
            "e_os": self.e_os,
            "e_ss": self.e_ss,
            "e_scs": self.e_scs,
            "e_tot": self.e_tot,
            "standard_error": self.standard_error,
            "interval": self.interval,
            "error": self.error,
            "pairs": None if self.pairs is None else [part.tolist() for part in self.pairs],
            "spin_up": self.plan.sizes.spins.up,
            "metric": {
                "method": self.metric.method,
                "functions": self.metric.functions,
                "vectors": self.metric.vectors,
            },
            "seconds_measured": self.timings,
            "resumed_pairs": self.resumed,
        }

    def __repr__(self) -> str:
        return f"<MP2Result {self.method}: E(corr) = {self.e_corr:.8f} Ha, E(total) = {self.e_tot:.8f} Ha>"

    def _repr_html_(self) -> str:
        return notebook.fragment(f"E(corr) = {self.e_corr:.10f} Ha", notebook.text(str(self)))

    def __str__(self) -> str:
        lines = [
            f"E({self.reference})".ljust(9) + f"{self.e_hf:18.10f}",
            f"E(corr)  {self.e_corr:18.10f}",
            f"E(os)    {self.e_os:18.10f}",
        ]
        if self.standard_error is not None:
            lines[-1 if self.e_ss is None else 1] += f" +- {self.standard_error:.2e}"
        if self.e_ss is None:
            lines[1] += f" = {SOS} E(os), scaled opposite spin"
        else:
            lines += [f"E(ss)    {self.e_ss:18.10f}", f"E(SCS)   {self.e_scs:18.10f}"]
        lines += [f"E(total) {self.e_tot:18.10f}", f"metric: {self.metric}"]
        if self.screen is not None:
            lines.append(f"screening: {self.screen}")
        lines.append("measured: " + ", ".join(f"{name} {spent:.3g} s" for name, spent in self.timings.items()))
        return "\n".join(lines)
