"""Checkpoints that need no molecule, and how many pairs a file holds."""

from pathlib import Path

import torch

from trnchem import checkpoint
from trnchem.orbitals import Orbitals

NOCC = 4


def done_in(path):
    """Return how many energies are finished in a file."""
    with Path(path).open("rb") as file:
        layout = checkpoint._read_head(file.fileno())
        return checkpoint._read_slots(file.fileno(), layout, pairs=False)[0].done_count


def orbitals_of(seed=1):
    """Return random orthonormal orbitals of a small molecule."""
    draw = torch.Generator().manual_seed(seed)
    C = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=draw)).Q
    e_occ, e_vir = (torch.randn(n, dtype=torch.float64, generator=draw) for n in (NOCC, 2))
    return Orbitals(C[:, :NOCC], C[None, :, NOCC:], e_occ, e_vir[None], ())


def opened(path):
    """Return a checkpoint of that molecule."""
    overlap = torch.eye(6, dtype=torch.float64)
    return checkpoint.Checkpoint(path, {"molecule": "H2O"}, (NOCC, NOCC), pairs=True, overlap=overlap)


def row(i, j, count):
    """Return energies of orbital ``i`` with some from ``j`` on."""
    values = torch.arange(count, dtype=torch.float64) + 10 * i + j + 0.1
    return i, j, (values, -values)


def write(path, rows=((0, 0, 4), (1, 1, 2))):
    """Write a file with some rows finished; return its orbitals."""
    orbitals = orbitals_of()
    with opened(path) as file:
        file.load(orbitals)
        slots = file.start(orbitals)
        for each in rows:
            slots.put(*row(*each))
    return orbitals


def load(path):
    """Return orbitals and pairs of a file, or ``None``."""
    with opened(path) as file:
        return file.load(orbitals_of())
