"""The command ``python -m trnchem``: the MP2 energy of a molecule, with a bar while it runs."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import trnsci
from trnchem.dfmp2 import METHODS, dfmp2, plan
from trnchem.molecules import GEOMETRIES
from trnchem.references import mean_field
from trnchem.result import MP2Result, Progress
from trnsci import config, show
from trnsci.errors import TrnError
from trnsci.precision import PRECISIONS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. Mistakes end in one sentence on stderr."""
    args = _parser().parse_args(argv)
    with contextlib.ExitStack() as stack:
        if args.backend:
            stack.enter_context(trnsci.backend(args.backend))
        try:
            return _run(args)
        except TrnError as error:
            if config.launched_rank():
                # the first rank says it for all
                return 1
            print(f"\ntrnchem: {error}" if sys.stderr.isatty() else f"trnchem: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            kept = f" Finished pairs are in {args.checkpoint}; the same command goes on." if args.checkpoint else ""
            print(f"\ntrnchem: interrupted.{kept}", file=sys.stderr)
            return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trnchem", description="Density-fitted MP2 energy of a molecule.")
    names = ", ".join(GEOMETRIES)
    parser.add_argument("molecule", metavar="MOLECULE", help=f"an xyz file, or one of {names}")
    parser.add_argument("--basis", default="cc-pvdz", help="orbital basis (default cc-pvdz)")
    parser.add_argument("--auxbasis", help="auxiliary basis (default: the mean field's own)")
    parser.add_argument("--frozen", metavar="N|core", type=_frozen, help="orbitals to leave out")
    parser.add_argument("--precision", choices=PRECISIONS, help="of the products (default fp64)")
    parser.add_argument("--method", choices=METHODS, default="pairs", help="default pairs")
    parser.add_argument("--samples", type=int, default=64, help="random vectors of stochastic (default 64)")
    parser.add_argument("--seed", type=int, default=0, help="of the random vectors")
    parser.add_argument("--pairs", action="store_true", help="print the energies of pairs too")
    parser.add_argument("--memory", help="budget, e.g. '2 GB' (default: what is free)")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="for B when it does not fit")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="keeps finished pairs; go on from it if there")
    parser.add_argument("--backend", choices=config.BACKENDS, help="where products run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _frozen(text: str) -> int | str:
    return text if text == "core" else int(text)


def _run(args: argparse.Namespace) -> int:
    if config.launched_rank() is not None:
        return _run_together(args)
    field = mean_field(args.molecule, basis=args.basis)
    options = {name: getattr(args, name) for name in ("frozen", "auxbasis", "precision", "method", "samples", "memory")}
    if not args.json:
        print(f"{plan(field, **options)}\n", flush=True)
    found = dfmp2(
        field,
        **options,
        seed=args.seed,
        pairs=args.pairs,
        scratch=args.scratch,
        checkpoint=args.checkpoint,
        progress=bar(sys.stderr),
    )
    _show(args, found)
    return 0


def _run_together(args: argparse.Namespace) -> int:
    """As one of several ranks, of which the first one speaks."""
    from trnsci import distributed

    names = ("basis", "frozen", "auxbasis", "precision", "method", "samples", "seed", "pairs", "memory", "scratch")
    options = {name: getattr(args, name) for name in (*names, "checkpoint")}
    try:
        mesh = distributed.mesh(device="cpu")
        found = dfmp2(args.molecule, **options, progress=bar(sys.stderr), mesh=mesh)
        if mesh.get_rank() == 0:
            if not args.json:
                print(f"{found.plan}\n")
            _show(args, found)
    finally:
        distributed.leave()
    return 0


def _show(args: argparse.Namespace, found: MP2Result) -> None:
    if args.json:
        show.as_json(found.to_dict())
        return
    print(found)
    if found.resumed:
        print(f"{found.resumed} pairs came from {args.checkpoint}")
    if found.pairs is not None:
        total = found.pairs.opposite_spin + found.pairs.same_spin
        rows = [(str(i), str(j), f"{float(total[i, j]):.9f}") for i in range(len(total)) for j in range(i + 1)]
        show.tables(show.Table("Pairs of occupied orbitals, in hartree", ("i", "j", "energy"), rows))


def bar(stream: TextIO, width: int = 30) -> Callable[[Progress], None] | None:
    """Return a callback that draws a bar on a terminal, or ``None`` where nobody watches."""
    if not stream.isatty():
        return None

    def draw(now: Progress) -> None:
        full = width * now.done // max(1, now.total)
        end = "\n" if now.done >= now.total else ""
        text = f"\r{now.stage:<11}[{'#' * full}{'.' * (width - full)}] {now.done}/{now.total}"
        print(text, end=end, file=stream, flush=True)

    return draw
