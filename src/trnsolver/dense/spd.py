"""Systems and inverses with Hermitian positive definite matrices."""

from __future__ import annotations

from torch import Tensor

from trnsci import array_function, run
from trnsolver.arguments import check_result, right_hand_side, square
from trnsolver.dense.cholesky import CholeskyInverse, CholeskySolve, cholesky


@array_function
def solve_spd(a: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite, by Cholesky.

    Args:
        a: [..., N, N]; its lower triangle is read.
        b: [..., N, K] or [..., N].

    Raises:
        NotPositiveDefinite: with the index of the pivot.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u (norm(a) norm(x) + norm(b))``.

    Example:
        >>> solve_spd(torch.tensor([[4.0, 0.0], [0.0, 2.0]]), torch.ones(2))
        tensor([0.2500, 0.5000])
    """
    square("solve_spd", look=False, a=a)
    vector = right_hand_side("solve_spd", a, b, look=False)
    x = by_cholesky(a, b.unsqueeze(-1) if vector else b)
    check_result("solve_spd", x, b=b, a=a.tril)
    return x.squeeze(-1) if vector else x


def by_cholesky(a: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with checked operands."""
    return run(CholeskySolve(b, cholesky(a)))


@array_function
def inv_spd(a: Tensor) -> Tensor:
    """Invert a Hermitian positive definite matrix by Cholesky; the result is exactly Hermitian.

    Args:
        a: [..., N, N]; its lower triangle is read.

    Raises:
        NotPositiveDefinite: with the index of the pivot.

    Error bound:
        ``norm(x @ a - 1) <= 20 N u norm(x) norm(a)``.

    Cost:
        ``N**3`` FLOPs.

    Example:
        >>> inv_spd(torch.tensor([[4.0, 0.0], [0.0, 2.0]])).abs()
        tensor([[0.2500, 0.0000],
                [0.0000, 0.5000]])
    """
    square("inv_spd", look=False, a=a)
    x = run(CholeskyInverse(cholesky(a)))
    check_result("inv_spd", x, a=a.tril)
    return x
