import numpy as np
import pytest
import torch

from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.testing import assert_within, gaussian, unit_roundoff
from trntensor import TensorTrain, cp, einsum, tensor_train, tucker
from trntensor.contraction import peak_allocation

F32, F64 = torch.float32, torch.float64


def low_rank(rank=2, shape=(5, 6, 7), dtype=F64):
    factors = [gaussian((n, rank), k, dtype).abs() for k, n in enumerate(shape)]
    return torch.einsum("ar,br,cr->abc", *factors)


def relative(made, x):
    return float(torch.linalg.vector_norm(made.double() - x.double()) / torch.linalg.vector_norm(x.double()))


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("init", ["svd", "random"])
def test_cp_finds_a_tensor_of_low_rank(nonnegative, init):
    x = low_rank()
    made = cp(x, 2, nonnegative=nonnegative, init=init, max_iter=3000, tol=1e-13)
    assert made.convergence.converged
    assert relative(made.reconstruct(), x) < 1e-5
    assert abs(made.convergence.error - relative(made.reconstruct(), x)) < 1e-6
    for factor in made.factors:
        assert_within(torch.linalg.vector_norm(factor, dim=0), torch.ones(2), 1e-12)
    if nonnegative:
        assert all(bool((factor >= 0).all()) for factor in (made.weights, *made.factors))


@together("dtype", [torch.float16, torch.bfloat16, F32, torch.complex128])
def test_any_float_dtype_is_decomposed(dtype):
    x = low_rank().to(dtype)
    size = 0.05 if dtype in (torch.float16, torch.bfloat16) else 1e-3
    for made in (cp(x, 2, max_iter=500), tucker(x, 2), tensor_train(x, rank=2)):
        whole = made.reconstruct()
        assert whole.dtype == dtype
        error = torch.linalg.vector_norm((whole - x).to(torch.complex128)) / torch.linalg.vector_norm(
            x.to(torch.complex128)
        )
        assert float(error) < size


def test_the_best_rank_one_approximation_of_a_matrix_is_its_first_singular_pair():
    x = gaussian((6, 5), 3, F64)
    singular = np.linalg.svd(x.numpy())[1]
    best = np.sqrt((singular[1:] ** 2).sum() / (singular**2).sum())
    for made in (cp(x, 1, max_iter=2000, tol=1e-15), tucker(x, 1), tensor_train(x, rank=1)):
        assert abs(made.convergence.error - best) < 1e-6


def test_hooi_is_no_worse_than_hosvd_and_within_its_bound():
    x = gaussian((6, 7, 8), 1, F64)
    simple, better = tucker(x, (2, 3, 4), method="hosvd"), tucker(x, (2, 3, 4))
    assert better.core.shape == (2, 3, 4)
    assert better.convergence.error <= simple.convergence.error + 1e-12
    assert simple.convergence.error <= 3**0.5 * better.convergence.error
    for made in (simple, better):
        assert abs(made.convergence.error - relative(made.reconstruct(), x)) < 1e-10
        for factor in made.factors:
            assert_within(factor.mT @ factor, torch.eye(factor.shape[1]), 1e-12)


def test_full_ranks_are_exact():
    x = gaussian((3, 4, 5), 1, F64)
    # three factorisations, each with a backward error
    rounding = 3 * 20 * unit_roundoff(F64)
    assert relative(tucker(x, (3, 4, 5)).reconstruct(), x) <= 5 * rounding
    assert relative(tensor_train(x).reconstruct(), x) <= 5 * rounding
    y = gaussian((9, 2, 2), 1, F64)
    assert relative(tucker(y, 9).reconstruct(), y) <= 9 * rounding


@pytest.mark.parametrize("error", [0.5, 0.1, 1e-3])
def test_a_train_keeps_its_error(error):
    x = gaussian((4, 5, 6, 3), 1, F64)
    made = tensor_train(x, error=error)
    assert relative(made.reconstruct(), x) <= error
    assert abs(made.convergence.error - relative(made.reconstruct(), x)) < 1e-10
    rounded = tensor_train(x).round(error=error)
    assert relative(rounded.reconstruct(), x) <= error
    assert rounded.ranks[0] == rounded.ranks[-1] == 1


def test_ranks_limit_a_train():
    x = gaussian((4, 5, 6), 1, F64)
    assert tensor_train(x, rank=2).ranks == (1, 2, 2, 1)
    assert tensor_train(x, rank=(1, 3)).ranks == (1, 1, 3, 1)
    assert tensor_train(x).round(rank=2).ranks == (1, 2, 2, 1)
    assert tensor_train(torch.zeros(2, 3)).ranks == (1, 1, 1)
    assert tensor_train(torch.ones(5)).shape == (5,)


def test_a_decomposed_tensor_is_contracted_without_being_formed():
    x = low_rank(2, (30, 31, 32))
    v = gaussian((31,), 5, F64)
    for made in (cp(x, 2, max_iter=50), tucker(x, 2), tensor_train(x, rank=2)):
        whole = made.reconstruct()
        assert_within(einsum("ijk,j->ik", made, v), np.einsum("ijk,j->ik", whole, v), 1e-9)
        assert_within(einsum("ijk,ijk", made, made), np.einsum("ijk,ijk", whole, whole), 1e-6)
        used = peak_allocation(lambda made=made: einsum("ijk,j->", made, v))
        assert used < whole.nbytes / 10
    with pytest.raises(ArgumentError, match="number of axes"):
        einsum("ij->", cp(x, 1, max_iter=1))
    with pytest.raises(ArgumentError, match="ellipsis"):
        einsum("...->...", cp(x, 1, max_iter=1))


def test_progress_is_reported_and_can_stop():
    x = gaussian((4, 5, 6), 1, F64)
    for decompose in (
        lambda **o: cp(x, 2, tol=0.0, max_iter=5, **o),
        lambda **o: tucker(x, 2, tol=-1.0, max_iter=5, **o),
    ):
        seen = []
        made = decompose(callback=lambda sweep, error, seen=seen: seen.append((sweep, error)))
        assert [sweep for sweep, _ in seen] == list(range(5))
        assert not made.convergence.converged
        assert made.convergence.iterations == 5
        assert decompose(callback=lambda sweep, error: sweep < 1).convergence.iterations == 2


def test_mistakes_are_named():
    x = torch.ones(2, 3)
    for work, argument in (
        (lambda: cp(x, 0), "rank"),
        (lambda: cp(x, 1, init="zeros"), "init"),
        (lambda: cp(x, 1, init=[torch.ones(2, 1)]), "init"),
        (lambda: cp(-x, 1, nonnegative=True), "x"),
        (lambda: cp(torch.ones(3), 1), "shape of x"),
        (lambda: tucker(x, (1, 2, 3)), "number of axes"),
        (lambda: tucker(x, 1, method="als"), "method"),
        (lambda: tensor_train(x, rank=(1, 2)), "number of bonds"),
        (lambda: tensor_train(x, error=-1), "error"),
        (lambda: tensor_train(torch.ones(0, 2)), "shape of x"),
        (lambda: tensor_train(x, rank=2.5), "rank"),
        (lambda: cp(x, 1, seed="no"), "seed"),
        (lambda: cp(x, 1, nonnegative="no"), "nonnegative"),
        (lambda: cp(x, 1, tol=1j), "tol"),
        (lambda: tucker(x, 1, callback=3), "callback"),
        (lambda: einsum("ij->ij", cp(x, 1), x), "number of operands"),
    ):
        with pytest.raises(ArgumentError) as caught:
            work()
        assert caught.value.argument == argument
    for work in (
        lambda: cp(torch.ones(2, 2, dtype=torch.int64), 1),
        lambda: cp(x, 1, init=torch.tensor(1.0)),
        lambda: cp(x, 1, init=[1, 2]),
    ):
        with pytest.raises(DtypeError):
            work()


@pytest.mark.parametrize("decompose", [lambda x: cp(x, 2), lambda x: tucker(x, 2), lambda x: tensor_train(x, 2)])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_outside_the_range_spoil_nothing(decompose, scale):
    x = gaussian((4, 5, 6), dtype=torch.complex128)
    made, plain = decompose(x * scale), decompose(x)
    assert made.convergence.error == pytest.approx(plain.convergence.error, rel=1e-6)
    error = torch.linalg.vector_norm(made.reconstruct() / scale - x) / torch.linalg.vector_norm(x)
    assert float(error) == pytest.approx(made.convergence.error, rel=1e-9)
    if isinstance(made, TensorTrain):
        assert made.round(rank=2).convergence.error < 1e-12


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_entries_that_are_not_finite_are_refused(bad):
    x = torch.ones(2, 3, 4)
    x[1, 2, 3] = bad
    for call in (lambda: cp(x, 1), lambda: tucker(x, 1), lambda: tensor_train(x)):
        with pytest.raises(ArgumentError, match="finite entries"):
            call()
