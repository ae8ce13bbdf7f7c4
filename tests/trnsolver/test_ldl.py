"""Solutions and inverses from LDL factors, against NumPy."""

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, Singular
from trnsci.testing import gaussian, pairs
from trnsolver import ldl, ldl_inverse, ldl_solve
from trnsolver.arguments import roundoff

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def drawn(shape, dtype, hermitian, seed=1):
    real = gaussian(shape, seed, dtype=torch.float64)
    made = torch.complex(real, gaussian(shape, seed + 99, dtype=torch.float64)) if dtype.is_complex else real
    made = made + (made.mH if hermitian else made.mT)
    return made.to(dtype)


def norm(x):
    return float(torch.linalg.matrix_norm(x.to(torch.complex128)).max())


def stated(factors, n, dtype):
    return 20 * n * roundoff(dtype) * norm(factors.l) ** 2 * norm(factors.d)


@together(
    ("dtype", "hermitian", "shape"),
    pairs(DTYPES, [True, False], [(1, 1), (2, 2), (7, 7), (40, 40), (3, 6, 6), (2, 2, 5, 5)]),
)
def test_it_stays_within_its_stated_bound(dtype, hermitian, shape):
    a = drawn(shape, dtype, hermitian)
    n = shape[-1]
    b = gaussian((*shape[:-1], 3), 7).to(dtype)
    factors = ldl(a, hermitian=hermitian)
    x = ldl_solve(*factors, b, hermitian=hermitian)
    bound = stated(factors, n, dtype)
    assert norm(a.to(torch.complex128) @ x.to(torch.complex128) - b) <= bound * norm(x)
    vector = ldl_solve(*factors, b[..., 0], hermitian=hermitian)
    assert norm(vector.unsqueeze(-1) - x[..., :1]) <= bound * norm(x) ** 2
    inverse = ldl_inverse(*factors, hermitian=hermitian)
    assert torch.equal(inverse, inverse.mH if hermitian else inverse.mT)
    assert norm(a.to(torch.complex128) @ inverse.to(torch.complex128) - torch.eye(n)) <= bound * norm(inverse)


def test_blocks_of_two_rows_are_met():
    # zeros on the diagonal force them
    a = torch.tensor([[0.0, 1.0, 2.0, 0.0], [1.0, 0.0, 0.0, 3.0], [2.0, 0.0, 0.0, 1.0], [0.0, 3.0, 1.0, 0.0]])
    factors = ldl(a)
    assert bool((factors.d.diagonal(-1) != 0).any())
    x = ldl_solve(*factors, torch.arange(4.0))
    exact = np.linalg.solve(a.double().numpy(), np.arange(4.0))
    assert np.linalg.norm(x.numpy() - exact) <= 20 * 4 * 2.0**-24 * np.linalg.cond(a.numpy()) * np.linalg.norm(exact)


@together(
    ("dtype", "hermitian", "n"),
    pairs([torch.float32, torch.float64, torch.complex64, torch.complex128], [True, False], [64, 65, 100]),
)
def test_singular_matrices_of_several_blocks(dtype, hermitian, n):
    # LAPACK's blocked routine returns wrong factors where a column becomes zero
    x = (torch.arange(3 * n) % 5 - 2).reshape(n, 3).to(dtype)
    for a in (torch.ones(n, n, dtype=dtype), torch.zeros(n, n, dtype=dtype), x @ (x.mH if hermitian else x.mT)):
        lower, middle, order = ldl(a, hermitian=hermitian)
        left = lower @ middle @ (lower.mH if hermitian else lower.mT) - a[order][:, order]
        assert float(left.abs().max()) <= 20 * n * roundoff(dtype) * float(a.abs().max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
@together("hermitian", [True, False])
def test_batches_have_the_bits_of_their_matrices(dtype, hermitian):
    a = gaussian((12, 17, 17), 3, dtype)
    a = a + (a.mH if hermitian else a.mT)
    # exchanges of all kinds, a matrix of zeros and one with a column of them
    a[:, 5:9] *= 1e-6
    a = a.tril() + (a.tril(-1).mH if hermitian else a.tril(-1).mT)
    a[3], a[4, 0], a[4, :, 0] = 0, 0, 0
    many, alone = ldl(a, hermitian=hermitian), [ldl(one, hermitian=hermitian) for one in a]
    for name in many._fields:
        assert torch.equal(getattr(many, name), torch.stack([getattr(one, name) for one in alone])), name


def test_numpy_in_numpy_out_and_broadcasting():
    a = drawn((5, 5), torch.float64, True)
    b = gaussian((3, 5, 2), 3, dtype=torch.float64)
    found = torch.from_numpy(ldl_solve(*ldl(a.numpy()), b.numpy()))
    assert norm(a @ found - b) <= stated(ldl(a), 5, torch.float64) * norm(found)


def test_nothing():
    factors = ldl(torch.empty(0, 0))
    assert ldl_solve(*factors, torch.empty(0, 2)).shape == (0, 2)
    assert ldl_inverse(*factors).shape == (0, 0)


def test_gradients_of_the_right_hand_side_and_factors():
    a = drawn((4, 4), torch.float64, True)
    l, d, order = ldl(a)  # noqa: E741
    b = gaussian((4, 2), 3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda p, q: ldl_solve(p, d, order, q), (l.requires_grad_(), b))


def test_a_singular_block_is_named():
    a = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
    factors = ldl(a)
    with pytest.raises(Singular) as caught:
        ldl_solve(*factors, torch.ones(3))
    assert factors.order[caught.value.index] == 1
    with pytest.raises(Singular):
        ldl_inverse(*factors)


def test_bad_arguments_are_named():
    l, d, order = ldl(torch.eye(3))  # noqa: E741
    with pytest.raises(ArgumentError) as caught:
        ldl_solve(l, d, order, torch.ones(4))
    assert caught.value.got == {"a": 3, "b": 4}
    with pytest.raises(ArgumentError) as caught:
        ldl_solve(l, d, order + 1, torch.ones(3))
    assert caught.value.argument == "order"
    assert "permutation of 0 to 2" in str(caught.value)
    with pytest.raises(ArgumentError, match="finite") as caught:
        ldl_solve(l, d, order, torch.tensor([1.0, float("nan"), 1.0]))
    assert caught.value.argument == "b[1]"


def test_plans_cost_the_factorisation_and_the_systems():
    a = torch.ones(30, 30)
    assert trnsci.plan(ldl, a).steps[0].cost.flops == 9000
    plan = trnsci.plan(ldl_solve, a, a, torch.zeros(30, dtype=torch.int64), torch.ones(30, 2))
    assert [step.op for step in plan.steps] == ["trnsolver::solve_triangular"] * 2


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_gradients_of_the_factors(n, dtype, hermitian):
    a = gaussian((2, n, n), 1, dtype)
    if n == 3:
        # no diagonal to divide by: blocks of two rows
        a = a - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))

    def factors(x):
        result = ldl(x + (x.mH if hermitian else x.mT), hermitian=hermitian)
        return result.l, result.d

    blocks = factors(a)[1].diagonal(-1, dim1=-2, dim2=-1) != 0
    assert n != 3 or bool(blocks.any())
    assert torch.autograd.gradcheck(factors, (a.requires_grad_(),))


def test_gradients_of_a_singular_block_are_refused():
    a = torch.diag(torch.tensor([1.0, 0.0])).requires_grad_()
    with pytest.raises(Singular, match="ldl"):
        ldl(a).l.sum().backward()


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_batches_and_tangents_of_torch_func(dtype, hermitian):
    def factors(x):
        return ldl(x + (x.mH if hermitian else x.mT), hermitian=hermitian)[:2]

    a, directions = gaussian((3, 5, 5), 1, dtype), gaussian((3, 5, 5), 2, dtype)
    a = a * (1 - torch.eye(5))
    batched = torch.func.vmap(factors, 1, 1)(a.movedim(0, 1))
    for part, whole in zip(batched, factors(a), strict=True):
        torch.testing.assert_close(part.movedim(1, 0), whole, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(factors, (a[0].clone().requires_grad_(),), check_forward_ad=True)
    both = torch.func.vmap(lambda x, e: torch.func.jvp(factors, (x,), (e,))[1])(a, directions)
    for at, part in enumerate(both):
        one_by_one = [torch.func.jvp(factors, (x,), (e,))[1][at] for x, e in zip(a, directions, strict=True)]
        torch.testing.assert_close(part, torch.stack(one_by_one), rtol=1e-10, atol=1e-10)
    if not dtype.is_complex:
        for forward, reverse in zip(torch.func.jacfwd(factors)(a[0]), torch.func.jacrev(factors)(a[0]), strict=True):
            torch.testing.assert_close(forward, reverse, rtol=1e-9, atol=1e-9)
