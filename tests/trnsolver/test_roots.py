"""Square roots and logarithms, Hermitian and not, against their definitions and mpmath."""

import mpmath
import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import Singular
from trnsci.testing import gaussian, pairs
from trnsolver import eig, eigvals, expm, hessenberg, ldl, logm, schur, sign, sqrtm
from trnsolver.arguments import roundoff

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def drawn(n, dtype, kind):
    real = gaussian((n, n), 1, dtype=torch.float64)
    a = torch.complex(real, gaussian((n, n), 2, dtype=torch.float64)) if dtype.is_complex else real
    if kind == "definite":
        a = a @ a.mH / n + torch.eye(n)
        a = (a + a.mH) / 2
    if kind == "shifted":
        a = a + 2 * n**0.5 * torch.eye(n)
    if kind == "triangular":
        a = a.triu(1) / n + torch.diag(torch.arange(1.0, n + 1, dtype=torch.float64))
    return a.to(dtype)


@together(("dtype", "kind", "n"), pairs(DTYPES, ["definite", "shifted", "triangular", "any"], [1, 2, 3, 20, 65]))
def test_the_square_of_the_root(norm, dtype, kind, n):
    a = drawn(n, dtype, kind)
    root = sqrtm(a)
    wide = root.to(torch.complex128)
    assert norm(wide @ wide - a.to(torch.complex128)) <= 20 * n * roundoff(dtype) * norm(root) ** 2
    assert roundoff(root.dtype) == roundoff(dtype)
    if kind != "any":
        assert root.dtype == dtype
        assert float(eigvals(root).real.min()) > 0


@together(("dtype", "kind", "n"), pairs(DTYPES, ["definite", "shifted", "triangular"], [1, 2, 4]))
def test_the_logarithm_is_mpmaths(norm, dtype, kind, n):
    a = drawn(n, dtype, kind)
    wide = a.to(torch.complex128)
    with mpmath.workdps(40):
        found = mpmath.logm(mpmath.matrix(wide.tolist()))
        exact = torch.tensor([[complex(found[i, j]) for j in range(n)] for i in range(n)], dtype=torch.complex128)
    condition = float(torch.linalg.cond(torch.linalg.eig(wide)[1])) * float(torch.linalg.cond(wide))
    made = logm(a)
    assert made.dtype == dtype
    assert norm(made.to(torch.complex128) - exact) <= 20 * n * roundoff(dtype) * condition * max(1.0, norm(exact))


def test_negative_eigenvalues_give_complex_results(norm):
    a = torch.tensor([[-4.0, 1.0], [0.0, 9.0]], dtype=torch.float64)
    root = sqrtm(a)
    assert root.is_complex()
    assert norm(root @ root - a.to(root.dtype)) <= 20 * 2 * roundoff(a.dtype) * norm(root) ** 2
    mirrored = torch.diag(torch.tensor([-4.0, 9.0]))
    assert torch.equal(sqrtm(mirrored), torch.diag(torch.tensor([2j, 3 + 0j])).to(torch.complex64))
    assert logm(mirrored)[0, 0].imag == pytest.approx(np.pi)


def test_rounding_does_not_make_a_semidefinite_root_complex(norm):
    x = gaussian((6, 2), 1, dtype=torch.float64)
    a = x @ x.mT
    a = (a + a.mT) / 2
    root = sqrtm(a)
    assert root.dtype == torch.float64
    assert norm(root @ root - a) <= 20 * 6 * roundoff(a.dtype) * norm(a)


@pytest.mark.parametrize(
    "a", [[[0.0, 1.0], [0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]]], ids=["block", "part"]
)
def test_a_matrix_without_a_root_or_a_logarithm_is_named(a):
    with pytest.raises(Singular, match="has no square root"):
        sqrtm(torch.tensor(a))
    with pytest.raises(Singular, match="eigenvalue 0 is zero"):
        logm(torch.tensor(a))


def test_a_singular_matrix_may_have_a_root(norm):
    a = torch.tensor([[1.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    assert norm(sqrtm(a) @ sqrtm(a) - a) <= 20 * 2 * roundoff(a.dtype) * norm(sqrtm(a)) ** 2


def test_batches_mix_kinds(norm):
    a = torch.stack([drawn(5, torch.float64, kind) for kind in ("definite", "shifted", "triangular")])
    for fn in (sqrtm, logm):
        assert norm(fn(a) - torch.stack([fn(one) for one in a])) <= 1e-13


def test_a_large_matrix_leaves_the_imaginary_parts_of_others_alone(norm):
    a = torch.stack([torch.eye(3).double() * 1e30, torch.tensor([[-4.0, 1, 0], [0, 9, 2], [0, 0, 1]]).double()])
    root = sqrtm(a)[1]
    assert norm(root @ root - a[1].to(root.dtype)) <= 20 * 3 * roundoff(a.dtype) * norm(root) ** 2
    assert torch.equal(root, sqrtm(a[1]))


@pytest.mark.parametrize("fn", [sqrtm, logm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["definite", "shifted"])
def test_gradients(fn, kind):
    assert torch.autograd.gradcheck(fn, (drawn(4, torch.float64, kind).requires_grad_(),))


COSTS = {eig: 25, eigvals: 10, schur: 25, hessenberg: 14 / 3, sqrtm: 30, logm: 50, ldl: 1 / 3}


@pytest.mark.parametrize("fn", COSTS, ids=lambda f: f.__name__)
def test_plans_of_what_the_host_does_cost_it_and_say_why(fn):
    a = torch.ones(30, 30)
    plan = trnsci.plan(fn, a)
    assert plan.backend == "pytorch"
    assert plan.reason.startswith("on the host whatever the backend: ")
    assert plan.steps[0].cost.flops == round(COSTS[fn] * 27000)
    assert trnsci.plan(fn, a.to(torch.complex64)).steps[0].cost.flops == pytest.approx(4 * COSTS[fn] * 27000, abs=1)
    assert not trnsci.explain(fn, a)["simulator"].takes


def test_the_plan_of_expm_names_scipy_or_counts_the_programs_and_what_they_depend_on():
    a = torch.ones(30, 30)
    assert trnsci.plan(expm, a).steps[0].calls == "scipy.linalg.expm"
    assert trnsci.plan(expm, torch.ones(2, 30, 30)).steps[0].implementation == "pytorch"
    for dtype, cubes, launches in ((torch.float32, 32 / 3, 11), (torch.float64, 44 / 3, None)):
        with trnsci.backend("simulator"):
            plan = trnsci.plan(expm, a.to(dtype))
        assert plan.steps[0].cost.flops == round(cubes * 27000)
        assert "doubling of norm(a)" in str(plan)
        assert launches is None or f"{launches} launches" in str(plan)


def test_the_plan_of_sign_says_how_many_iterations_it_counts():
    plan = trnsci.plan(sign, torch.ones(30, 30))
    assert len(plan.steps) == 16
    assert "8 iterations" in plan.reason


@pytest.mark.parametrize("fn", [sqrtm, logm])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_batches_and_tangents_of_torch_func(fn, dtype):
    a = 0.3 * gaussian((3, 5, 5), 1, dtype) + 2 * torch.eye(5, dtype=dtype)
    directions = gaussian((3, 5, 5), 2, dtype)
    batched = torch.func.vmap(fn)(a)
    assert batched.dtype == fn(a).dtype
    torch.testing.assert_close(batched, torch.stack([fn(one) for one in a]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.func.vmap(fn, 1, 1)(a.movedim(0, 1)), batched.movedim(0, 1), rtol=1e-12, atol=1e-12
    )
    assert torch.autograd.gradcheck(fn, (a[0].clone().requires_grad_(),), check_forward_ad=True)
    one_by_one = torch.stack([torch.func.jvp(fn, (x,), (e,))[1] for x, e in zip(a, directions, strict=True)])
    both = torch.func.vmap(lambda x, e: torch.func.jvp(fn, (x,), (e,))[1])(a, directions)
    torch.testing.assert_close(both, one_by_one, rtol=1e-10, atol=1e-10)
    if not dtype.is_complex:
        torch.testing.assert_close(torch.func.jacfwd(fn)(a[0]), torch.func.jacrev(fn)(a[0]), rtol=1e-9, atol=1e-9)


def test_roots_of_a_batch_are_complex_where_one_of_them_is():
    a = torch.diag_embed(torch.tensor([[1.0, 4.0], [-1.0, 4.0]], dtype=torch.float64))
    expected = torch.diag_embed(torch.tensor([[1.0, 2.0], [1j, 2.0]], dtype=torch.complex128))
    torch.testing.assert_close(torch.func.vmap(sqrtm)(a), expected)
