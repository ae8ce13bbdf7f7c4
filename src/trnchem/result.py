"""The result of a calculation."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

import trnsolver
from trnchem.budget import MP2Plan
from trnchem.metric import Metric
from trnchem.screening import Screen
from trnsci import UnsupportedError, check, figures
from trnsim import notebook

if TYPE_CHECKING:
    from trnchem.relaxation import Relaxed

# of the opposite-spin energy, where it stands for all
SOS = 1.3
EnergyName = Literal["mp2", "scs", "sos"]
# factors of the opposite-spin and the same-spin energy
SCALINGS: dict[EnergyName, tuple[float, float]] = {"mp2": (1.0, 1.0), "scs": (1.2, 1 / 3), "sos": (SOS, 0.0)}


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
        response: computes the response of the orbitals to an energy; ``None`` on several ranks and in copies that were
            pickled, which leave the mean field behind.
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
    response: Callable[[EnergyName, bool], Relaxed] | None = field(default=None, repr=False)
    _relaxed: dict[Any, Relaxed] = field(default_factory=dict, repr=False)

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

    def gradient(self, energy: EnergyName | None = None) -> Any:
        """Return derivatives of the total energy by the positions of the nuclei, [natm, 3] in hartree per bohr.

        Args:
            energy: ``mp2``, ``scs`` (6/5 opposite spin, 1/3 same spin) or ``sos`` (1.3 opposite spin); that of
                ``e_tot`` unless given. Whatever the method, amplitudes of pairs are computed.

        Raises:
            UnsupportedError: the energy was sampled, of an ROHF reference, or computed on several ranks, or the result
                was pickled.
            CapacityError: the budget of the calculation is too small for it.
            NotConverged: the mean field is not stable, so that its orbitals have no response.

        Error bound:
            1e-7 hartree per bohr against central differences of energies in ``fp64``, where the mean field has
            converged to 1e-8 in its gradient.

        Example:
            >>> from trnchem import dfmp2
            >>> print(f"{abs(dfmp2('nitrogen').gradient()).max():.4f}")
            0.0195
        """
        return self._relax(energy, forces=True).gradient()

    def density(self, energy: EnergyName | None = None) -> Any:
        """Return the relaxed one-particle density on atomic orbitals, [nao, nao], or one of each spin.

        It is the derivative of the total energy by an operator of one electron, so that moments and fields follow from
        it; ``DFMP2(mf).make_rdm1()`` is the unrelaxed one.
        """
        relaxed = self._relax(energy, forces=False)
        parts = relaxed.on_atoms(
            [P + np.diag(each.occupied.astype(float)) for P, each in zip(relaxed.densities, relaxed.sets, strict=True)]
        )
        return parts if len(parts) == 2 else 2 * parts[0]

    def dipole(self, energy: EnergyName | None = None, *, unit: Literal["debye", "au"] = "debye") -> Any:
        """Return the dipole moment of the relaxed density, [3]; of an ion with respect to the origin."""
        check.option("dipole", "unit", unit, ("debye", "au"))
        relaxed = self._relax(energy, forces=False)
        return relaxed.field.dip_moment(relaxed.field.mol, self.density(energy), unit=unit, verbose=0)

    def natural_orbitals(self, energy: EnergyName | None = None) -> tuple[Any, Any]:
        """Return occupations [nmo], largest first, and natural orbitals [nao, nmo] of the relaxed density.

        In an open shell they are those of both spins together.

        Example:
            >>> from trnchem import dfmp2
            >>> print(f"{dfmp2('water').natural_orbitals()[0].sum():.6f}")
            10.000000
        """
        density = self.density(energy)
        total = density if density.ndim == 2 else density.sum(0)
        overlap = self._relax(energy, forces=False).field.get_ovlp()
        values, vectors = trnsolver.eigh(torch.from_numpy(overlap))
        kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
        root = vectors[:, kept] * values[kept].sqrt()
        occupations, rotated = trnsolver.eigh(root.mT @ torch.from_numpy(total) @ root)
        orbitals = (vectors[:, kept] / values[kept].sqrt()) @ rotated
        return occupations.flip(0).numpy(), orbitals.flip(1).numpy()

    def _relax(self, energy: EnergyName | None, *, forces: bool) -> Relaxed:
        """Return the response of an energy, computed once."""
        check.option("dfmp2", "energy", energy, (None, *SCALINGS))
        refused = "on several ranks or in another process; compute it here, on one" if self.response is None else ""
        if self.standard_error is not None:
            refused = "from random vectors, whose energy has noise; take method='pairs'"
        if refused:
            reason = f"the energy was computed {refused}"
            raise UnsupportedError("gradients and relaxed densities", [("trnchem", reason)])
        name = energy or ("sos" if self.e_ss is None else "mp2")
        for key in ((name, True), (name, forces)):
            if key in self._relaxed:
                return self._relaxed[key]
        assert self.response is not None
        self._relaxed[name, forces] = self.response(name, forces)
        return self._relaxed[name, forces]

    def _values(self) -> dict[str, Any]:
        """Return the fields but those that hold the mean field of PySCF, which cannot be pickled."""
        names = [each.name for each in fields(self) if each.name not in ("response", "_relaxed")]
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> Any:
        return functools.partial(MP2Result, **self._values()), ()

    def __copy__(self) -> MP2Result:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> MP2Result:
        return MP2Result(**copy.deepcopy(self._values(), memo), response=self.response)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for programs."""
        names = ("method", "reference", "e_hf", "e_corr", "e_os", "e_ss", "e_scs", "e_tot")
        return {
            **{name: getattr(self, name) for name in (*names, "standard_error", "interval", "error")},
            "pairs": None if self.pairs is None else [part.tolist() for part in self.pairs],
            "spin_up": self.plan.sizes.spins.up,
            "metric": {name: getattr(self.metric, name) for name in ("method", "functions", "vectors")},
            "seconds_measured": self.timings,
            "resumed_pairs": self.resumed,
        }

    def __repr__(self) -> str:
        return f"<MP2Result {self.method}: E(corr) = {self.e_corr:.8f} Ha, E(total) = {self.e_tot:.8f} Ha>"

    def _repr_html_(self) -> str:
        return notebook.fragment(f"E(corr) = {self.e_corr:.10f} Ha", notebook.text(str(self)))

    def plot(self, axes: figures.Axes | None = None) -> figures.Axes:
        """Draw the energies of pairs, where asked for, or the parts of the energy; return Matplotlib's axes."""
        axes = figures.open_axes(axes)
        if self.pairs is not None:
            image = axes.imshow((self.pairs.opposite_spin + self.pairs.same_spin).numpy())
            axes.figure.colorbar(image, label="hartree")
            axes.set(xlabel="occupied orbital", ylabel="occupied orbital", title=f"E(corr) = {self.e_corr:.6f} Ha")
            return axes
        parts = {"opposite spin": self.e_os, "same spin": self.e_ss, "correlation": self.e_corr}
        axes.barh(
            [name for name, value in parts.items() if value is not None], [x for x in parts.values() if x is not None]
        )
        axes.set(xlabel="hartree", title=f"E(total) = {self.e_tot:.6f} Ha")
        return axes

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
