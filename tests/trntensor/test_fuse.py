import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trntensor import einsum, fuse
from trntensor.contraction import peak_allocation

F32, F64 = torch.float32, torch.float64
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

# Every reduction a kernel knows, and some that torch finishes.
REDUCTIONS = ["bij->bij", "bij->bi", "bij->bj", "bij->b", "bij->", "bij->i", "bij->jb", "bij->ji"]


def close(got, expected, terms, dtype=F32):
    scale = np.abs(expected).max() if expected.size else 0.0
    u = 2.0**-24 if dtype == F32 else 2.0**-53
    assert_within(got, expected, 4 * terms * u * scale)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_contract_apply_reduce_agrees_with_numpy(backend, reduce):
    a, b = gaussian((2, 130, 40), 1), gaussian((2, 40, 520), 2)
    row, column, batch = gaussian((130,), 3).abs() + 1, gaussian((520,), 4).abs() + 1, gaussian((2,), 5)
    program = fuse(
        "bik,bkj->bij",
        epilogue=lambda t, x, y, z: t * t / (x + y) - torch.exp(-torch.abs(t)) * z + 2.0 / (1 + t**2),
        extras=("i", "j", "b"),
        reduce=reduce,
    )
    t = np.einsum("bik,bkj->bij", a.double(), b.double())
    x, y, z = row.double().numpy()[:, None], column.double().numpy(), batch.double().numpy()[:, None, None]
    expected = np.einsum(reduce, t * t / (x + y) - np.exp(-abs(t)) * z + 2.0 / (1 + t**2))
    with backend:
        got = program(a, b, row, column, batch)
    close(got, expected, 40 + 700)


FUNCTIONS = [
    (lambda t: t - 1, lambda t: t - 1),
    (lambda t: 1 - t, lambda t: 1 - t),
    (lambda t: -t / 3, lambda t: -t / 3),
    (torch.square, np.square),
    (torch.relu, lambda t: np.maximum(t, 0)),
    (torch.tanh, np.tanh),
    (torch.sigmoid, lambda t: 1 / (1 + np.exp(-t))),
    (lambda t: torch.sqrt(torch.abs(t)), lambda t: np.sqrt(abs(t))),
    (lambda t: torch.rsqrt(t * t + 1), lambda t: 1 / np.sqrt(t * t + 1)),
    (lambda t: torch.log(t * t + 1), lambda t: np.log(t * t + 1)),
    (lambda t: torch.reciprocal(t * t + 1), lambda t: 1 / (t * t + 1)),
    (lambda t: torch.maximum(t, 0.5 * t), lambda t: np.maximum(t, 0.5 * t)),
    (lambda t: torch.minimum(t, 2 * t), lambda t: np.minimum(t, 2 * t)),
    (lambda t: t, lambda t: t),
]


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_each_function_is_the_same_everywhere(backend, number):
    ours, theirs = FUNCTIONS[number]
    a, b = gaussian((5, 6), 1), gaussian((7, 6), 2)
    with backend:
        got = fuse("ik,jk->ij", epilogue=ours)(a, b)
    close(got, theirs(np.einsum("ik,jk->ij", a.double(), b.double())), 300)


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(
    ("equation", "extra"), [("iap,jbp->ijab", "ib"), ("kp,pm->mk", "m"), ("abk,kcd->cadb", "dacb")]
)
def test_groups_of_labels_and_partial_extras(backend, equation, extra):
    sizes = dict(zip("iajbpkmcd", (3, 4, 5, 2, 6, 7, 3, 2, 4), strict=True))
    terms = equation.split("->")[0].split(",")
    a, b = (gaussian([sizes[x] for x in term], n) for n, term in enumerate(terms))
    weight = gaussian([sizes[x] for x in extra], 5)
    result = equation.split("->")[1]
    expected = np.einsum(f"{equation.split('->')[0]},{extra}->{result}", a.double(), b.double(), weight.double())
    with backend:
        got = fuse(equation, epilogue=lambda t, w: t * w, extras=(extra,))(a, b, weight)
    close(got, expected, 20)


@on_backends
def test_two_contractions_are_one_transformation(backend):
    a, b, c = gaussian((5, 4), 1), gaussian((4, 6), 2), gaussian((6, 7), 3)
    e, left, right = gaussian((4, 5, 6), 4), gaussian((4, 2), 5), gaussian((5, 3), 6)
    with backend:
        matrices = fuse("ij,jk->ik", "ik,kl->li")(a, b, c)
        integrals = fuse("mnp,mi->inp", "inp,na->iap")(e, left, right)
        renamed = fuse("mi,mnp->inp", "xyz,yw->zxw")(left, e, right)
    close(matrices, np.einsum("ij,jk,kl->li", a.double(), b.double(), c.double()), 40)
    expected = np.einsum("mnp,mi,na->iap", e.double(), left.double(), right.double())
    close(integrals, expected, 40)
    close(renamed, expected.transpose(2, 0, 1), 40)


def test_other_chains_run_in_pieces_on_pytorch_and_say_so():
    a, b, c, d = gaussian((6, 4), 1), gaussian((6, 5), 2), gaussian((5, 7), 3), gaussian((7, 3), 4)
    program = fuse("ij,ik->ijk", "ijk,kl->ijl", "ijl,lm->mij")
    close(program(a, b, c, d), np.einsum("ij,ik,kl,lm->mij", *(x.double() for x in (a, b, c, d))), 60)
    assert "this chain is another" in program.explain(a, b, c, d)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="two contractions"):
        program(a, b, c, d)


def test_the_intermediate_never_exists_whole():
    a, b = torch.ones(3000, 4), torch.ones(4, 3000)
    program = fuse("ik,kj->ij", epilogue=lambda t: t * t, reduce="ij->")
    assert peak_allocation(lambda: program(a, b)) < 3000 * 3000 * 4
    assert float(program(a, b)) == 16 * 9e6


def test_a_capacity_that_is_exceeded_is_explained():
    program = fuse("ik,kj->ij", epilogue=lambda t: t * t, reduce="ij->")
    a, b = torch.ones(2, 80_000), torch.ones(80_000, 2)
    assert "bytes of SBUF" in program.explain(a, b)
    with trnsci.backend("simulator"), pytest.raises(UnsupportedError, match="K=80000"):
        program(a, b)


def test_gradients_are_right():
    a, b = gaussian((2, 3, 4), 1, F64).requires_grad_(), gaussian((2, 4, 5), 2, F64).requires_grad_()
    x = (gaussian((3,), 3, F64).abs() + 1).requires_grad_()
    for reduce in ("bij->bij", "bij->j", "bij->"):
        program = fuse("bik,bkj->bij", epilogue=lambda t, x: t * t / x, extras=("i",), reduce=reduce)
        assert torch.autograd.gradcheck(program, (a, b, x))


@pytest.mark.sim
def test_gradients_flow_through_the_kernel():
    a, b, x = gaussian((3, 4), 1), gaussian((4, 5), 2), gaussian((3,), 3).abs() + 1
    program = fuse("ik,kj->ij", epilogue=lambda t, x: t * t / x, extras=("i",), reduce="ij->j")
    narrow = [t.clone().requires_grad_() for t in (a, b, x)]
    wide = [t.double().requires_grad_() for t in (a, b, x)]
    with trnsci.backend("simulator"):
        program(*narrow).sum().backward()
    program(*wide).sum().backward()
    # A polynomial over x: at absolute values nothing cancels. Two products, of 4 and of 5 terms, a square, a quotient.
    sizes = [t.abs().double().requires_grad_() for t in (a, b, x)]
    program(*sizes).sum().backward()
    for t, w, size in zip(narrow, wide, sizes, strict=True):
        assert_within(t.grad, w.grad, gamma(24, torch.float32) * size.grad.abs())


def test_the_operator_is_sound_and_compiles():
    a, b, x = gaussian((1, 3, 4), 1, F64), gaussian((1, 4, 5), 2, F64), gaussian((1, 3, 1), 3, F64)
    code = '[["argument", 0, 0, ""], ["argument", 1, 0, ""], ["multiply", 0, 1, ""]]'
    torch.library.opcheck(torch.ops.trntensor.fuse.default, (a, b, [x], code, "bm"))
    program = fuse("ik,kj->ij", epilogue=lambda t: t * 2)
    fast = torch.compile(lambda a, b: program(a, b) + 1, backend="aot_eager")
    assert_within(fast(a[0], b[0]), program(a[0], b[0]) + 1, 2 * gamma(8, F64) * (2 * a[0].abs() @ b[0].abs() + 1))


def test_empty_operands_and_numpy():
    program = fuse("ik,kj->ij", epilogue=lambda t: t + 1, reduce="ij->i")
    assert program(torch.ones(2, 0), torch.ones(0, 3)).tolist() == [3.0, 3.0]
    got = program(np.ones((2, 2)), np.ones((2, 3)))
    assert isinstance(got, np.ndarray)
    assert got.tolist() == [9.0, 9.0]


def test_without_an_epilogue_it_is_a_reduced_product():
    a, b = gaussian((3, 4), 1, F64), gaussian((4, 5), 2, F64)
    size = einsum("ik,kj->j", a.abs(), b.abs())
    assert_within(fuse("ik,kj->ij", reduce="ij->j")(a, b), einsum("ik,kj->j", a, b), 2 * gamma(10, F64) * size)


ERRORS = [
    (lambda: fuse(), "equations", "at least one"),
    (lambda: fuse("ij,jk"), "equation", "explicit output"),
    (lambda: fuse("ij,jk,kl->il"), "equation", "two operands"),
    (lambda: fuse("ij,jk->ik", "ikl,lm->ikm"), "number of axes", "=2"),
    (lambda: fuse("ij,jk->ik", extras=("i",)), "extras", "without an epilogue"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t, x: t * x, extras=("j",)), "extras", "'ik'"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t: t, reduce="ij->i"), "reduce", "'ik->'"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t: torch.sin(t)), "epilogue", "rsqrt"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t: t**3), "epilogue", "power 3"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t, x: t), "epilogue", "1 values"),
    (lambda: fuse("ij,jk->ik", epilogue=lambda t: 3.0), "epilogue", "float"),
    (lambda: fuse("ij,jk->ik", "ik,kl->il", reduce="il->"), "epilogue", "chain"),
    (lambda: fuse("ij,jk->ik")(torch.ones(2, 3)), "number of operands", "program has"),
    (lambda: fuse("ij,jk->i")(torch.ones(2, 3), torch.ones(3, 4)), "label", "contracted or kept"),
]  # fmt: skip


@together(("work", "argument", "text"), ERRORS)
def test_mistakes_are_named(work, argument, text):
    with pytest.raises(ArgumentError) as caught:
        work()
    assert caught.value.argument == argument
    assert text in str(caught.value)


def test_dtypes_are_checked():
    with pytest.raises(DtypeError):
        fuse("ij,jk->ik")(torch.ones(2, 3), torch.ones(3, 4, dtype=F64))
