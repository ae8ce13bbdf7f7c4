"""The command ``python -m trnchem``: MP2 energies of molecules, with a bar while they run."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import trnsci
from trnchem.dfmp2 import dfmp2, plan
from trnchem.molecules import GEOMETRIES, pyscf
from trnchem.options import METHODS, MP2Options
from trnchem.references import build_molecule, mean_field
from trnchem.result import MP2Result, Progress
from trnsci import check, config, console
from trnsci.errors import TrnError
from trnsci.precision import PRECISIONS
from trnsim.terminal import Parser, escape_controls


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Mistakes end in one sentence on stderr."""
    args = _parser().parse_args(argv)
    if args.fused_energy:
        print("trnchem: --fused-energy says nothing here: energies of pairs are always fused", file=sys.stderr)
    with trnsci.backend(args.backend) if args.backend else contextlib.nullcontext():
        try:
            return _run(args)
        except TrnError as error:
            if config.launched_rank():
                # the first rank says it for all
                return 1
            _say(str(error))
            return 1
        except KeyboardInterrupt:
            kept = f" Finished pairs are in {args.checkpoint}; the same command goes on." if args.checkpoint else ""
            _say(f"interrupted.{kept}")
            return 130


def _say(text: str) -> None:
    """Print a sentence on stderr, below the bar that may stand there."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    console.say("trnchem", text)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m trnchem", description="Density-fitted MP2 energies of molecules with closed and open shells."
    )
    names = ", ".join(GEOMETRIES)
    add = parser.add_argument
    add("molecules", metavar="MOLECULE", nargs="+", help=f"xyz files, or some of {names}")
    add("--basis", default="cc-pvdz", help="orbital basis (default cc-pvdz)")
    add("--charge", type=int, help="of every molecule (default 0)")
    add("--spin", type=int, metavar="N", help="unpaired electrons of every molecule (default: as few as there can be)")
    add("--reference", choices=("rhf", "uhf", "rohf"), help="kind of Hartree-Fock (default: uhf for open shells)")
    add("--stability", choices=("internal", "external"), help="refuse a mean field that is a saddle point")
    add("--auxbasis", help="auxiliary basis (default: the mean field's own)")
    add("--frozen", metavar="N|core", type=_parse_frozen, help="orbitals to leave out")
    add("--precision", choices=PRECISIONS, help="of the products (default fp64)")
    add("--target-error", type=float, metavar="HARTREE", help="choose the cheapest precision that stays within it")
    add("--method", choices=METHODS, default="pairs", help="default pairs")
    add("--samples", type=int, default=64, help="random vectors of stochastic (default 64)")
    add("--same-spin", action="store_true", help="let them sample the same-spin energy too")
    add("--seed", type=int, default=0, help="of the random vectors")
    add("--pairs", action="store_true", help="print the energies of pairs too")
    add("--memory", help="budget, e.g. '2 GB' (default: what is free)")
    add("--scratch", type=Path, metavar="FOLDER", help="for B when it does not fit")
    kept = "keeps what is finished; go on from it if there. A folder for several molecules"
    add("--checkpoint", type=Path, metavar="FILE", help=kept)
    add("--backend", choices=config.BACKENDS, help="where products run")
    add("--json", action="store_true", help="print JSON, an object of one line for every molecule")
    add("--fused-energy", action="store_true", help="deprecated: energies of pairs are always fused")
    return parser


def _parse_frozen(text: str) -> int | str:
    if text != "core" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of orbitals nor 'core'")
    return text if text == "core" else int(text)


SYSTEM = ("basis", "charge", "spin", "reference")
OPTIONS = (
    *("frozen", "auxbasis", "precision", "method", "samples", "same_spin", "seed", "pairs"),
    *("scratch", "stability", "target_error"),
)


def _run(args: argparse.Namespace) -> int:
    """Compute one molecule after the other; one that fails does not keep the next from its turn."""
    failed = 0
    files = [_checkpoint(args, molecule) for molecule in args.molecules]
    for index, (molecule, checkpoint) in enumerate(zip(args.molecules, files, strict=True)):
        if index and not args.json:
            print()
        try:
            _run_one(args, molecule, checkpoint)
        except TrnError as error:
            if len(args.molecules) == 1 or config.launched_rank() is not None:
                raise
            console.say("trnchem", f"{molecule}: {error}")
            failed += 1
    return int(failed > 0)


def _checkpoint(args: argparse.Namespace, molecule: str) -> Path | None:
    """Return a file for each molecule."""
    file: Path | None = args.checkpoint
    if file is None or len(args.molecules) == 1:
        return file
    check.refuse(not file.is_dir(), "trnchem", "--checkpoint", str(file), "a folder that exists, for several molecules")
    return file / f"{Path(molecule).stem}-{args.method}.ckpt"


def _run_one(args: argparse.Namespace, molecule: str, checkpoint: Path | None) -> None:
    options = MP2Options(**{name: getattr(args, name) for name in OPTIONS}, progress=bar(sys.stderr))
    system = {name: getattr(args, name) for name in SYSTEM}
    if config.launched_rank() is not None:
        _run_together(args, molecule, checkpoint, replace(options, **system))
        return
    field = mean_field(molecule, **system)
    # a target chooses the precision: its plan is known at the end
    early = not args.json and args.target_error is None
    if early:
        print(f"{_title(args, molecule)}\n{plan(field, memory=args.memory, options=options)}\n", flush=True)
    result = dfmp2(field, checkpoint=checkpoint, memory=args.memory, options=options)
    _show(args, molecule, result, checkpoint, planned=early)


def _run_together(args: argparse.Namespace, molecule: str, checkpoint: Path | None, options: MP2Options) -> None:
    """Compute as one of several ranks; the first one prints."""
    from trnsci import distributed

    try:
        mesh = distributed.mesh(device="cpu")
        together = replace(options, mesh=mesh)
        result = dfmp2(molecule, checkpoint=checkpoint, memory=args.memory, options=together)
        if mesh.get_rank() == 0:
            _show(args, molecule, result, checkpoint, planned=False)
    finally:
        if molecule == args.molecules[-1] or sys.exc_info()[0] is not None:
            distributed.leave()


def _facts(args: argparse.Namespace, molecule: str) -> dict[str, Any]:
    built = build_molecule(molecule, MP2Options(**{name: getattr(args, name) for name in SYSTEM}))
    atoms = [built.atom_pure_symbol(k) for k in range(built.natm)]
    formula = "".join(f"{atom}{atoms.count(atom) if atoms.count(atom) > 1 else ''}" for atom in sorted(set(atoms)))
    return {"molecule": molecule, "formula": formula, "charge": built.charge, "spin": built.spin, "basis": args.basis}


def _title(args: argparse.Namespace, molecule: str) -> str:
    facts = _facts(args, molecule)
    words = f"{molecule}: {facts['formula']}, charge {facts['charge']}, {facts['spin']} unpaired; {args.basis}"
    return escape_controls(words)


def _show(
    args: argparse.Namespace, molecule: str, result: MP2Result, checkpoint: Path | None, *, planned: bool
) -> None:
    if args.json:
        print(json.dumps({**_facts(args, molecule), **result.to_dict(), "cite": references(result)}))
        return
    if not planned:
        print(f"{_title(args, molecule)}\n{result.plan}\n")
    print(result)
    if args.target_error is not None:
        print(f"E(corr) is stated within {result.error:.1e} Ha")
    if result.resumed:
        what = "pairs" if result.method == "pairs" else "energies of quadrature points"
        print(escape_controls(f"{result.resumed} {what} came from {checkpoint}"))
    if result.pairs is not None:
        total, up = result.pairs.opposite_spin + result.pairs.same_spin, result.plan.sizes.spins.up
        names = [str(i) if up is None else f"{i} up" if i < up else f"{i - up} down" for i in range(len(total))]
        # off the diagonal a pair has two halves
        rows = [
            (names[i], names[j], f"{float(total[i, j]) * (1 if up is None else 2):.9f}")
            for i in range(len(total))
            for j in range(i + (up is None))
        ]
        console.tables(console.Table("Pairs of occupied orbitals, in hartree", ("i", "j", "energy"), rows))
    print("Cite:", *references(result), sep="\n  ")


def bar(stream: TextIO, width: int = 30) -> Callable[[Progress], None] | None:
    """Return a callback that draws a bar on a terminal, or ``None`` where no terminal is."""
    if not stream.isatty():
        return None

    def draw(now: Progress) -> None:
        full = width * now.done // max(1, now.total)
        end = "\n" if now.done >= now.total else ""
        text = f"\r{now.stage:<11}[{'#' * full}{'.' * (width - full)}] {now.done}/{now.total}"
        print(text, end=end, file=stream, flush=True)

    return draw


MP2 = "C. Møller, M. S. Plesset, Phys. Rev. 46, 618 (1934): MP2"
FITTED = "M. Feyereisen, G. Fitzgerald, A. Komornicki, Chem. Phys. Lett. 208, 359 (1993): density-fitted MP2"
PYSCF = "Q. Sun et al., J. Chem. Phys. 153, 024109 (2020): PySCF {version}, mean field and integrals"
SOS = "Y. Jung, R. C. Lochan, A. D. Dutoi, M. Head-Gordon, J. Chem. Phys. 121, 9793 (2004): scaled opposite spin"
LAPLACE = "M. Häser, J. Almlöf, J. Chem. Phys. 96, 489 (1992): Laplace transform of the denominator"
STOCHASTIC = "T. Y. Takeshita et al., J. Chem. Theory Comput. 13, 4605 (2017): stochastic density-fitted MP2"
SCS = "S. Grimme, J. Chem. Phys. 118, 9095 (2003): spin-component scaling, for E(SCS)"
SUITE = "The trnsci authors, trnsci {version}, scientific computing on AWS Trainium (CITATION.cff)"


def references(result: MP2Result) -> list[str]:
    """Return what to cite for a result, in the order in which a text would name them."""
    how = {"pairs": [], "laplace": [LAPLACE], "stochastic": [LAPLACE, STOCHASTIC]}[result.method]
    return [
        MP2,
        FITTED,
        *how,
        SOS if result.e_ss is None else SCS,
        PYSCF.format(version=pyscf().__version__),
        SUITE.format(version=trnsci.__version__),
    ]
