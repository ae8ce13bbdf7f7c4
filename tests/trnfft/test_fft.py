"""Public functions against SciPy over shapes, lengths, axes, norms and dtypes; errors; plans; the SciPy backend."""

import functools
import itertools
import pickle

import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings, strategies as st
from torch.autograd import forward_ad

import trnfft
import trnsci
from tests.together import together
from trnfft import ComplexTensor
from trnfft.device.bounds import guaranteed_error
from trnfft.device.digit_programs import BOUND
from trnfft.ops.fft import FEW_ROWS
from trnsci import ArgumentError, DtypeError, UnsupportedError
from trnsci.host import processor
from trnsci.testing import BACKENDS, gaussian

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
MANY = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
NORMS = (None, "backward", "ortho", "forward")

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)


def operand(name, shape, seed=1, dtype=C128):
    x = gaussian(shape, seed, dtype)
    return x.real.clone() if name.removesuffix("2").removesuffix("n") in ("rfft", "ihfft", "rff", "ihff") else x


def close(got, expected, bound=BOUND["fp64"]):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert np.iscomplexobj(got) == np.iscomplexobj(expected)
    size = np.linalg.norm(expected)
    assert np.linalg.norm(got - expected) <= bound * max(size, 1e-300)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("n", [None, 1, 2, 5, 9, 16])
def test_one_axis_agrees_with_scipy(name, n):
    x = operand(name, (5, 6, 7))
    for norm, dim in itertools.product(NORMS, (-1, 0, 1)):
        expected = getattr(scipy.fft, name)(x.numpy(), n, dim, norm)
        close(getattr(trnfft, name)(x, n, dim, norm), expected)
        close(getattr(trnfft, name)(x, n=n, axis=dim, norm=norm), expected)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("s", [None, (4, 9), (7, 2)])
def test_two_axes_agree_with_scipy(name, s):
    x = operand(name, (5, 6, 7))
    for norm, dim in itertools.product(NORMS, ((-2, -1), (0, 2), (2, 0))):
        expected = getattr(scipy.fft, name)(x.numpy(), s, dim, norm)
        close(getattr(trnfft, name)(x, s, dim, norm), expected)
        close(getattr(trnfft, name)(x, s, axes=dim, norm=norm), expected)


@pytest.mark.grid(1)
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize(
    ("s", "dim"), [(None, None), ((3, 4), None), (None, (1,)), ((8, 3, 5), (2, 0, 1)), ((4, -1), (0, 1))]
)
def test_several_axes_agree_with_scipy(name, s, dim):
    x = operand(name, (5, 6, 7))
    sizes = None if s is None else [x.shape[d] if n == -1 else n for n, d in zip(s, dim or (1, 2), strict=True)]
    if s is not None and -1 in s and name in ("irfftn", "hfftn"):
        sizes[-1] = 2 * (x.shape[dim[-1]] - 1)
    for norm in NORMS:
        expected = getattr(scipy.fft, name)(x.numpy(), sizes, dim, norm)
        close(getattr(trnfft, name)(x, s, dim, norm), expected)


# Every pair of a shape (powers, products, primes, one row and batches), a norm and a dtype, each with its promise.
SHAPES = [(1024,), (3, 1026), (9, 1009), (16384,), (2, 3, 4098), (10005,), (65537,)]
PAIRS = [(shape, norm, (F64, F32)[(i + j) % 2]) for i, shape in enumerate(SHAPES) for j, norm in enumerate(NORMS[1:])]


def promised(points, real):
    """What every library that may be called keeps; the oracle of float64 data has an error of its own."""
    once = guaranteed_error("pytorch", [points], 1, 1, "fp32" if real == F32 else "fp64")
    return once + guaranteed_error("pytorch", [points], 1, 1, "fp64")


@pytest.mark.parametrize("name", ONE)
def test_every_kind_of_length_agrees_with_scipy(name):
    for shape, norm, real in PAIRS:
        x = operand(name, shape, dtype={F32: C64, F64: C128}[real])
        wide = x.numpy().astype(np.complex128 if x.is_complex() else np.float64)
        exact = getattr(scipy.fft, name)(wide, norm=norm)
        close(getattr(trnfft, name)(x, norm=norm), exact, promised(2 * shape[-1], real))


@together("n", [62, 129, 226, 284, 354, 412, 428, 996, 1009, 1022])
def test_lengths_with_large_primes_keep_the_bound_for_all_data(n):
    """MKL sums up such factors term by term; in host memory SciPy transforms them."""
    t = torch.arange(n, dtype=F64)
    spike = torch.ones(n, dtype=C128) * 1e-3
    spike[n // 3] = 1e3 + 1e3j
    graded = torch.logspace(-6, 6, n, dtype=F64) * (1 - 2j)
    for x in (torch.ones(n, dtype=C128), (-1.0) ** t * (1 + 1j), t + 0j, spike, graded):
        wide = x.numpy().astype(np.clongdouble)
        for name in ("fft", "ifft"):
            exact = getattr(scipy.fft, name)(wide)
            error = np.linalg.norm(getattr(trnfft, name)(x).numpy() - exact)
            assert error <= guaranteed_error("host", [n], 1, 1, "fp64") * np.linalg.norm(exact)
        # The imaginary part of the mean is ignored; errors of the rest are relative to it all the same.
        half = x[: n // 2 + 1].clone()
        half[0] += 1e3j
        exact = scipy.fft.irfft(half.numpy().astype(np.clongdouble), n)
        error = np.linalg.norm(trnfft.irfft(half, n).numpy() - exact)
        assert error <= guaranteed_error("host", [n], 1, 1, "fp64") * np.linalg.norm(half.numpy()) * (2 / n) ** 0.5
    assert trnsci.explain(trnfft.fft, x).calls[0].verdicts[2].implementation == "host"


@pytest.mark.parametrize("name", ONE)
def test_strides_views_and_empty_batches(name):
    rows = operand(name, (2, 300))
    for x in (rows.mT.contiguous().mT, rows[:, ::3], rows[:0]):
        close(getattr(trnfft, name)(x), getattr(scipy.fft, name)(x.numpy()))
    z = gaussian((3, 100), 1, C128)
    views = [z.conj()] if rows.is_complex() else [z.conj().imag, torch._neg_view(z.real.contiguous())]
    for x in views:
        close(getattr(trnfft, name)(x), getattr(scipy.fft, name)(x.resolve_conj().resolve_neg().numpy()))


# Rows


def rows_of(name, shape, dtype):
    x = operand(name, shape, dtype=dtype)
    return x if name in ONE else x.real.clone()


ROWS = {name: getattr(trnfft, name) for name in ONE}
ROWS |= {
    f"{name}{kind}": functools.partial(getattr(trnfft, name), type=kind)
    for name in ("dct", "dst")
    for kind in (1, 2, 3, 4)
}
ROWS |= {
    "stft": lambda x: trnfft.stft(x, 16),
    "fftconvolve": lambda x: trnfft.fftconvolve(x, torch.ones(1, 7, dtype=x.dtype), dim=-1),
    "chirp_z": lambda x: trnfft.chirp_z(x, 9),
}


@on_backends
@pytest.mark.parametrize("name", ROWS)
def test_rows_do_not_touch_each_other(backend, name):
    # One matrix, folded twiddles, twiddles between products, a chirp; single and double precision.
    for shape, dtype in [((5, 64), C64), ((100, 150), C64), ((16, 256), C64), ((3, 137), C64), ((5, 60), C128)]:
        x = rows_of(name, shape, dtype)
        row = shape[0] // 2
        others = [i for i in range(shape[0]) if i != row]
        with backend:
            expected = ROWS[name](x)[others]
            # A kernel passes a NaN on to the rows that share a product; docs/trnfft/fft.md says which.
            for by in (1e14, 1e-14, 0.0, *(() if backend.runs_kernels else (float("nan"), float("inf")))):
                scaled = x.clone()
                scaled[row] *= by
                assert torch.equal(ROWS[name](scaled)[others], expected)


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    name=st.sampled_from(MANY),
    norm=st.sampled_from(NORMS),
    data=st.data(),
)
def test_any_axes_agree_with_scipy(shape, name, norm, data):
    dims = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    lengths = [data.draw(st.integers(1, 7)) for _ in dims]
    x = operand(name, shape)
    close(
        getattr(trnfft, name)(x, lengths, dims, norm), getattr(scipy.fft, name)(x.numpy(), lengths, dims, norm), 1e-13
    )


@together("name", [*ONE, *MANY])
def test_numpy_in_numpy_out(name):
    x = operand(name, (4, 6)).numpy()
    got = getattr(trnfft, name)(x)
    assert isinstance(got, np.ndarray)
    close(got, getattr(scipy.fft, name)(x))


@together(
    ("dtype", "expected"),
    [(torch.int64, C128), (torch.bool, C128), (torch.float16, C64), (F32, C64), (F64, C128), (C64, C64)],
)
def test_dtypes(dtype, expected):
    x = torch.ones(4, dtype=dtype)
    assert trnfft.fft(x).dtype == expected
    assert trnfft.fftn(x).dtype == expected


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_out_is_written_and_returned(backend, name):
    x = operand(name, (4, 6), dtype=C64)
    expected = getattr(trnfft, name)(x)
    out = torch.empty_like(expected)
    with backend:
        assert getattr(trnfft, name)(x, out=out) is out
    close(out, expected, 1e-6)


def test_no_axes_is_a_copy():
    x = gaussian((3, 4), 1, C64)
    got = trnfft.fftn(x, dim=())
    assert torch.equal(got, x)
    assert got.data_ptr() != x.data_ptr()


# Split planes


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "fft2", "ifftn", "irfftn", "hfftn"])
@pytest.mark.parametrize("dtype", [F32, torch.bfloat16], ids=str)
def test_planes_in_planes_out(backend, name, dtype):
    z = ComplexTensor(gaussian((5, 12), 1, dtype), gaussian((5, 12), 2, dtype))
    expected = getattr(scipy.fft, name)(z.to_torch().to(C128).numpy())
    with backend:
        got = getattr(trnfft, name)(z)
    assert got.dtype == dtype
    close(got.to_torch() if isinstance(got, ComplexTensor) else got.double(), expected, 5e-7 if dtype == F32 else 1e-2)


@on_backends
def test_gradients_reach_planes(backend):
    re, im = gaussian((2, 10), 1).requires_grad_(), gaussian((2, 10), 2).requires_grad_()
    with backend:
        trnfft.fft(ComplexTensor(re, im)).abs().pow(2).sum().backward()
    # Parseval: the sum is n times that of the input.
    assert torch.allclose(re.grad, 20 * re, rtol=1e-5, atol=1e-5)
    assert torch.allclose(im.grad, 20 * im, rtol=1e-5, atol=1e-5)


# Device memory


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)
@pytest.mark.parametrize(
    ("name", "inverse"), [("rfft", "irfft"), ("fft", "ifft"), ("rfftn", "irfftn"), ("ihfft", "hfft")]
)
def test_resident_data_stays_and_comes_out_as_planes(backend, name, inverse):
    x = gaussian((4, 100), 1)
    with backend, trnsci.ledger() as heard:
        spectrum = getattr(trnfft, name)(trnsci.to_device(x))
        back = getattr(trnfft, inverse)(spectrum)
    assert isinstance(spectrum, ComplexTensor)
    assert trnsci.is_resident(spectrum.real)
    assert all(entry.step.op.endswith("_planes") for entry in heard.entries)
    close(spectrum.from_device().to_torch(), getattr(scipy.fft, name)(x.double().numpy()), 5e-7)
    there = back.real if isinstance(back, ComplexTensor) else back
    assert trnsci.is_resident(there)
    close(trnsci.from_device(there), x, 1e-6)
    assert trnsci.is_resident(spectrum.from_device().to_device().imag)


# Errors


@together(
    ("call", "error", "words"),
    [
        (lambda: trnfft.fft([1, 2]), DtypeError, "fft: x"),
        (lambda: trnfft.fft(torch.ones(3), norm="orthogonal"), ArgumentError, "'orthogonal'"),
        (lambda: trnfft.fft(torch.ones(3), 0), ArgumentError, "at least 1 point"),
        (lambda: trnfft.fft(torch.ones(0)), ArgumentError, "at least 1 point"),
        (lambda: trnfft.fft(torch.ones(3), 2.5), DtypeError, "an integer"),
        (lambda: trnfft.fft(torch.ones(3), dim=1), ArgumentError, "1 dimensions"),
        (lambda: trnfft.fft(torch.ones(())), ArgumentError, "no axis"),
        (lambda: trnfft.fft(torch.ones(3, 3), dim=0, axis=1), ArgumentError, "(0, 1)"),
        (lambda: trnfft.rfft(torch.ones(3, dtype=C64)), DtypeError, "a real dtype"),
        (lambda: trnfft.irfft(torch.ones(1)), ArgumentError, "at least 1 point"),
        (lambda: trnfft.fftn(torch.ones(3, 4), dim=(0, 0)), ArgumentError, "axes that differ"),
        (lambda: trnfft.fftn(torch.ones(3, 4), s=(3,), dim=(0, 1)), ArgumentError, "number of axes"),
        (lambda: trnfft.fftn(torch.ones(3), s=(3, 4)), ArgumentError, "at most 1 lengths"),
        (lambda: trnfft.rfftn(torch.ones(3), dim=()), ArgumentError, "at least one axis"),
        (lambda: trnfft.fft(torch.ones(3), precision="fp16"), ArgumentError, "'fp16'"),
        (lambda: trnfft.fft(torch.ones(3), out=torch.empty(4, dtype=C64)), ArgumentError, "(4,)"),
        (lambda: trnfft.fft(torch.ones(3), out=torch.empty(3)), DtypeError, "complex64"),
        (lambda: trnfft.fft(ComplexTensor(torch.ones(3)), out=torch.empty(3)), DtypeError, "a ComplexTensor"),
    ],
)
def test_mistakes_are_named_before_any_work(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


EVERY = {name: getattr(trnfft, name) for name in (*ONE, *TWO, *MANY)}
EVERY |= {name: getattr(trnfft, name) for name in ("dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn")}
EVERY |= {
    "fftshift": trnfft.fftshift,
    "ifftshift": trnfft.ifftshift,
    "chirp_z": trnfft.chirp_z,
    "stft": lambda x: trnfft.stft(x, 4),
    "istft": lambda x: trnfft.istft(x, 6),
    "spectrogram": lambda x: trnfft.spectrogram(x, 4),
    "fftconvolve": lambda x: trnfft.fftconvolve(x, x),
    "correlate": lambda x: trnfft.correlate(x, x),
    "ComplexTensor": ComplexTensor,
}


@on_backends
@together("name", EVERY)
def test_operands_that_are_no_dense_numbers_are_refused(backend, name):
    dense = torch.ones(6, 6)
    eight, quantized = dense.to(torch.float8_e4m3fn), torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8)
    bad = [None, [1.0], "text", {}, quantized, dense.to_sparse(), dense.to_sparse_csr(), dense.to_mkldnn()]
    bad += [torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])]
    bad += [] if name in ("fftshift", "ifftshift", "ComplexTensor") else [eight]
    for x in bad:
        with backend, pytest.raises(trnsci.TrnError):
            EVERY[name](x)


@on_backends
@together("name", [name for name in EVERY if name != "ComplexTensor"])
def test_meta_tensors_have_the_layout_of_results(backend, name):
    for x in (gaussian((6, 4), 1, F32), gaussian((6, 4), 1, C64)):
        with backend:
            try:
                expected = EVERY[name](x)
            except trnsci.TrnError as error:
                with pytest.raises(type(error)):
                    EVERY[name](x.to("meta"))
                continue
            got = EVERY[name](x.to("meta"))
        assert got.is_meta
        assert (got.shape, got.dtype, got.stride()) == (expected.shape, expected.dtype, expected.stride())


@together("name", [name for name in EVERY if name != "ComplexTensor"])
def test_vmap_is_a_batch(name):
    x = gaussian((3, 6, 4), 1, C128)
    x = x.real if name.startswith(("rfft", "ihfft", "dct", "idct", "dst", "idst")) else x
    expected = torch.stack([EVERY[name](row) for row in x])
    close(torch.func.vmap(EVERY[name])(x), expected, 1e-13)
    with trnsci.backend("simulator"):
        if not name.endswith("shift"):
            with pytest.raises(UnsupportedError, match=r"torch\.func"):
                torch.func.vmap(EVERY[name])(x)


@together("name", ["fft", "fftn", "rfft2", "irfftn", "dct", "dstn"])
def test_options_of_the_wrong_kind_are_refused(name):
    several = name[-1] in "2n"
    for option in ({"s" if several else "n": 2.5}, {"dim": 2.5}, {"dim": "a"}, {"norm": []}, {"precision": []}):
        with pytest.raises(trnsci.TrnError):
            EVERY[name](torch.ones(4, 6), **option)


def test_errors_carry_fields():
    with pytest.raises(ArgumentError) as caught:
        trnfft.fft(torch.ones(3, 4), dim=5)
    assert (caught.value.op, caught.value.argument, caught.value.got) == ("fft", "dim", 5)


# Plans


@together("kind", [*ONE, *TWO, *MANY])
def test_a_plan_does_what_the_function_does(kind):
    x = operand(kind, (4, 6), dtype=C64)
    made = trnfft.plan((4, 6), x.dtype, kind=kind, norm="ortho")
    expected = getattr(trnfft, kind)(x, norm="ortho")
    assert torch.equal(made(x), expected)
    assert torch.equal(getattr(trnfft, kind)(x, plan=made), expected)
    assert made.kind in str(made)


def test_plans_are_cached_by_everything_they_depend_on():
    first = trnfft.plan((4, 100), C64)
    assert trnfft.plan((4, 100), C64) is first
    others = [
        trnfft.plan((5, 100), C64),
        trnfft.plan((4, 100), C128),
        trnfft.plan((4, 100), C64, dim=0),
        trnfft.plan((4, 100), C64, n=50),
        trnfft.plan((4, 100), C64, kind="ifft"),
        trnfft.plan((4, 100), C64, norm="ortho"),
        trnfft.plan((4, 100), C64, precision="fast"),
    ]
    assert all(other != first for other in others)


def test_a_plan_says_how_each_axis_is_computed():
    made = trnfft.plan((274, 256), C64, kind="fft2")
    assert [(s.axis, s.algorithm) for s in made.stages] == [(0, "chirp"), (1, "factors")]
    assert made.stages[1].factors == (128, 2)
    text = str(made)
    assert "128 x 2" in text
    assert "predicted" in text
    assert made.nbytes > sum(t.nbytes for t in made.tables) > 0


def test_writing_to_the_tables_of_a_plan_changes_no_transform():
    x = gaussian((4, 10), 1, C64)
    with trnsci.backend("simulator"):
        made = trnfft.plan((4, 10), C64)
        first = made(x)
        for table in made.tables:
            table.zero_()
        assert torch.equal(made(x), first)


def test_plans_pickle():
    made = trnfft.plan((4, 10), C64)
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    x = gaussian((4, 10), 1, C64)
    assert torch.equal(again(x), made(x))


def test_plans_refuse_what_they_were_not_made_for():
    made = trnfft.plan((4, 10), C64)
    with pytest.raises(ArgumentError) as caught:
        made(torch.ones(4, 11, dtype=C64))
    assert "(4, 11)" in str(caught.value)
    assert "(4, 10)" in str(caught.value)
    with pytest.raises(DtypeError, match="fft: plan is 'text', expected a plan from"):
        trnfft.fft(torch.ones(4, 10, dtype=C64), plan="text")
    with pytest.raises(ArgumentError, match="a plan for fft"):
        trnfft.ifft(torch.ones(4, 10, dtype=C64), plan=made)
    with pytest.raises(ArgumentError, match="The plan carries it"):
        trnfft.fft(torch.ones(4, 10, dtype=C64), norm="ortho", plan=made)
    with pytest.raises(ArgumentError, match="kind"):
        trnfft.plan((4,), C64, kind="fht")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, C64], ids=str)
@pytest.mark.parametrize("shape", [(1, 252), (1, 256), (1, 10000), (2, 8192), (4, 65536), (5, 4096)], ids=str)
def test_few_rows_are_transformed_by_the_library_that_is_faster_here(shape, dtype):
    x = torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    rows, lengths = FEW_ROWS.get(processor("vendor_id"), {}).get(dtype, (0, ()))
    chosen = "host" if shape[0] <= rows and shape[1] in lengths else "pytorch"
    wide, unit = torch.promote_types(dtype, torch.float64), 2.0**-53 if dtype == torch.float64 else 2.0**-24
    for name, operand, dim in (("fft", x, -1), ("ifft", x.mT, 0), ("hfft" if x.is_complex() else "rfft", x, -1)):
        if name != "hfft":
            (step,) = trnsci.plan(getattr(trnfft, name), operand, dim=dim).steps
            assert step.implementation == chosen, name
        exact = getattr(scipy.fft, name)(operand.to(wide).numpy(), axis=dim)
        close(getattr(trnfft, name)(operand, dim=dim).resolve_conj(), exact, 8 * 18 * unit)
    assert trnsci.plan(trnfft.fft2, x).steps[0].implementation == "pytorch"


# Behind scipy.fft


@together("name", [*ONE, *TWO, *MANY, "dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"])
def test_scipy_calls_arrive_here(name, monkeypatch):
    x = operand(name, (4, 6)).real.numpy() if name.startswith(("d", "id")) else operand(name, (4, 6)).numpy()
    expected = getattr(scipy.fft, name)(x, norm="ortho", workers=1, overwrite_x=False)
    counted = []
    table = trnfft.scipy_backend._FUNCTIONS
    monkeypatch.setitem(table, name, lambda *a, _fn=table[name], **k: counted.append(name) or _fn(*a, **k))
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        got = getattr(scipy.fft, name)(x, norm="ortho", workers=1, overwrite_x=False)
    assert counted == [name]
    close(got, expected)


def test_scipys_workers_are_checked_and_lengths_may_be_arrays():
    x = np.ones((4, 6))
    with scipy.fft.set_backend(trnfft.scipy_backend, only=True):
        for workers in (0, -(10**6)):
            with pytest.raises(ArgumentError, match="workers"):
                scipy.fft.fft(x, workers=workers)
        got = scipy.fft.idctn(x, s=np.array([3, 5]), workers=-1)
    close(got, scipy.fft.idctn(x, s=(3, 5)))


@pytest.mark.parametrize("lengths", [np.array([1.5, 2.0]), np.array([True, True]), torch.ones(2)], ids=str)
def test_lengths_that_are_no_integers_are_refused(lengths):
    with pytest.raises(DtypeError, match="s is Tensor, expected an integer"):
        trnfft.fftn(np.ones((4, 6)), s=lengths)


def test_scipy_gets_back_what_this_library_has_not():
    with scipy.fft.set_backend(trnfft.scipy_backend):
        assert scipy.fft.fft(np.ones(4, np.longdouble)).dtype == np.clongdouble
        assert scipy.fft.fht(np.ones(4), 0.1, 0.0).shape == (4,)
        assert scipy.fft.fft([1, 2, 3]).dtype == np.complex128


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft", "fft2", "dct"])
def test_forward_mode_tangents_are_not_lost(name):
    x = rows_of(name, (4, 24), C128) if name != "fft2" else gaussian((4, 24), 1, C128)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, 3 * x)
        tangent = forward_ad.unpack_dual(getattr(trnfft, name)(dual)).tangent
    close(tangent, 3 * getattr(scipy.fft, name)(x.numpy()))
