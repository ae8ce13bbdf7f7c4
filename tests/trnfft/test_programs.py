"""The three transforms on every backend: agreement with NumPy in float64, edges, properties, gradients."""

import mpmath
import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings, strategies as st

import trnfft
import trnsci
import trnsim
from tests.together import together
from trnfft import exact
from trnfft.device import digit_programs, factor_tables, launch, pass_programs, pieces, tables
from trnfft.device.bounds import guaranteed_error
from trnfft.kernels import fft as kernels
from trnfft.ops import C2C, C2R, R2C
from trnsci import ArgumentError, UnsupportedError, run
from trnsci.caches import CACHE
from trnsci.testing import BACKENDS, gaussian

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128

# Relative L2 errors the documentation promises for data in float32, and for fp64 for data in float64.
# as docs/trnfft/fft.md promises them for Gaussian data
BOUND = {"fp32": 5e-7, "fast": 1e-2, **digit_programs.BOUND}

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)
on_kernels = pytest.mark.parametrize("backend", [b for b in BACKENDS if b.runs_kernels], ids=str)

# Shape and axes: one matrix, two factors, primes, chirps, three factors, batches that fill no tile, inner axes.
CASES = [
    ((1,), (0,)),
    ((5, 8), (1,)),
    ((129, 16), (1,)),
    ((3, 127), (1,)),
    ((3, 128), (1,)),
    ((3, 129), (1,)),
    ((3, 130), (1,)),
    ((70, 256), (1,)),
    ((9, 37, 12), (2,)),
    ((2, 1009), (1,)),
    ((2, 226), (1,)),
    ((1, 2018), (1,)),
    ((2, 137, 3), (1,)),
    ((2, 32768), (1,)),
    ((200, 6), (0,)),
    ((3, 144, 5), (1,)),
    ((2, 3, 4, 700), (2,)),
    ((600, 3), (0,)),
    ((3, 5, 7), (0, 1, 2)),
    ((2, 40, 4, 3), (1, 3)),
    ((2, 40, 4, 3), (3, 1)),
    # Folded twiddles: even and odd factors, full and partly filled tiles of rows, a tail in the groups of k1, columns.
    ((100, 256), (1,)),
    ((130, 135), (1,)),
    ((97, 150), (1,)),
    ((64, 1000), (1,)),
    ((128, 1024), (1,)),
    ((1, 256, 140), (1,)),
    ((3, 225, 130), (1,)),
    ((140, 180), (0, 1)),
    # Chirps in folded rows, and lengths of two folds.
    ((16, 263), (1,)),
    ((20, 526), (1,)),
    ((1, 24576), (1,)),
    # Half of a long spectrum: odd factors, batches whose rows share tiles, beside another axis.
    ((2, 19683), (1,)),
    ((5, 17496), (1,)),
    ((3, 2, 20480), (2, 1)),
]


def relative(got, expected):
    got, expected = (x.resolve_conj() if isinstance(x, torch.Tensor) else x for x in (got, expected))
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


def double(x):
    return x.to(C128 if x.is_complex() else F64).numpy()


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("shape", "dims"), CASES, ids=str)
def test_every_direction_stays_within_its_stated_error(backend, shape, dims):
    x = gaussian(shape, 1, C64)
    lengths = [shape[d] for d in dims]
    half = np.fft.rfftn(double(x.real), axes=dims).astype(np.complex64)
    with backend:
        got = [
            trnfft.fftn(x, dim=dims),
            trnfft.ifftn(x, dim=dims),
            trnfft.fftn(x.real, dim=dims),
            trnfft.rfftn(x.real, dim=dims),
            trnfft.irfftn(torch.from_numpy(half), lengths, dim=dims),
        ]
    wide, wide_half = double(x), half.astype(np.complex128)
    expected = [
        np.fft.fftn(wide, axes=dims),
        np.fft.ifftn(wide, axes=dims),
        np.fft.fftn(wide.real, axes=dims),
        np.fft.rfftn(wide.real, axes=dims),
        scipy.fft.irfftn(wide_half, lengths, axes=dims),
    ]
    for mine, theirs in zip(got, expected, strict=True):
        assert relative(mine, theirs) <= BOUND["fp32"]
    assert [y.dtype for y in got] == [C64, C64, C64, C64, F32]


def hard(n):
    """Constants, whose roundings add up, and other data with a structure; a third has no exact sum."""
    j = np.arange(n)
    yield np.full(n, 1 / 3)
    yield j / n
    yield (-1.0) ** j / 3
    yield np.cos(2 * np.pi * (n // 3) * j / n)
    yield np.eye(1, n, n // 3)[0]
    yield 10.0 ** (-6 * j / n)


# One matrix, two factors in few rows and in many, four, chirps, and a prime as a matrix.
@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize(
    ("rows", "n"),
    [(3, 2), (3, 100), (3, 128), (100, 137), (3, 509), (100, 500), (100, 4096), (1, 5000), (3, 16384), (1, 32768)],
)
@pytest.mark.parametrize("precision", ["fp32", "fast"])
def test_hard_data_stays_within_the_guaranteed_error(backend, rows, n, precision):
    implementation = "nki" if backend.runs_kernels else "pytorch"
    for data in hard(n):
        x = torch.from_numpy(np.tile(data, (rows, 1))).float()
        z = torch.complex(x, x.flip(-1))
        half = torch.from_numpy(np.fft.rfft(double(x)).astype(np.complex64))
        with backend:
            found = [
                (C2C(z, [1], False, "none", precision), trnfft.fft(z, precision=precision), np.fft.fft(double(z)), z),
                (R2C(x, [1], "none", precision), trnfft.rfft(x, precision=precision), np.fft.rfft(double(x)), x),
            ]
            back = trnfft.irfft(half, n, norm="forward", precision=precision)
        # What rounding half to single precision changes is no error of the transform.
        exactly = scipy.fft.irfft(half.numpy().astype(np.complex128), n, norm="forward")
        found.append((C2R(half, [1], n, "none", precision), back, exactly, np.sqrt(n) * x))
        for call, got, expected, operand in found:
            size = np.sqrt(n) * np.linalg.norm(double(operand), axis=-1)
            error = np.linalg.norm(got.numpy() - expected, axis=-1)
            assert np.all(error <= call.bound(implementation) * size)


@on_kernels
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 31, 64, 97, 128, 131, 254, 360, 1021])
def test_real_data_comes_back_for_every_length(backend, n):
    x = gaussian((3, n), 1)
    with backend:
        back = trnfft.irfft(trnfft.rfft(x), n)
    assert relative(back, x) <= 2 * BOUND["fp32"]


@together("n", [*range(1, 40), 1009, 2018, 65537, 1 << 20, (1 << 20) - 3])
def test_every_length_on_pytorch(n):
    x = gaussian((n,), 1, C64)
    expected = np.fft.fft(double(x))
    # whichever library torch calls
    bound = guaranteed_error("pytorch", [n], 1, 1, "fp32")
    assert relative(trnfft.fft(x), expected) <= bound
    assert relative(trnfft.fft(x, precision="compensated"), expected) <= BOUND["compensated"]
    assert relative(trnfft.irfft(trnfft.rfft(x.real), n), x.real) <= 2 * bound


@pytest.mark.slow
@on_kernels
@pytest.mark.parametrize("n", [4099, 8198, 16384, 65537, 131071, 1 << 18, 1 << 20])
def test_long_lengths_on_kernels(backend, n):
    x = gaussian((n,), 1, C64)
    half = np.fft.rfft(double(x.real))
    with backend:
        assert relative(trnfft.fft(x), np.fft.fft(double(x))) <= BOUND["fp32"]
        assert relative(trnfft.rfft(x.real), half) <= BOUND["fp32"]
        assert relative(trnfft.irfft(torch.from_numpy(half.astype(np.complex64)), n), x.real) <= 2 * BOUND["fp32"]


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [12, 150])
def test_norms(backend, norm, n):
    x = gaussian((4, n), 1, C64)
    wide = double(x)
    with backend:
        assert relative(trnfft.fft(x, norm=norm), np.fft.fft(wide, norm=norm)) <= BOUND["fp32"]
        assert relative(trnfft.ifft(x, norm=norm), np.fft.ifft(wide, norm=norm)) <= BOUND["fp32"]
        assert relative(trnfft.rfft(x.real, norm=norm), np.fft.rfft(wide.real, norm=norm)) <= BOUND["fp32"]
        assert relative(trnfft.irfft(x, norm=norm), np.fft.irfft(wide, norm=norm)) <= BOUND["fp32"]
        assert relative(trnfft.hfft(x, norm=norm), np.fft.hfft(wide, norm=norm)) <= BOUND["fp32"]
        assert relative(trnfft.ihfft(x.real, norm=norm), np.fft.ihfft(wide.real, norm=norm)) <= BOUND["fp32"]


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize("shape", [(6, 100), (6, 300), (3, 40, 7)], ids=str)
def test_fast_rounds_to_bfloat16(backend, shape):
    x = gaussian(shape, 1, C64)
    with backend:
        error = relative(trnfft.fft(x, dim=1, precision="fast"), np.fft.fft(double(x), axis=1))
    assert 1e-4 < error <= BOUND["fast"]


@pytest.mark.grid(1)
@on_backends
@pytest.mark.parametrize(("shape", "dim"), [((2, 1511), 1), ((20, 526), 1), ((263, 3), 0), ((2, 263, 130), 1)], ids=str)
def test_fast_chirps(backend, shape, dim):
    x = gaussian(shape, 1, C64)
    with backend:
        assert relative(trnfft.fft(x, dim=dim, precision="fast"), np.fft.fft(double(x), axis=dim)) <= BOUND["fast"]
        half = trnfft.rfft(x.real, dim=dim, precision="fast")
        assert relative(half, np.fft.rfft(double(x.real), axis=dim)) <= BOUND["fast"]


@on_backends
@pytest.mark.parametrize("n", [150, 4096, 16384, 24576])
def test_every_row_has_its_own_precision(backend, n):
    # Rows of a batch share products; a large one must not cost a small one its digits.
    x = gaussian((3, n), 1) * torch.tensor([[1e-6], [1.0], [1e6]])
    with backend:
        spectrum = trnfft.rfft(x)
        back = trnfft.irfft(spectrum, n)
    for row in range(3):
        assert relative(spectrum[row], np.fft.rfft(double(x[row]))) <= BOUND["fp32"]
        assert relative(back[row], x[row]) <= 2 * BOUND["fp32"]


@pytest.mark.parametrize("dtype", [F64, C128], ids=str)
def test_double_precision(dtype):
    x = gaussian((3, 1009), 1, dtype)
    assert relative(trnfft.fft(x), np.fft.fft(x.numpy())) <= BOUND["fp64"]
    assert trnfft.fft(x).dtype == C128
    assert trnfft.fft(x, precision="fp32").dtype == C128
    assert relative(trnfft.fft(x, precision="fp32"), np.fft.fft(x.numpy())) > 1e-9


@on_backends
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_computed_in_float32(backend, dtype):
    x = gaussian((2, 20), 1, dtype)
    with backend:
        got = trnfft.fft(x)
    assert got.dtype == C64
    assert relative(got, np.fft.fft(double(x))) <= BOUND["fp32"]


@on_backends
def test_strided_and_expanded_operands(backend):
    base = gaussian((8, 6, 20), 1, C64)
    for x in (base[::2, :, ::3], base.permute(2, 0, 1), base[:1].expand(4, 6, 20), base.conj(), base.real[..., ::2]):
        with backend:
            assert relative(trnfft.fft(x, dim=1), np.fft.fft(double(x.resolve_conj()), axis=1)) <= BOUND["fp32"]


@on_kernels
def test_conjugates_of_many_rows(backend):
    x = gaussian((70, 76), 1, C64)
    with backend:
        assert relative(trnfft.hfft(x, 150), np.fft.hfft(double(x), 150)) <= BOUND["fp32"]
        assert relative(trnfft.irfft(x.conj(), 150), np.fft.irfft(double(x).conj(), 150)) <= BOUND["fp32"]
        assert relative(trnfft.fft(x.conj()), np.fft.fft(double(x).conj())) <= BOUND["fp32"]


@on_backends
def test_empty_batches(backend):
    with backend:
        assert trnfft.fft(torch.empty(0, 8)).shape == (0, 8)
        assert trnfft.rfft(torch.empty(0, 8)).shape == (0, 5)
        assert trnfft.irfft(torch.empty(0, 5, dtype=C64)).shape == (0, 8)


@on_kernels
def test_results_are_the_same_bits_every_time(backend):
    x = gaussian((40, 96), 1, C64)
    with backend:
        assert torch.equal(trnfft.fft(x), trnfft.fft(x))


@on_kernels
def test_nothing_after_a_row_is_left_unwritten(backend):
    # Fresh memory is NaN in tests; batches around the number of rows packed together.
    for batch in (1, 3, 4, 5, 7, 8, 9, 17, 33):
        x = gaussian((batch, 150), batch, C64)
        with backend:
            assert relative(trnfft.fft(x), np.fft.fft(double(x))) <= BOUND["fp32"]


# Properties


@on_backends
@settings(max_examples=15)
@given(n=st.integers(1, 200), shift=st.integers(-50, 50), seed=st.integers(0, 1000))
def test_linearity_parseval_and_shift(backend, n, shift, seed):
    x, y = gaussian((n,), seed, C64), gaussian((n,), seed + 1, C64)
    with backend:
        fx, fy, both = trnfft.fft(x), trnfft.fft(y), trnfft.fft(2 * x - 3 * y)
        moved = trnfft.fft(torch.roll(x, shift))
    size = float(fx.norm() + fy.norm())
    assert float((both - (2 * fx - 3 * fy)).norm()) <= 10 * BOUND["fp32"] * size
    assert abs(float(fx.norm() ** 2) / n - float(x.norm() ** 2)) <= 4 * BOUND["fp32"] * float(x.norm() ** 2) + 1e-12
    turn = torch.exp(-2j * torch.pi * torch.arange(n, dtype=F64) * shift / n)
    assert float((moved - fx * turn).norm()) <= 4 * BOUND["fp32"] * size


@on_backends
@settings(max_examples=10)
@given(n=st.integers(1, 150), seed=st.integers(0, 1000))
def test_convolution_and_symmetry(backend, n, seed):
    x, y = gaussian((n,), seed), gaussian((n,), seed + 1)
    with backend:
        spectrum = trnfft.fft(x)
        circular = trnfft.irfft(trnfft.rfft(x) * trnfft.rfft(y), n)
    mirrored = torch.roll(spectrum.flip(0), 1).conj()
    assert float((spectrum - mirrored).norm()) <= 4 * BOUND["fp32"] * float(spectrum.norm())
    exact = [float((x.double() * torch.roll(y.double().flip(0), k + 1)).sum()) for k in range(n)]
    assert np.linalg.norm(circular.numpy() - exact) <= 10 * BOUND["fp32"] * float(x.norm() * y.norm()) * np.sqrt(n)


@on_backends
def test_axes_commute_with_permutation(backend):
    x = gaussian((3, 4, 5), 1, C64)
    with backend:
        inner = trnfft.fft2(x.permute(1, 2, 0), dim=(0, 1))
        outer = trnfft.fft2(x, dim=(1, 2)).permute(1, 2, 0)
    assert relative(inner, outer) <= 2 * BOUND["fp32"]


# Gradients


@pytest.mark.parametrize("n", [5, 8])
def test_gradients_on_pytorch(n):
    x = gaussian((2, n), 1, C128).requires_grad_()
    real = gaussian((2, n), 2, F64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: trnfft.fft(x, norm="ortho"), (x,))
    assert torch.autograd.gradcheck(trnfft.rfft, (real,))
    assert torch.autograd.gradcheck(lambda x: trnfft.irfft(x, n), (x,))
    assert torch.autograd.gradcheck(trnfft.fft, (real,))


@on_kernels
@pytest.mark.parametrize("shape", [(3, 9), (2, 140), (2, 141)], ids=str)
def test_gradients_through_kernels(backend, shape):
    n = shape[-1]
    functions = [
        (lambda x: trnfft.fft(x), C64),
        (lambda x: trnfft.ifft(x, norm="forward"), C64),
        (lambda x: trnfft.fft(x), F32),
        (lambda x: trnfft.rfft(x, norm="ortho"), F32),
        (lambda x: trnfft.irfft(x, n), C64),
        (lambda x: trnfft.hfft(x, 2 * n - 2), C64),
    ]
    for function, dtype in functions:
        x = gaussian(shape, 1, dtype).requires_grad_()
        wide = x.detach().to(C128 if dtype.is_complex else F64).requires_grad_()
        expected = function(wide)
        weight = gaussian(expected.shape, 2, expected.dtype)
        expected.backward(weight)
        with backend:
            function(x).backward(weight.to(C64 if weight.is_complex() else F32))
        assert relative(x.grad, wide.grad) <= 2 * BOUND["fp32"]


@on_kernels
def test_second_derivatives_through_kernels(backend):
    x = gaussian((6,), 1).requires_grad_()
    with backend:
        power = trnfft.rfft(x).abs().pow(2).sum()
        (first,) = torch.autograd.grad(power, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    wide = x.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(torch.fft.rfft(wide).abs().pow(2).sum(), wide, create_graph=True)
    (expected,) = torch.autograd.grad(first.sum(), wide)
    assert relative(second, expected) <= 4 * BOUND["fp32"]


# Registration, plans and refusals


def test_ops_are_registered_correctly():
    x, half = gaussian((2, 6), 1, C64), gaussian((2, 4), 2, C64)
    torch.library.opcheck(torch.ops.trnfft.c2c.default, (x, [1], False, "none", "fp32"))
    # of real data torch's inverse is a lazy conjugate
    torch.library.opcheck(torch.ops.trnfft.c2c.default, (x.real.clone(), [1], True, "full", "fp32"))
    torch.library.opcheck(torch.ops.trnfft.r2c.default, (x.real.clone(), [1], "none", "fp32"))
    torch.library.opcheck(torch.ops.trnfft.c2r.default, (half, [1], 6, "none", "fp32"))
    planes = half.real.clone(), half.imag.clone()
    torch.library.opcheck(torch.ops.trnfft.c2c_planes.default, (*planes, [1], False, "none", "fp32"))
    torch.library.opcheck(torch.ops.trnfft.r2c_planes.default, (planes[0], [1], "none", "fp32"))
    torch.library.opcheck(torch.ops.trnfft.c2r_planes.default, (*planes, [1], 6, "none", "fp32"))


def test_compiles():
    x = gaussian((3, 10), 1, C64)
    compiled = torch.compile(lambda x: trnfft.fft(x * 2), backend="aot_eager", fullgraph=True)
    assert relative(compiled(x), np.fft.fft(2 * double(x))) <= BOUND["fp32"]


def test_the_plan_of_a_call_says_where_and_how_long():
    made = trnsci.plan(trnfft.fft, torch.empty(32, 256, dtype=C64, device="meta"))
    assert [step.op for step in made.steps] == ["trnfft::c2c"]
    assert made.flops == 5 * 32 * 256 * 8
    assert 0 < made.predicted["trn2"] < 50e-6


def test_plans_take_options_that_mean_the_same():
    x = gaussian((4, 10), 1, C64)
    made = trnfft.plan((4, 10), C64)
    assert torch.equal(trnfft.fft(x, dim=1, norm="backward", plan=made), made(x))
    both = trnfft.plan((4, 10), C64, kind="fft2", dim=(0, 1))
    assert torch.equal(trnfft.fft2(x, plan=both), both(x))
    with pytest.raises(ArgumentError, match="call has dim=0, plan has dim=None"):
        trnfft.fft(x, dim=0, plan=made)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((8, C64), "shape is 8, expected a sequence of lengths"),
        (((4, -3), C64), r"shape is \(4, -3\), expected lengths of at least 0"),
        (((4, 8.5), C64), "shape is float, expected an integer"),
        (((4, 8), "complex64"), "dtype is 'complex64', expected a torch.dtype"),
    ],
)
def test_plans_of_nonsense_are_refused(arguments, text):
    with pytest.raises(ArgumentError, match=text):
        trnfft.plan(*arguments)
    for option in ("dim", "n", "norm", "precision"):
        with pytest.raises(ArgumentError, match=f"{option} is"):
            trnfft.plan((4, 8), C64, **{option: [{}]})
    with pytest.raises(ArgumentError, match="dim is"):
        trnfft.fft(torch.ones(4, 8, dtype=C64), dim="a", plan=trnfft.plan((4, 8), C64))


def test_a_plan_of_something_else_is_refused():
    with pytest.raises(ArgumentError, match="x is list, expected a tensor"):
        trnfft.plan((2,), C64)([1, 2])


@together(
    "call",
    [
        lambda x: trnsci.plan(trnfft.rfft2, x),
        lambda x: trnsci.plan(trnfft.dct, x),
        lambda x: trnsci.plan(trnfft.idst, x, 4),
        lambda x: trnsci.plan(trnfft.stft, x, 16),
        lambda x: trnsci.plan(trnfft.istft, torch.empty(9, 6, dtype=C64, device="meta"), 16),
        lambda x: trnsci.plan(trnfft.fftconvolve, x, x),
        lambda x: trnsci.plan(trnfft.oaconvolve, x, x),
        lambda x: trnsci.plan(trnfft.correlate, x, x),
        lambda x: trnsci.plan(trnfft.chirp_z, x),
    ],
)
def test_every_function_can_be_planned(call):
    made = call(torch.empty(4, 60, device="meta"))
    assert made.steps
    assert all(step.op.startswith("trnfft::") for step in made.steps)
    assert made.predicted["trn2"] > 0


@on_kernels
def test_a_length_beyond_the_tables_is_refused(backend):
    n = launch.LONGEST + 1
    with backend, pytest.raises(UnsupportedError) as caught:
        trnfft.fft(torch.empty(1).expand(n))
    assert f"{n} points" in str(caught.value)


def test_ops_take_axes_of_meta_tensors():
    x = torch.empty(2, 10, dtype=C64, device="meta")
    assert run(C2C(x, [1], False, "none", "fp32")).shape == (2, 10)
    assert run(R2C(x.real, [1], "none", "fp32")).shape == (2, 6)
    assert run(C2R(x, [1], 18, "none", "fp32")).shape == (2, 18)


# Tables and programs


@together("n", [1, 2, 3, 7, 8, 12, 1009, 4096])
def test_roots_are_right_to_rounding(n):
    for e in {0, 1, n // 8, n // 4, n // 3, n // 2, (7 * n) // 8, n - 1, 10**6 * n + 1}:
        with mpmath.workdps(30):
            exact = mpmath.expjpi(mpmath.mpf(2) * (e % n) / n)
        got = complex(tables.roots(np.array([e]), n, 1)[0])
        assert abs(complex(exact) - got) <= 2**-52


@together(
    ("n", "expected"),
    [
        (1, (1,)),
        (128, (128,)),
        (1024, (32, 32)),
        (4096, (64, 64)),
        (16384, (128, 128)),
        (1 << 20, (64, 128, 128)),
        (131, None),
        (60, (60,)),
        (210, (14, 15)),
    ],
)
def test_factors(n, expected):
    assert tables.factors(n, 128) == expected


@together(
    ("n", "rows", "inner", "algorithm"),
    [
        (100, 1, 1, "matrix"),
        (1000, 1, 1, "factors"),
        (509, 1, 1, "matrix"),
        (751, 1, 1, "chirp"),
        (1009, 4, 1, "chirp"),
        (1009, 64, 1, "matrix"),
        (1009, 1024, 1, "chirp"),
        (1009, 64, 5, "chirp"),
        (2003, 64, 1, "chirp"),
    ],
)
def test_algorithms(n, rows, inner, algorithm):
    assert pass_programs.algorithm_for(n, rows, inner)[0] == algorithm


@pytest.mark.parametrize(("n", "rows"), [(509, 1), (751, 1), (1009, 4), (1009, 64), (1511, 64)])
def test_the_choice_between_matrix_and_chirp_is_the_faster_one(n, rows, monkeypatch):
    def predicted(direct):
        monkeypatch.setattr(pass_programs, "_direct", lambda n, rows: direct)
        pass_programs.algorithm_for.cache_clear()
        CACHE.clear()
        made = pass_programs.pass_program("c2c", (rows, n), (1,), 0, -1, "none", F32)
        plane = torch.empty(rows * n, device="meta")
        timed = trnsim.profile(kernels.fft, target="trn2", numerics=False)
        return timed(plane, plane, *made.tables, program=made.steps)[1].total_s

    chosen = pass_programs._direct(n, rows)
    times = {direct: predicted(direct) for direct in (True, False)}
    pass_programs.algorithm_for.cache_clear()
    CACHE.clear()
    assert times[chosen] < times[not chosen]


def test_chirp_lengths_hold_the_convolution():
    for n in (131, 137, 2018, 65537):
        name, split = pass_programs.algorithm_for(n, 1, 2)
        assert name == "chirp"
        assert np.prod(split) >= 2 * n - 1
        assert max(split) <= 128


# Folded twiddles: how rows are cut in two factors must not show in the result.


@pytest.mark.grid(1)
@pytest.mark.parametrize("half", [factor_tables.HALF_IN, factor_tables.WHOLE, factor_tables.HALF_OUT])
@pytest.mark.parametrize("n", [6, 9, 130, 255, 1000, 1024, 4096])
def test_folds_fit_the_partitions(n, half):
    planes = 1 if half == factor_tables.HALF_OUT else 2
    made = factor_tables.fold(n, half, planes)
    assert made.n1 * made.n2 == n
    first = factor_tables.first(made, half, planes, -1, F32)
    second = factor_tables.second(made, half, -1, 1.0, F32)
    assert first.shape[0] <= 128
    assert second.shape[0] <= 128


@pytest.mark.parametrize(
    ("n", "half"),
    [
        (131, factor_tables.WHOLE),
        (5, factor_tables.WHOLE),
        (8192, factor_tables.WHOLE),
        (16384, factor_tables.HALF_OUT),
    ],
)
def test_lengths_that_do_not_fold(n, half):
    assert factor_tables.fold(n, half, 1 if half == factor_tables.HALF_OUT else 2) is None


# Predicted times, as the documentation states them


@pytest.mark.parametrize(
    ("kind", "shape", "dims", "n", "most"),
    [
        ("c2c", (1024, 1024), (1,), 0, 120e-6),
        ("r2c", (1024, 1024), (1,), 1024, 80e-6),
        ("c2r", (1024, 513), (1,), 1024, 80e-6),
        ("r2c", (256, 4096), (1,), 4096, 85e-6),
        ("c2c", (1024, 1024), (0, 1), 0, 220e-6),
        ("r2c", (1024, 1024), (0, 1), 1024, 150e-6),
        ("c2c", (1, 1 << 20), (1,), 0, 218e-6),
        ("r2c", (1, 1 << 20), (1,), 1 << 20, 172e-6),
        ("c2r", (1, (1 << 19) + 1), (1,), 1 << 20, 167e-6),
        ("c2c", (64, 65536), (1,), 0, 650e-6),
        ("r2c", (64, 65536), (1,), 65536, 490e-6),
        ("c2r", (64, 32769), (1,), 65536, 498e-6),
    ],
)
def test_predicted_times_of_whole_programs(kind, shape, dims, n, most):
    made = pass_programs.pass_program(kind, shape, dims, n, 1 if kind == "c2r" else -1, "none", F32)
    plane = torch.empty(int(np.prod(shape)), device="meta")
    timed = trnsim.profile(kernels.fft, target="trn2", numerics=False)
    report = timed(plane, None if kind == "r2c" else plane, *made.tables, program=made.steps)[1]
    assert report.total_s <= most


# Programs that would be too long are several launches


@on_kernels
def test_programs_beyond_the_limit_are_several_launches_of_equal_pieces(backend, monkeypatch):
    monkeypatch.setenv("TRNSCI_PROGRAM_INSTRUCTIONS", "40")
    for module in (pieces, digit_programs):
        monkeypatch.setattr(module, "_FEW", 64)
    steps = []
    for module in (launch, exact):
        started = module.launch
        monkeypatch.setattr(
            module, "launch", lambda *args, f=started, **kw: (steps.append(kw["program"]), f(*args, **kw))[1]
        )
    z, x = gaussian((512, 64), 1, C64), gaussian((400, 9, 40), 2)
    half = torch.from_numpy(np.fft.rfftn(double(x)).astype(np.complex64))
    with backend:
        found = [
            (trnfft.fft(z, norm="ortho"), np.fft.fft(double(z), norm="ortho")),
            (trnfft.ifft(z, dim=0), np.fft.ifft(double(z), axis=0)),
            (trnfft.fftn(x), np.fft.fftn(double(x))),
            (trnfft.rfftn(x), np.fft.rfftn(double(x))),
            (trnfft.irfftn(half, x.shape), np.fft.irfftn(half.numpy().astype(np.complex128), x.shape, (0, 1, 2))),
        ]
        rows = len(steps)
        exactly = trnfft.fft(z.to(C128))
    for mine, theirs in found:
        assert relative(mine, theirs) <= BOUND["fp32"]
    assert relative(exactly, np.fft.fft(double(z))) <= BOUND["fp64"]
    # More launches than calls, of fewer different programs.
    assert rows > len(found)
    assert len(set(steps[:rows])) < rows
    assert len(steps) - rows > 1


# The worst of constants, steps, ramps and tones on the simulator, as docs/trnfft/fft.md states it.
STRUCTURED = {"fp32": 2.6e-6, "compensated": BOUND["compensated"]}


def _structured(kind, n, rows):
    """Return rows whose terms are alike, so that their roundings do not cancel, of random amplitudes."""
    random, t = np.random.default_rng(n), np.arange(n)
    amplitude, start = random.uniform(1, 2, (rows, 1)), random.integers(1, n + 1, (rows, 1))
    period = random.integers(1, 13, (rows, 1))
    return {
        "constant": amplitude * np.ones(n),
        "step": amplitude * (t < start),
        "ramp": amplitude * t / n + random.uniform(-2, 2, (rows, 1)),
        "tone": amplitude * np.cos(2 * np.pi * (t % period) / period),
        "offset": 10 * amplitude + random.standard_normal((rows, n)),
    }[kind].astype(np.float32)


@together("kind", ["constant", "step", "ramp", "tone", "offset"])
@pytest.mark.parametrize(("n", "rows", "precision"), [(127, 128, "fp32"), (1024, 128, "fp32"), (127, 4, "compensated")])
def test_rows_of_like_terms_stay_below_what_the_page_says(kind, n, rows, precision):
    x = _structured(kind, n, rows)
    expected = np.fft.fft(x.astype(np.float64))
    with trnsci.backend("simulator"):
        error = trnfft.fft(torch.from_numpy(x).to(C64), precision=precision).numpy() - expected
    assert (np.linalg.norm(error, axis=1) <= STRUCTURED[precision] * np.linalg.norm(expected, axis=1)).all()
