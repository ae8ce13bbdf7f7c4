"""Rank the pages of a power-law graph: PageRank by repeated sparse products.

Every new page links to pages chosen by their popularity, so a few are linked from everywhere and most from nowhere. The
ranks are compared with a direct sparse solution by SciPy in float64.

    python examples/science/pagerank.py --pages 2000
"""

import argparse
import sys

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch

import trnsci
import trnsparse

DAMPING = 0.85


def links(pages, each, seed):
    """Return who links to whom, by preferential attachment: two arrays of page numbers."""
    rng = np.random.default_rng(seed)
    popular = list(range(each))
    pairs = set()
    for page in range(each, pages):
        chosen = {popular[i] for i in rng.integers(len(popular), size=each)}
        pairs.update((page, other) for other in chosen)
        popular += [*chosen, page]
    sources, targets = np.array(sorted(pairs)).T
    return sources, targets


def transition(sources, targets, pages):
    """Return the matrix that hands each page's rank to those it links to, in compressed rows; columns sum to 1 or 0."""
    out = np.bincount(sources, minlength=pages)
    made = scipy.sparse.coo_matrix((1.0 / out[sources], (targets, sources)), shape=(pages, pages))
    return made.tocsr(), out == 0


def pagerank(matrix, idle, tol, limit=200):
    """Iterate until ranks move by less than ``tol`` in all; return them and the number of products."""
    pages = matrix.shape[0]
    rank = torch.full((pages,), 1 / pages)
    for step in range(1, limit + 1):
        # pages without links hand their rank to everybody
        lost = float(rank[idle].sum(dtype=torch.float64))
        spread = torch.full_like(rank, (1 - DAMPING + DAMPING * lost) / pages)
        new = trnsparse.spmv(matrix, rank, alpha=DAMPING, beta=1.0, y=spread)
        moved, rank = float((new - rank).abs().sum(dtype=torch.float64)), new
        if moved <= tol:
            return rank, moved, step
    raise trnsci.NotConverged(op="pagerank", iterations=limit, residual=moved)


def main(argv=None):
    """Rank, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--links", type=int, default=4, help="links of every new page")
    parser.add_argument("--tol", type=float, default=8e-6)
    args = parser.parse_args(argv)

    sources, targets = links(args.pages, args.links, seed=1998)
    exact, idle = transition(sources, targets, args.pages)
    with trnsci.backend(args.backend):
        matrix = trnsparse.CSRMatrix.from_scipy(exact.astype(np.float32))
        rank, moved, steps = pagerank(matrix, torch.from_numpy(idle), args.tol)

    # without the idle pages' share the system is sparse, and that share only scales its solution
    ones = np.full(args.pages, 1 / args.pages)
    oracle = scipy.sparse.linalg.spsolve((scipy.sparse.eye(args.pages) - DAMPING * exact).tocsc(), ones)
    oracle /= oracle.sum()
    error = np.abs(rank.double().numpy() - oracle).sum()
    # a step shrinks errors by the damping; rounding adds, to every product, one unit for each entry of a row
    longest = int(np.diff(exact.indptr).max())
    bound = (DAMPING * moved + (longest + 4) * torch.finfo(torch.float32).eps / 2) / (1 - DAMPING)
    passed = bool(error <= bound)
    incoming = np.bincount(targets, minlength=args.pages)
    unlinked = int((incoming == 0).sum())
    print(f"{args.pages} pages, {len(sources)} links; {incoming.max()} to the most popular, none to {unlinked} pages")
    print(f"{steps} products; first: {', '.join(str(int(page)) for page in rank.argsort(descending=True)[:5])}")
    print(f"error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
