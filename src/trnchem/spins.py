"""Which spin an occupied orbital has: closed shells count one set for both, open ones have spin up, then spin down."""

from __future__ import annotations

from typing import NamedTuple


class Spins(NamedTuple):
    """The order of the occupied orbitals, which are the rows of B.

    The energy is the sum over all ordered pairs of rows. In a closed shell a row stands for both spins, and a pair has
    an opposite-spin and a same-spin part. In an open shell a pair has one of them, and half of it in either order.

    Attributes:
        up: how many orbitals of spin up come first; ``None`` for a closed shell.
    """

    up: int | None = None

    @property
    def sets(self) -> int:
        """Sets of orbitals: 1 or 2."""
        return 1 if self.up is None else 2

    def of(self, orbital: int) -> int:
        """Return the set of an orbital: 0, or 1 for spin down."""
        return int(self.up is not None and orbital >= self.up)

    def ranges(self, nocc: int) -> list[range]:
        """Return occupied orbitals of each set."""
        return [range(nocc)] if self.up is None else [range(self.up), range(self.up, nocc)]

    def most(self, nocc: int) -> int:
        """Return occupied orbitals of the larger set."""
        return nocc if self.up is None else max(self.up, nocc - self.up)

    def until(self, first: int, last: int) -> int:
        """Return where orbitals from ``first`` on change their spin, or ``last`` if they do not before."""
        return last if self.up is None or first >= self.up else min(last, self.up)


CLOSED = Spins()
