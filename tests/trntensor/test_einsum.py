import itertools
import string

import cotengra
import numpy as np
import opt_einsum
import pytest
import torch
from hypothesis import given, settings, strategies as st

import trnsci
import trntensor
from tests.together import together
from trnblas import Achieved
from trnsci import ArgumentError, CapacityError, DtypeError
from trnsci.testing import BACKENDS, assert_within, gamma, gaussian
from trntensor import einsum, plan

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128
on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

FAMILIES = {
    "hadamard": ["a,ab,abc->abc", "a,b,ab->ab", "ij,ij->ij", "ij,ji->ij", "ij,i->ij"],
    "outer": ["ab,cd->abcd", "i,j->ji", "ab,cd,ef->abcdef", "i,j,k->kij"],
    "products": ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ij,jk", "ab,bc,cd->da", "ijk,ljm->iklm", "abc,bd->acd"],
    "collapse": ["ab,cd,ef->abdf", "ab,cd,ef->ac", "ijk->j", "ij->", "ij,kl->", "ab,ab,c->", "ijk,ilm->i"],
    "inner": ["ab,ab", "ab,ba", "abc,abc", "abc,bac->", "i,i->", "ij,ij->i", "bi,bi->b"],
    "diagonals": ["ii", "ii->i", "iij->j", "iji->ij", "iii->i", "aab,bcc->ac", "aab,fa,df,ecc->bde", "ijij->ij"],
    "views": ["ij->ji", "abc->cab", "i->i", "abcd->dcba", "ij->ij"],
    "ellipsis": ["...ij,...jk->...ik", "...ij,jk", "i...->...", "...,...", "i...i->...", "...a,a...->..."],
    "spaces": [" ij , jk -> ik ", "i j,j k"],
    "scalars": [",ij->ij", ",->", ",,i->i"],
    "many": ["ea,fb,abcd,gc,hd->efgh", "pqrs,pi,qj,rk,sl->ijkl", "a,ac,ab,ad,cd,bd,bc->", "acdf,jbje,gihb,hfac->gdei"],
    # Each of these came back wrong, or not at all, from some library: a transposed product, a batch not in front.
    "failed elsewhere": [
        *(f"bij,bjk->{''.join(order)}" for order in itertools.permutations("bik")),
        "ij,jk->ki", "ii,ij->j", "ij,jj->i", "ijk,jl->lik", "ijk,kj->i", "bi,bj->ijb", "ij,ik->kji", "abi,bja->ij",
        "ijb,jkb->bki", "eb,cb,fb->cef", "dd,fb,be,cdb->cef", "bca,cdb,dbf,afc->", "fdf,cdd,ccd,afe->ae",
        "abcd,ad", "ed,ff,cd,ef->", "ba,aca,ccc->b", "a,a,a->a", "ij,j,j->i", "ijj,k->ik",
    ],
}  # fmt: skip
CASES = [(family, equation) for family, equations in FAMILIES.items() for equation in equations]
SIZES = dict(zip(string.ascii_lowercase, itertools.cycle((2, 3, 4, 5)), strict=False))


def operands_for(equation, dtype=F64, seed=1):
    terms = equation.replace(" ", "").split("->")[0].split(",")
    shapes = []
    for term in terms:
        letters = term.replace("...", "")
        shape = [SIZES[label] for label in letters]
        if "..." in term:
            at = term.index("...")
            shape[at:at] = [3, 2]
        shapes.append(tuple(shape))
    return [gaussian(shape, seed + place, dtype) for place, shape in enumerate(shapes)]


def oracle(equation, *operands):
    wide = [x.to(C128 if x.is_complex() else F64).resolve_conj().numpy() for x in operands]
    # einsum of torch's letters: without a path, so that NumPy's own loops are the definition
    return torch.from_numpy(np.asarray(np.einsum(equation, *wide, optimize=len(operands) > 3)))


def bound(equation, operands, **options):
    size = oracle(equation, *(x.abs() for x in operands))
    scheme = plan(equation, *operands, **options)
    return scheme.error_bound * size + torch.finfo(operands[0].dtype).smallest_normal


@together(("family", "equation"), CASES)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_every_family_agrees_with_numpy(family, equation, dtype):
    operands = operands_for(equation, dtype)
    assert_within(einsum(equation, *operands), oracle(equation, *operands), bound(equation, operands))


@pytest.mark.sim
@pytest.mark.parametrize(("family", "equation"), CASES[::3])
def test_families_agree_on_the_simulator(family, equation):
    operands = operands_for(equation, F32)
    with trnsci.backend("simulator"):
        got = einsum(equation, *operands)
    assert_within(got, oracle(equation, *operands), bound(equation, operands))


@together("equation", ["ij,jk->ki", "iij->j", "ij,ij->", "ij->ji", "...i,...i->..."])
@together("dtype", [torch.float16, torch.bfloat16, F32, C64])
def test_short_dtypes_stay_within_the_bound(equation, dtype):
    operands = operands_for(equation, dtype)
    got = einsum(equation, *operands)
    assert got.dtype == dtype
    assert_within(got, oracle(equation, *operands), bound(equation, operands))


INTEGERS = [torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool]


@together("dtype", INTEGERS)
@together("equation", ["ij,jk->ki", "ij->", "ii->i", "i,j->ij", "ij,ij->j"])
def test_integers_and_truth_values_are_numpys(equation, dtype):
    operands = [(x * 3).long().to(dtype) for x in operands_for(equation)]
    expected = np.einsum(equation, *(x.numpy() for x in operands))
    for _ in range(2):  # the second call finds its program
        got = einsum(equation, *operands)
        assert got.numpy().dtype == expected.dtype
        assert np.array_equal(got.numpy(), expected)


def test_integers_without_a_common_dtype_are_refused():
    with pytest.raises(DtypeError, match="operand 1 is int32, expected uint16") as caught:
        einsum("i,i", torch.ones(2, dtype=torch.uint16), torch.ones(2, dtype=torch.int32))
    assert caught.value.got is torch.int32


def test_mixed_dtypes_are_promoted():
    a, b = gaussian((2, 3), 1, F32), gaussian((3, 2), 2, C128)
    assert einsum("ij,jk->ik", a, b).dtype == C128
    assert einsum("ij,jk->ik", a, torch.ones(3, 2, dtype=torch.int64)).dtype == F32


@st.composite
def equations(draw):
    sizes = {label: draw(st.integers(1, 3)) for label in "abcde"}
    terms = [draw(st.text("abcde", max_size=3)) for _ in range(draw(st.integers(1, 4)))]
    used = sorted(set("".join(terms)))
    output = draw(st.permutations(used).flatmap(lambda x: st.integers(0, len(x)).map(lambda n: "".join(x[:n]))))
    shapes = []
    for term in terms:
        shapes.append(tuple(1 if draw(st.integers(0, 5)) == 0 else sizes[label] for label in term))
    explicit = draw(st.booleans())
    return ",".join(terms) + (f"->{output}" if explicit else ""), shapes


@settings(max_examples=150)
@given(equations())
def test_random_equations_agree_with_numpy(case):
    equation, shapes = case
    operands = [gaussian(shape, place, F64) for place, shape in enumerate(shapes)]
    try:
        expected = np.einsum(equation, *(x.numpy() for x in operands))
    except ValueError:
        # A diagonal of axes of different lengths: neither NumPy nor we broadcast those.
        with pytest.raises(ArgumentError, match="A diagonal has axes of one length"):
            einsum(equation, *operands)
        return
    got = einsum(equation, *operands)
    scale = np.einsum(equation, *(x.abs().numpy() for x in operands))
    # NumPy computes in float64 too, and errs as much.
    assert_within(got, expected, 2 * plan(equation, *operands).error_bound * scale + torch.finfo(F64).smallest_normal)


def test_size_one_axes_broadcast():
    a, b = gaussian((1, 3), 1, F64), gaussian((4, 3), 2, F64)
    for equation in ("ij,ij->ij", "ij,ij->j", "ij,ij->", "ij,kj->ik", "ij,ij->i"):
        assert_within(einsum(equation, a, b), np.einsum(equation, a, b), 2 * bound(equation, [a, b]))


def test_the_interleaved_form_is_numpys():
    a, b = gaussian((2, 3, 4), 1, F64), gaussian((4, 3), 2, F64)
    for call, equation in (
        ((a, [0, 1, 2], b, [2, 1]), "ijk,kj->i"),
        ((a, [5, 9, 30], b, [30, 2], [2, 5, 9]), "ijk,kl->lij"),
        ((a, [Ellipsis, 0], b, [0, 1], [1, Ellipsis]), "ijk,kl->lij"),
    ):
        assert_within(einsum(*call), np.einsum(*call), 2 * bound(equation, [a, b]))


def test_forty_operands_and_more_labels_than_letters():
    operands, call = [], []
    for n in range(40):
        operands.append(gaussian((2, 2, 2), n, F64) / 2)
        call += [operands[-1], [n, n + 1, 100 + n]]
    call.append([0, 40])
    scalars = [x.sum(-1) for x in operands]
    expected = scalars[0]
    for x in scalars[1:]:
        expected = expected @ x
    sizes = [x.abs().sum(-1) for x in operands]
    size = sizes[0]
    for x in sizes[1:]:
        size = size @ x
    assert_within(einsum(*call), expected, 2 * plan(*call).error_bound * size)


def test_strides_empty_axes_and_views():
    a, b = gaussian((6, 8), 1, F64)[::2, 1::3], gaussian((4, 3), 2, F64).T[:, :3]
    assert_within(einsum("ij,kj->ki", a, b), np.einsum("ij,kj->ki", a, b), 2 * bound("ij,kj->ki", [a, b]))
    assert einsum("ij,jk->ik", torch.ones(2, 0), torch.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert einsum("ij->j", torch.ones(0, 3)).tolist() == [0.0] * 3
    assert einsum("ij,jk->ik", torch.ones(0, 2), torch.ones(2, 3)).shape == (0, 3)


@pytest.mark.parametrize("equation", ["ij->ij", "ij->ji", "ii->i", "i...->i..."])
def test_results_are_memory_of_their_own(equation):
    a = torch.ones(3, 3)
    einsum(equation, a).fill_(7.0)
    assert a.eq(1).all()


def test_numpy_in_numpy_out():
    a = np.arange(6.0).reshape(2, 3)
    got = einsum("ij->ji", a)
    assert isinstance(got, np.ndarray)
    assert np.array_equal(got, a.T)
    out = np.empty((2, 2))
    assert einsum("ij,kj->ik", a, a, out=out) is out
    assert np.array_equal(out, a @ a.T)


@on_backends
def test_alpha_and_beta_scale_contraction_and_addend(backend):
    a, b, c = gaussian((3, 4), 1), gaussian((4, 5), 2), gaussian((5, 3), 3)
    expected = 2.5 * oracle("ij,jk->ki", a, b) - 0.5 * c.double()
    with backend:
        got = einsum("ij,jk->ki", a, b, alpha=2.5, beta=-0.5, c=c)
        kept = c.clone()
        into = einsum("ij,jk->ki", a, b, alpha=2.5, beta=-0.5, out=kept)
    assert into is kept
    # The product, a factor, and a sum with the scaled addend.
    limit = 2.5 * bound("ij,jk->ki", [a, b]) + 4 * 2.0**-24 * (2.5 * oracle("ij,jk->ki", a.abs(), b.abs()) + c.abs())
    for x in (got, kept):
        assert_within(x, expected, limit)
    size = oracle("ij->", a.abs())
    assert_within(einsum("ij->", a, alpha=3.0), 3 * oracle("ij->", a), 3 * bound("ij->", [a]) + 6 * 2.0**-24 * size)


@together("optimize", ["auto", "greedy", "optimal", "dp", False, True, [(0, 1), (0, 1), (0, 1)]])
def test_every_way_of_ordering_gives_the_same(optimize):
    operands = operands_for("ab,bc,cd,de->ea")
    limit = 2 * bound("ab,bc,cd,de->ea", operands, optimize=optimize)
    exact = oracle("ab,bc,cd,de->ea", *operands)
    assert_within(einsum("ab,bc,cd,de->ea", *operands, optimize=optimize), exact, limit)
    traced = torch.compile(lambda *x: einsum("ab,bc,cd,de->ea", *x, optimize=optimize), backend="eager")
    assert_within(traced(*operands), exact, limit)


def test_paths_of_numpy_opt_einsum_and_cotengra_are_taken():
    equation = "ab,bc,cd,de->ea"
    operands = operands_for(equation)
    expected = oracle(equation, *operands)
    path = np.einsum_path(equation, *(x.numpy() for x in operands))[0]
    optimizers = [path, [(0, 1, 2, 3)], opt_einsum.DynamicProgramming(), cotengra.GreedyOptimizer()]
    for optimize in optimizers:
        assert_within(einsum(equation, *operands, optimize=optimize), expected, 2 * bound(equation, operands))


def test_opt_einsum_takes_us_as_a_backend():
    operands = [x.numpy() for x in operands_for("ab,bc,cd->da")]
    got = opt_einsum.contract("ab,bc,cd->da", *operands, backend="trntensor")
    limit = 2 * bound("ab,bc,cd->da", [torch.from_numpy(x) for x in operands])
    assert_within(got, np.einsum("ab,bc,cd->da", *operands), limit)


@pytest.mark.parametrize("limit", [1_000, 2_500, 20_000])
def test_slicing_gives_the_same_within_its_memory(limit):
    equation = "pqrs,pi,qj,rk,sl->ijkl"
    operands = [gaussian((5, 6, 7, 4), 1, F64), *(gaussian((n, 3), n, F64) for n in (5, 6, 7, 4))]
    scheme = plan(equation, *operands, memory_limit=limit)
    assert scheme.slices > 1 or limit == 20_000
    assert scheme.peak_bytes - sum(x.nbytes for x in operands) <= limit
    got = einsum(equation, *operands, memory_limit=limit)
    assert_within(got, oracle(equation, *operands), bound(equation, operands))


def test_a_limit_below_the_result_is_refused():
    with pytest.raises(CapacityError) as caught:
        einsum("i,j->ij", torch.ones(100), torch.ones(100), memory_limit=1000)
    assert caught.value.available == 1000
    assert caught.value.required >= 40_000
    assert "memory_limit" in str(caught.value)


@pytest.mark.grid(1)
@pytest.mark.parametrize("precision", ["fast", "fp32", "compensated", "fp64", "kahan"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_precisions_keep_their_bounds(precision, dtype):
    operands = [gaussian((6, 50), 1, dtype), gaussian((50, 40), 2, dtype), gaussian((40, 5), 3, dtype)]
    got = einsum("ij,jk,kl->il", *operands, precision=precision)
    limit = bound("ij,jk,kl->il", operands, precision=precision)
    assert_within(got, oracle("ij,jk,kl->il", *operands), limit)


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("dtype", "precision", "unit"),
    [
        (torch.bfloat16, None, 2.0**-8),
        (torch.float16, None, 2.0**-11),
        (F32, "compensated", 2.0**-24),
        (F32, "fp64", 2.0**-24),
    ],
)
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->ij", "ij->ji"])
@pytest.mark.parametrize("limit", [None, 400])
def test_a_contraction_and_its_addend_are_rounded_once(dtype, precision, unit, equation, limit):
    operands = [gaussian((5, 5), n).to(dtype) for n in range(1 + equation.count(","))]
    exact = 0.37 * torch.as_tensor(oracle(equation, *(x.double() for x in operands)))
    # The addend cancels the contraction up to its own rounding.
    c = (exact / 0.81).to(dtype)
    expected = exact - 0.81 * c.double()
    size = 0.37 * torch.as_tensor(oracle(equation, *(x.abs().double() for x in operands))) + c.abs().double()
    got = einsum(equation, *operands, alpha=0.37, beta=-0.81, c=c, precision=precision, memory_limit=limit)
    before = 10 * (2.0**-24 if dtype.itemsize == 2 else 2.0**-53)
    faint = unit * torch.finfo(dtype).smallest_normal
    assert_within(got.double(), expected, unit * expected.abs() + before * size + faint)


@pytest.mark.grid(1)
@pytest.mark.parametrize("scale", [1e60, 1e-150, 1e-40])
@pytest.mark.parametrize("target", [0.1, 1e-6])
def test_a_target_keeps_the_range_of_the_data(scale, target):
    a, b = scale * gaussian((8, 50), 1, F64), gaussian((50, 8), 2, F64)
    limit = target * oracle("ij,jk->ik", a.abs(), b.abs())
    assert_within(einsum("ij,jk->ik", a, b, target_error=target), oracle("ij,jk->ik", a, b), limit)


def test_target_error_chooses_and_reports():
    a, b = gaussian((8, 500), 1, F64), gaussian((500, 8), 2, F64)
    # A plan sees shapes: float64 may hold what float32 does not.
    chosen = [plan("ij,jk->ik", a, b, target_error=t).precision for t in (0.1, 1e-3, 1e-12)]
    assert chosen == ["fp64", "fp64", "fp64"]
    single = [plan("ij,jk->ik", a.float(), b.float(), target_error=t).precision for t in (0.1, 1e-3)]
    assert single == ["fast", "fp32"]
    for target, policy in ((0.1, "fast"), (1e-3, "fp32"), (1e-12, "fp64")):
        scheme = plan("ij,jk->ik", a, b, precision=policy)
        assert scheme.error_bound <= target
        limit = target * oracle("ij,jk->ik", a.abs(), b.abs())
        assert_within(einsum("ij,jk->ik", a, b, target_error=target), oracle("ij,jk->ik", a, b), limit)
        made = trnsci.achieved(einsum, "ij,jk->ik", a, b, target_error=target)
        assert isinstance(made, Achieved)
        assert made.error == scheme.error_bound
        assert_within(made.result, oracle("ij,jk->ik", a, b), limit)
    assert trnsci.achieved(einsum, "ij->j", torch.ones(2, 2, dtype=torch.int64)).error == 0.0
    with pytest.raises(ArgumentError) as caught:
        einsum("ij,jk->ik", a.float(), b.float(), target_error=1e-12)
    assert caught.value.argument == "target_error"
    assert "wider dtype" in str(caught.value)


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    "equation", ["ij,jk->ki", "ii,ij->j", "iij->j", "ij,ij->", "i,j,k->kji", "ij,kj,lj->ikl", "ij->ji"]
)
@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_gradients_are_right(equation, dtype):
    operands = [x.requires_grad_() for x in operands_for(equation, dtype)]
    assert torch.autograd.gradcheck(lambda *x: einsum(equation, *x), operands)


@pytest.mark.sim
@pytest.mark.parametrize("equation", ["ij,jk->ki", "ii,ij->j", "bij,bjk,kl->bil"])
def test_gradients_flow_through_kernels(equation):
    operands = [x.requires_grad_() for x in operands_for(equation, F32)]
    with trnsci.backend("simulator"):
        einsum(equation, *operands).square().sum().backward()
    wide = [x.detach().double().requires_grad_() for x in operands]
    torch.einsum(equation, *wide).square().sum().backward()
    # Gradients at absolute values, where nothing cancels, times the roundings there and back.
    sizes = [x.detach().abs().double().requires_grad_() for x in operands]
    torch.einsum(equation, *sizes).square().sum().backward()
    roundings = 2 * sum(step.terms + 2 for step in plan(equation, *operands).program.steps) + max(SIZES.values()) ** 2
    for x, y, size in zip(operands, wide, sizes, strict=True):
        assert_within(x.grad, y.grad, gamma(roundings, F32) * size.grad)


@pytest.mark.parametrize("equation", ["ij,jk->ki", "ii,ij->j", "ij,ij->", "ijk->k"])
def test_the_registered_operator_is_sound(equation):
    operands = [x.requires_grad_() for x in operands_for(equation)]
    args = (operands, None, equation, 0.5, 0.0, "", 0.0, 0, "auto", [])
    torch.library.opcheck(torch.ops.trntensor.einsum.default, args)
    made = torch.ops.trntensor.einsum.default(*args)
    grads = torch.autograd.grad(made.square().sum(), operands)
    other = torch.autograd.grad((0.5 * torch.einsum(equation, *operands)).square().sum(), operands)
    sizes = [x.detach().abs().requires_grad_() for x in operands]
    largest = torch.autograd.grad(torch.einsum(equation, *sizes).square().sum(), sizes)
    for x, y, size in zip(grads, other, largest, strict=True):
        assert_within(x, y, 2 * gamma(100, F64) * size)


def test_broadcast_axes_have_gradients_in_the_operator():
    a, b = gaussian((1, 3), 1, F64).requires_grad_(), gaussian((4, 3), 2, F64).requires_grad_()
    args = ([a, b], None, "ij,ij->j", 1.0, 0.0, "", 0.0, 0, "path", [2, 0, 1])
    assert torch.autograd.gradcheck(lambda a, b: torch.ops.trntensor.einsum.default([a, b], *args[1:]), (a, b))


def test_torch_compile_sees_one_graph():
    def work(a, b, c):
        return einsum("ij,jk,kl->il", a, b, c, alpha=2.0).relu()

    a, b, c = (x.requires_grad_() for x in operands_for("ij,jk,kl->il", F32))
    fast = torch.compile(work, fullgraph=True, backend="aot_eager")
    fast(a, b, c).sum().backward()
    got, a.grad = a.grad, None
    work(a, b, c).sum().backward()
    # The same operators in the same order: torch traces what eager mode runs.
    assert_within(got, a.grad, 4 * bound("jk,kl->j", [b.detach(), c.detach()]))


def test_plans_trace_the_function():
    assert len(trnsci.plan(einsum, "ij,jk,kl->il", torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5)).steps) == 2


ERRORS = [
    (("ij,jk", torch.ones(2, 3)), "number of operands", "subscripts has number of operands=2"),
    (("ij,jk", torch.ones(2, 3), torch.ones(4, 5)), "size of 'j'", "operand 0 has size of 'j'=3"),
    (("ijk", torch.ones(2, 3)), "number of axes of operand 0", "operand has number of axes of operand 0=2"),
    (("ij->k", torch.ones(2, 3)), "output label", "'k'"),
    (("ij->ii", torch.ones(2, 3)), "output", "'i' is repeated"),
    (("i-j->ij", torch.ones(2, 3)), "subscripts of operand 0", "letters"),
    (("...i->i", torch.ones(2, 3)), "output", "an ellipsis"),
    ((torch.ones(2, 3), "ij"), "index list 0", "interleaved"),
]  # fmt: skip


@together(("call", "argument", "text"), ERRORS)
def test_mistakes_are_named_with_both_values(call, argument, text):
    with pytest.raises(ArgumentError) as caught:
        einsum(*call)
    assert caught.value.argument == argument
    assert text in str(caught.value)


def test_options_are_checked():
    a = torch.ones(2, 3)
    for options, argument in (
        ({"beta": 1.0}, "c"),
        ({"precision": "fp16"}, "precision"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"optimize": "best"}, "optimize"),
        ({"optimize": 3.5}, "optimize"),
        ({"optimize": [(0, 5)]}, "path"),
        ({"optimize": [(0, 1)]}, "path"),
        ({"precision": "fp32", "target_error": 0.1}, "target_error"),
        ({"precision": []}, "precision"),
        ({"target_error": []}, "target_error"),
        ({"memory_limit": []}, "memory_limit"),
        ({"optimize": [1.0]}, "optimize"),
    ):
        with pytest.raises(ArgumentError) as caught:
            einsum("ij,kj,lj->ikl", a, a, a, **options)
        assert caught.value.argument == argument, options
    with pytest.raises(ArgumentError, match="one of auto"):
        einsum("ij,kj->ik", a, a, optimize="best")
    with pytest.raises(DtypeError):
        einsum("ij->i", a, alpha=1j)
    with pytest.raises(DtypeError, match="a whole number, because the operands are int64"):
        einsum("ij->i", a.long(), alpha=0.5)
    assert einsum("ij->ij", a, c=1j * a, beta=1.0).dtype == torch.complex64
    with pytest.raises(DtypeError):
        einsum("ij->i", [[1.0]])
    with pytest.raises(ArgumentError, match="memory shared with operand 0"):
        einsum("ij->ij", a, out=a)


def test_set_backend_is_the_librarys_own():
    assert trntensor.get_backend() == "auto"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("subscripts", ["knm,nj->nmj", "kn,m->nm", "kni,nj->ij", "kin,njl->ij", "ki,lj->ij"])
def test_factors_that_are_sums_keep_the_bound_of_half_precision(dtype, subscripts):
    # The sum of a factor was rounded before it was multiplied, which the bound did not count.
    sizes = dict(zip("ijklmn", (4, 5, 6, 3, 7, 2), strict=True))
    labels = subscripts.split("->")[0].split(",")
    for seed in range(5):
        operands = [(gaussian([sizes[x] for x in term], seed + i).abs() / 3).to(dtype) for i, term in enumerate(labels)]
        exact = torch.einsum(subscripts, *(x.double() for x in operands))
        bound = trntensor.plan(subscripts, *operands).error_bound
        assert_within(trntensor.einsum(subscripts, *operands), exact, bound * exact.abs())
