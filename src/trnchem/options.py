"""The options of a calculation, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch

from trnchem.budget import Method
from trnchem.orbitals import Frozen
from trnchem.result import Progress
from trnsci import ArgumentError, check
from trnsci.precision import Precision, resolve

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Reference = Literal["rhf", "uhf", "rohf"]
Stability = Literal["internal", "external"]
METHODS: tuple[Method, ...] = ("pairs", "laplace", "stochastic")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MP2Options:
    """Options of `dfmp2`, `plan` and `rpa` that most calculations leave as they are.

    Attributes:
        basis: orbital basis for a file or a name; ``cc-pvdz`` unless given.
        charge: of a file or a name; 0 unless given.
        spin: unpaired electrons of a file or a name; unless given, as few as its electrons allow.
        reference: ``rhf``, ``uhf`` or ``rohf`` for a file, a name or a molecule; unless given ``uhf`` with unpaired
            electrons.
        frozen: how many of the lowest orbitals to leave out, their positions (a list for each spin if they differ), or
            ``"core"``.
        auxbasis: auxiliary basis, by name or as PySCF's dictionary. ``None`` is PySCF's choice: the mean field's own,
            or without density fitting the one for MP2.
        precision: ``fp64`` (default), ``fp32``, ``compensated`` or ``fast``. The metric is inverted in float64 always.
        method: ``pairs``; ``laplace`` for the opposite-spin energy without pairs; ``stochastic`` for that from random
            vectors.
        samples: random vectors of ``stochastic``.
        same_spin: let them sample the same-spin energy too, so that ``e_corr`` is all of it; others scale the
            opposite-spin energy. Twice the noise.
        seed: of the random vectors.
        pairs: return the energies of pairs too.
        screening: drop integrals that cannot exceed this, where they are many and a sparse product pays.
        reuse: take integrals the mean field holds fitted in this auxiliary basis, instead of computing them again.
        resident: keep B in device memory where the products run on a device or the simulator.
        scratch: folder for B when it does not fit into the budget; the system's for temporary files by default.
        progress: called with a `Progress` as stages advance.
        stability: refuse a mean field that a rotation of its orbitals would lower: ``internal`` keeps its kind,
            ``external`` tries less restricted kinds too. ``None`` does not look; PySCF's analysis is expensive.
        quadrature_error: relative error of ``1/D`` in the methods without pairs, which is measured; below that of
            ``precision`` unless given.
        target_error: hartree that the energy may be off by, ``result.error``; the cheapest precision, quadrature and
            number of samples that stay below are chosen and verified. Of the auxiliary basis and what is frozen it
            says nothing.
        mesh: ranks that share the work, from `trnsci.distributed.mesh`. All of them make this call, and all get the
            result; the first one's mean field counts, and it alone keeps the checkpoint. ``memory`` is of each.
        device: where the pairs are computed, ``"cuda"`` for one; B stays in host memory or on disk, and blocks of it
            are brought. ``result.plan.blocks`` says how large they are and what they take of its memory at most.

    Example:
        >>> dfmp2("water", options=MP2Options(basis="sto-3g", frozen="core")).method
        'pairs'
    """

    basis: str | None = None
    charge: int | None = None
    spin: int | None = None
    reference: Reference | None = None
    frozen: Frozen = None
    auxbasis: Any = None
    precision: Precision | None = None
    method: Method = "pairs"
    samples: int = 64
    same_spin: bool = False
    seed: int = 0
    pairs: bool = False
    screening: float = 1e-12
    reuse: bool = True
    resident: bool = True
    scratch: str | Path | None = None
    progress: Callable[[Progress], None] | None = None
    stability: Stability | None = None
    quadrature_error: float | None = None
    target_error: float | None = None
    mesh: DeviceMesh | None = None
    device: torch.device | str | None = None


DEFAULTS = MP2Options()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request(MP2Options):
    """All arguments of `dfmp2` in one value."""

    mf: Any
    memory: int | str | None = None
    checkpoint: str | Path | None = None

    @classmethod
    def of(cls, op: str, mf: Any, options: MP2Options, **more: Any) -> Self:
        """Join the arguments of a call."""
        check.kind(op, "options", options, MP2Options, "trnchem.MP2Options(...)")
        return cls(mf=mf, **{each.name: getattr(options, each.name) for each in fields(MP2Options)}, **more)

    @property
    def by_pair(self) -> bool:
        """Whether energies of single pairs are wanted."""
        return self.pairs or self.checkpoint is not None

    def check(self) -> Precision:
        """Refuse options that cannot be right; return the precision."""
        method = self.method
        check.option("dfmp2", "method", method, METHODS)
        check.option("dfmp2", "stability", self.stability, (None, "internal", "external"))
        check.flag("dfmp2", same_spin=self.same_spin, pairs=self.pairs, reuse=self.reuse, resident=self.resident)
        what = "energies of single pairs" if self.by_pair else f"method {method!r}"
        screens = isinstance(self.screening, int | float) and self.screening >= 0
        has = "computes it always" if method == "pairs" else "has none: with 1/D factored it is as expensive as pairs"
        for name, refused, expected in (
            ("screening", not screens, "a threshold, not negative"),
            ("same_spin", self.same_spin and method != "stochastic", f"False, because {method!r} {has}"),
            ("device", self.device is not None and (self.by_pair or method != "pairs"), f"None with {what}"),
            ("device", self.device is not None and self.mesh is not None, "None with a mesh, which has its own"),
            ("progress", self.progress is not None and not callable(self.progress), "a function or None"),
            ("scratch", not _is_folder(self.scratch), "a folder that exists"),
            ("pairs", self.pairs and method != "pairs", f"left out, because {method!r} has no pairs"),
        ):
            if refused:
                raise ArgumentError("dfmp2", name, getattr(self, name), expected)
        check.integer("dfmp2", "seed", self.seed, 0)
        check.integer("dfmp2", "samples", self.samples, 1)
        return resolve("dfmp2", self.precision, torch.float64)


def _is_folder(value: object) -> bool:
    return value is None or (isinstance(value, str | Path) and Path(value).is_dir())
