"""MP2 as an object with PySCF's manners: attributes to set, ``run()``, and results that PySCF's own tools take."""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from trnchem.accuracy import within
from trnchem.density import amplitudes, unrelaxed_densities
from trnchem.dfmp2 import calculate
from trnchem.molecules import pyscf
from trnchem.options import DEFAULTS, MP2Options, Request
from trnchem.orbitals import Frozen, orbitals
from trnchem.references import built, is_description, kind_of
from trnchem.result import MP2Result
from trnsci import ArgumentError, check
from trnsci.backends import inside

# what may be set beside what PySCF's object has: options of dfmp2, those that PySCF has a name for under that name
_THEIRS = ("basis", "charge", "spin", "reference", "frozen", "mesh")
OPTIONS: dict[str, Any] = {each.name: each.default for each in fields(MP2Options) if each.name not in _THEIRS}
OPTIONS |= {"chkfile": None}


@check.hands_on("dfmp2", "mean_field")
def DFMP2(mf: Any, frozen: Frozen = None, mo_coeff: Any = None, mo_occ: Any = None) -> Any:
    """Return an MP2 object as ``pyscf.mp.MP2(mf)`` does, whose ``kernel()`` is `dfmp2`.

    It is an object of PySCF's class (``DFMP2``, or ``DFUMP2`` for open shells) with its attributes ``verbose``,
    ``max_memory`` in MB, ``frozen``, ``with_df``, ``e_corr``, ``e_corr_os``, ``e_corr_ss``, ``e_tot`` and its methods
    ``run``, ``set``, ``set_frozen``, ``as_scanner``, ``make_rdm1``, ``make_fno``. Work of `dfmp2` are attributes
    too, ``pt.set(precision="fp32")``; ``checkpoint`` is called ``chkfile``.

    Args:
        mf: a mean field of PySCF, which runs first if it has not; an MP2 object of PySCF, whose settings are taken; an
            xyz file or a built-in name, as in `mean_field`.
        frozen: as in PySCF, or ``"core"``.
        mo_coeff: other orbitals than the mean field's.
        mo_occ: their occupations.

    Example:
        >>> from pyscf import gto, scf
        >>> mf = scf.RHF(gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)).density_fit()
        >>> pt = DFMP2(mf.run(), frozen="core").run()
        >>> print(f"{pt.e_corr:.6f} {pt.e_tot:.6f}")
        -0.127799 -100.111230
    """
    kept: dict[str, Any] = {}
    mf = built(mf, DEFAULTS) if is_description(mf) else mf
    if isinstance(mf, pyscf().mp.mp2.MP2Base):
        theirs, mf = mf, mf._scf
        frozen = theirs.frozen if frozen is None else frozen
        mo_coeff = theirs.mo_coeff if mo_coeff is None else mo_coeff
        mo_occ = theirs.mo_occ if mo_occ is None else mo_occ
        kept = {name: getattr(theirs, name) for name in ("verbose", "max_memory", "with_df") if hasattr(theirs, name)}
    if not isinstance(mf, pyscf().scf.hf.SCF):
        raise ArgumentError("DFMP2", "mf", type(mf), "a mean field or MP2 object of PySCF")
    if mf.mo_coeff is None:
        mf.run()
    own, mf = mo_coeff is None or mo_coeff is mf.mo_coeff, mf.remove_soscf()
    if kind_of(mf) == "ROHF":
        # as PySCF does it
        mf = mf.to_uhf()
    if isinstance(frozen, str) and frozen == "core":
        frozen = pyscf().data.elements.chemcore(mf.mol)
    solver = _classes()[np.ndim(mf.mo_occ) == 2](mf, frozen, None if own else mo_coeff, mo_occ)
    return solver.set(**OPTIONS, **kept)


@functools.cache
def _classes() -> tuple[Any, Any]:
    """Return the object for closed shells and the one for open ones, once PySCF is there."""
    mp = pyscf().mp
    return (
        type("DFMP2", (_Manners, mp.dfmp2.DFRMP2), {"__doc__": _Manners.__doc__}),
        type("DFUMP2", (_Manners, mp.dfump2.DFUMP2), {"__doc__": _Manners.__doc__}),
    )


class _Manners:
    """MP2 of PySCF, computed by `trnchem.dfmp2`. ``result`` holds the rest: plan, pairs, timings."""

    _keys: ClassVar[set[str]] = {*OPTIONS, "result"}
    result: MP2Result | None = None

    def set(self: Any, **options: Any) -> Any:
        """Set attributes and return the object; a name that is none is refused."""
        for name, value in options.items():
            if name not in OPTIONS and not hasattr(self, name):
                known = ", ".join((*OPTIONS, "frozen", "verbose", "max_memory"))
                raise ArgumentError("DFMP2", name, value, f"one of {known}")
            setattr(self, name, value)
        return self

    def _request(self: Any) -> Request:
        field = self._scf.copy()
        own = self.mo_coeff is self._scf.mo_coeff
        field.mo_coeff, field.mo_occ = self.mo_coeff, self.mo_occ
        # a scanner moves on to other molecules, and its energies with it
        field.mo_energy = self._scf.mo_energy if own else self.mo_energy
        field.e_tot = self.e_hf = self.get_e_hf()
        field.with_df = self.with_df
        used = pyscf().lib.current_memory()[0]
        options = {name: getattr(self, name) for name in OPTIONS if name != "chkfile"}
        return Request(
            mf=field,
            frozen=self.frozen,
            memory=max(1, int(1e6 * (self.max_memory - used))),
            checkpoint=self.chkfile,
            **options,
        )

    @inside("trnchem")
    def kernel(
        self: Any, mo_energy: Any = None, mo_coeff: Any = None, eris: Any = None, with_t2: bool = False
    ) -> tuple[float, Any]:
        """Compute; return the correlation energy and, if asked for, amplitudes."""
        for name, given in {"mo_energy": mo_energy, "mo_coeff": mo_coeff, "eris": eris}.items():
            if given is not None:
                hint = "Pass orbitals to DFMP2(mf, mo_coeff=...); integrals are computed in slabs"
                raise ArgumentError("kernel", name, "given", "None", hint=hint)
        log = pyscf().lib.logger.new_logger(self)
        if self.verbose >= pyscf().lib.logger.WARN:
            self.check_sanity()
        self.dump_flags()
        want = self._request()
        result = within(want, calculate)
        self.result, self.e_corr, self.converged = result, result.e_corr, True
        self.e_corr_os, self.e_corr_ss = result.e_os, result.e_ss
        log.info("%s", result.plan)
        self.t2 = self._amplitudes(want) if with_t2 else None
        for stage, seconds in result.timings.items():
            log.info("    wall time for %s %9.2f sec", stage, seconds)
        self._finalize()
        return self.e_corr, self.t2

    def _finalize(self: Any) -> Any:
        if self.e_corr_ss is not None:
            return super()._finalize()  # type: ignore[misc]
        log, error = pyscf().lib.logger.new_logger(self), self.result.standard_error
        log.note("E(SOS-%s) = %.15g  E_corr = %.15g", self.__class__.__name__, self.e_tot, self.e_corr)
        log.info("E_corr(oppo-spin) = %.15g%s", self.e_corr_os, "" if error is None else f" +- {error:.2g}")
        return self

    def _sizes(self: Any, want: Request) -> list[tuple[int, int]]:
        """Return occupied and virtual orbitals of each spin, without those that fill the arrays up."""
        chosen = orbitals(want.mf, want.frozen)
        up, nocc = chosen.spins.up, len(chosen.e_occ)
        used = [int(C.any(0).sum()) for C in chosen.C_vir]
        return [(nocc, used[0])] if up is None else [(up, used[0]), (nocc - up, used[1])]

    def _amplitudes(self: Any, want: Request) -> Any:
        sizes, parts = self._sizes(want), [part.numpy() for part in amplitudes(want)]
        if len(sizes) == 1:
            return parts[0]
        (_, a), (_, b) = sizes
        aa, ab, bb = parts
        return aa[:, :, :a, :a], ab[:, :, :a, :b], bb[:, :, :b, :b]

    @inside("trnchem")
    def make_rdm1(self: Any, t2: Any = None, ao_repr: bool = False, with_frozen: bool = True, **_: Any) -> Any:
        """Compute the unrelaxed density, as PySCF's, from B and without amplitudes in memory unless ``t2`` is given."""
        if t2 is not None:
            return super().make_rdm1(t2, ao_repr=ao_repr, with_frozen=with_frozen)  # type: ignore[misc]
        want = self._request()
        parts = unrelaxed_densities(want)
        oo = [part.occupied.numpy() for part in parts]
        vv = [part.virtual[:nvir, :nvir].numpy() for part, (_, nvir) in zip(parts, self._sizes(want), strict=True)]
        ov = [np.zeros((len(o), len(v))) for o, v in zip(oo, vv, strict=True)]
        vo = [each.T for each in ov]
        options = {"with_frozen": with_frozen, "ao_repr": ao_repr}
        if len(parts) == 1:
            from pyscf.cc.ccsd_rdm import _make_rdm1

            return _make_rdm1(self, (oo[0], ov[0], vo[0], vv[0]), **options)
        from pyscf.cc.uccsd_rdm import _make_rdm1 as of_spins

        return of_spins(self, (oo, ov, vo, vv), **options)

    def natural_orbitals(self: Any) -> tuple[Any, Any]:
        """Return occupations and natural orbitals, of both spins together, as PySCF's tools take them."""
        from pyscf.mcscf.addons import make_natural_orbitals

        return make_natural_orbitals(self)

    def to_pyscf(self: Any) -> Any:
        """Return PySCF's own object with these settings and results."""
        plain = self.view(self.__class__.__mro__[2])
        for name in (*OPTIONS, "result"):
            plain.__dict__.pop(name, None)
        return plain

    def as_scanner(self: Any) -> Any:
        """Return a function of molecules that gives energies; the mean field it starts from stays as it is."""
        if isinstance(self, pyscf().lib.SinglePointScanner):
            return self
        apart, shared = self.copy(), self._scf.with_df if "with_df" in vars(self._scf) else None
        apart._scf = self._scf.copy()
        for name, part in vars(self._scf).items():
            # PySCF's copies are shallow: integrals of the next molecule would replace those of the user's object
            if hasattr(part, "reset") and hasattr(part, "copy"):
                setattr(apart._scf, name, part.copy())
        apart.with_df = apart._scf.with_df if self.with_df is shared else self.with_df.copy()
        return super(_Manners, apart).as_scanner()  # type: ignore[misc]

    def nuc_grad_method(self: Any) -> Any:
        """Return the gradient as an object of PySCF, which its optimisers take."""
        return _gradients()(self)

    Gradients = nuc_grad_method


@functools.cache
def _gradients() -> Any:
    from pyscf.grad.mp2 import Gradients

    return type("Gradients", (_GradientManners, Gradients), {"__doc__": _GradientManners.__doc__})


class _GradientManners:
    """Gradients of PySCF, computed by `MP2Result.gradient`."""

    def kernel(self: Any, t2: Any = None, atmlst: Any = None, verbose: Any = None) -> Any:
        """Compute the gradient of all atoms, or of some, [natm, 3] in hartree per bohr."""
        if self.base.result is None:
            self.base.kernel()
        self.atmlst = self.atmlst if atmlst is None else atmlst
        forces = self.base.result.gradient()
        self.de = forces if self.atmlst is None else forces[list(self.atmlst)]
        self._finalize()
        return self.de

    def as_scanner(self: Any) -> Any:
        """Return a function of molecules, or of coordinates, that gives energies with gradients."""
        lib, scanner = pyscf().lib, _scanner()
        if isinstance(self, lib.GradScanner):
            return self
        return lib.set_class(scanner(self), (scanner, self.__class__), f"{self.__class__.__name__}Scanner")


@functools.cache
def _scanner() -> Any:
    from pyscf.grad.mp2 import MP2_GradScanner

    def call(self: Any, geometry: Any, **_: Any) -> tuple[float, Any]:
        """Compute one molecule, or the same one at other coordinates; the mean field starts from the last one."""
        is_molecule = isinstance(geometry, pyscf().gto.MoleBase)
        molecule = geometry if is_molecule else self.mol.set_geom_(geometry, inplace=False)
        self.reset(molecule)
        energy = self.base(molecule)
        return energy, self.kernel()

    return type("Scanner", (MP2_GradScanner,), {"__call__": call})
