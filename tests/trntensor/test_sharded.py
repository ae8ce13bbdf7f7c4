"""einsum on spread arrays against numpy.einsum in float64: every equation family, placement and number of ranks."""

import itertools

import numpy as np
import pytest
import torch

import trnsci
import trntensor
from trnsci import distributed
from trnsci.distributed import Layout
from trnsci.testing import assert_within, gamma

EQUATIONS = (
    ("ij,jk->ik", (5, 6), (6, 4)),
    ("ij,jk->ki", (5, 6), (6, 4)),
    ("bij,bjk->bik", (3, 4, 5), (3, 5, 2)),
    ("bij,bjk->kbi", (3, 4, 5), (3, 5, 2)),
    ("ij,ij->", (5, 6), (5, 6)),
    ("i,j->ij", (5,), (4,)),
    ("ijk->ki", (3, 4, 5)),
    ("ijk->j", (3, 4, 5)),
    ("ii,ij->j", (4, 4), (4, 3)),
    ("iap,jbp->ijab", (3, 4, 6), (2, 5, 6)),
    ("...ij,...jk", (2, 3, 4), (4, 5)),
    ("ij,kj->ik", (4, 1), (3, 6)),
    ("ij,jk,kl,lm->im", (4, 5), (5, 6), (6, 3), (3, 4)),
    ("pqrs,pi,qj->ijrs", (3, 4, 3, 2), (3, 2), (4, 3)),
)


def _data(shape, seed, dtype=torch.float64):
    real = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, *shape)))
    return torch.complex(*real).to(dtype) if dtype.is_complex else real[0].to(dtype)


def _einsum(mesh_shape, equation, shapes, places, options):
    mesh = distributed.mesh(*mesh_shape)
    spread = [distributed.shard(_data(s, i), mesh, *p) for i, (s, p) in enumerate(zip(shapes, places, strict=True))]
    return distributed.gather(trntensor.einsum(equation, *spread, **options)).numpy(force=True)


def _exact(equation, shapes):
    arrays = [_data(shape, i).numpy(force=True) for i, shape in enumerate(shapes)]
    exact = np.einsum(equation, *arrays)
    # the bound of the op: one rounding per term and per step, with room for the sums between ranks
    terms = sum(array.size for array in arrays)
    return exact, terms * 2**-53 * np.einsum(equation, *map(abs, arrays))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_equations(ranks, size):
    cases = []
    for (equation, *shapes), shift in itertools.product(EQUATIONS, (0, 1, None)):
        places = [(None if shift is None else (i + shift) % len(s),) for i, s in enumerate(shapes)]
        cases.append(((size,), equation, shapes, places, {}))
    for (_, equation, shapes, places, _), results in zip(cases, ranks(size).each(_einsum, cases), strict=True):
        exact, bound = _exact(equation, shapes)
        for got in results:
            assert got.shape == exact.shape
            assert np.all(abs(got - exact) <= bound), (equation, places)


def test_on_a_grid(ranks):
    cases = [
        ((2, 2), equation, shapes, [(0, 1 if len(s) > 1 else None) for s in shapes], {"alpha": 2.0})
        for equation, *shapes in EQUATIONS[:10]
    ]
    for (_, equation, shapes, *_), results in zip(cases, ranks(4).each(_einsum, cases), strict=True):
        exact, bound = _exact(equation, shapes)
        for got in results:
            assert np.all(abs(got - 2 * exact) <= 2 * bound), equation


def _added(place):
    mesh = distributed.mesh()
    a, b, c = _data((5, 6), 0), _data((6, 4), 1), _data((5, 4), 2)
    spread = [distributed.shard(x, mesh, place) for x in (a, b, c)]
    out = distributed.shard(torch.zeros(5, 4, dtype=torch.float64), mesh, 1)
    trntensor.einsum("ij,jk->ik", spread[0], spread[1], alpha=2.0, beta=0.5, c=spread[2], out=out)
    return distributed.gather(out).numpy(force=True)


def test_alpha_beta_c_and_out(ranks):
    a, b, c = _data((5, 6), 0), _data((6, 4), 1), _data((5, 4), 2)
    for got in ranks(3).run(_added, 0):
        limit = gamma(6 + 4, torch.float64) * (2 * a.abs() @ b.abs() + 0.5 * c.abs())
        assert_within(got, 2 * a @ b + 0.5 * c, limit)


def _gradients(equation, shapes, places, dtype):
    mesh = distributed.mesh()
    spread = [
        distributed.shard(_data(s, i, dtype), mesh, p).requires_grad_()
        for i, (s, p) in enumerate(zip(shapes, places, strict=True))
    ]
    made = trntensor.einsum(equation, *spread, alpha=1.5)
    weight = distributed.shard(_data(tuple(made.shape), 9, dtype), mesh, None).redistribute(mesh, made.placements)
    made.backward(weight)
    return [distributed.gather(x.grad).resolve_conj().numpy(force=True) for x in spread]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients(ranks, dtype):
    for equation, shapes in (("ij,jk->ki", ((5, 6), (6, 4))), ("iap,jbp,j->iab", ((3, 4, 6), (2, 5, 6), (2,)))):
        tensors = [_data(s, i, dtype).requires_grad_() for i, s in enumerate(shapes)]
        made = 1.5 * torch.einsum(equation, *tensors)
        weights = _data(tuple(made.shape), 9, dtype)
        made.backward(weights)
        # the same of absolute values is what a gradient's terms add up to
        sizes = [x.detach().abs().requires_grad_() for x in tensors]
        (1.5 * torch.einsum(equation, *sizes)).backward(weights.abs())
        terms = 4 * max(made.numel(), *(x.numel() for x in tensors))
        for places in itertools.islice(itertools.product((0, None), repeat=len(shapes)), 3):
            for found in ranks(2).run(_gradients, equation, shapes, places, dtype):
                for grad, x, size in zip(found, tensors, sizes, strict=True):
                    assert_within(grad, x.grad.resolve_conj(), gamma(terms, torch.float64) * size.grad)


def _diagonal_gradient():
    mesh = distributed.mesh()
    a = distributed.shard(_data((4, 4), 0), mesh, 0).requires_grad_()
    trntensor.einsum("ii,ij->j", a, a).sum().backward()


def test_a_gradient_that_is_missing_says_so(ranks):
    with pytest.raises(Exception, match="diagonals") as caught:
        ranks(2).run(_diagonal_gradient)
    assert isinstance(caught.value.errors[0], trnsci.UnsupportedError)


def test_plans_choose_by_what_moves():
    def volume(equation, *operands):
        return distributed.plan(trntensor.einsum, equation, *operands).volume

    def layout(shape, place):
        return Layout(shape, torch.float32, (4,), (place,))

    tall, small = (100_000, 64), (64, 64)
    # rows of a tall matrix stay where they are
    assert volume("ij,jk->ik", layout(tall, 0), layout(small, None)) == 0
    # a sum over the long label moves only the small result
    assert volume("ij,ik->jk", layout(tall, 0), layout(tall, 0)) == 3 * 16 * 64 * 4
    # both are cut already along the batch
    assert volume("bij,bjk->bik", layout((8, 64, 64), 0), layout((8, 64, 64), 0)) == 0


PROGRAMS = {
    "sums": (
        (("ik,jk->ij",), {"epilogue": lambda t, d: t * t / d, "extras": ("j",), "reduce": "ij->i"}),
        ((7, 5), (6, 5), (6,)),
        lambda a, b, d: ((a @ b.T) ** 2 / d).sum(1),
    ),
    "no sum": ((("ik,jk->ij",), {"epilogue": lambda t: t * t}), ((7, 5), (2, 5)), lambda a, b: (a @ b.T) ** 2),
    "a number": (
        (("ik,jk->ij",), {"epilogue": lambda t: t * t, "reduce": "ij->"}),
        ((7, 5), (2, 5)),
        lambda a, b: ((a @ b.T) ** 2).sum(),
    ),
    "a chain": ((("ik,kj->ij", "ab,bc->ac"), {}), ((7, 5), (5, 3), (3, 4)), lambda a, b, c: a @ b @ c),
}


def _program(name, places):
    mesh, ((equations, options), shapes, _) = distributed.mesh(), PROGRAMS[name]
    program = trntensor.fuse(*equations, **options)
    operands = [_data(shape, seed).abs() + 0.5 for seed, shape in enumerate(shapes)]
    made = program(*(distributed.shard(x, mesh, place) for x, place in zip(operands, places, strict=False)))
    return distributed.gather(made).numpy(force=True)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("places", [(0, 0, 0), (1, 1, 0), (None, 0, None)], ids=str)
def test_programs_of_fuse_on_sharded_operands(ranks, name, places):
    _, shapes, exact = PROGRAMS[name]
    expected = exact(*(_data(shape, seed).abs().numpy(force=True) + 0.5 for seed, shape in enumerate(shapes)))
    for made in ranks(3).run(_program, name, places):
        # every term is positive, and none has more than 100 operations
        assert made.shape == np.shape(expected)
        assert np.all(abs(made - expected) <= 100 * 2**-53 * expected)
