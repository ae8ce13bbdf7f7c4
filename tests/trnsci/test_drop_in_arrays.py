"""Inside ``drop_in`` NumPy's and SciPy's functions keep their contract: memory, scalars, operands, warnings, errors."""

import importlib
import json
import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.sparse.linalg

import trnsci
from tests.together import together
from trnsci.product_operators import multiply, multiply_in_place

rng = np.random.default_rng(0)
A = rng.standard_normal((8, 8))
S = A @ A.T + 8 * np.eye(8)
FORMS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "single": lambda x: x.astype(np.float32),
    "transposed stack": lambda x: np.stack([x, x, x]).transpose(0, 2, 1),
}
CALLS = [
    "np.fft.fft(a)",
    "np.fft.fft(a, axis=0)",
    "np.fft.irfft(a + 0j)",
    "np.fft.fft2(a, axes=(1, 0))",
    "scipy.fft.fft(a)",
    "scipy.fft.dct(a)",
    "np.einsum('...ij,...jk->...ki', a, a)",
    "np.einsum('...ij,...kj->...jik', a, a)",
    "np.einsum('...ij,...ij->...', a, a)",
    "np.linalg.cholesky(s)",
    "np.linalg.solve(s, a)",
    "np.linalg.inv(s)",
    "np.linalg.det(a)",
    "np.linalg.slogdet(a)",
    "np.linalg.eigh(s)",
    "np.linalg.qr(a)",
    "np.linalg.svd(a)",
]
# of one matrix
MATRIX = [
    "np.dot(a, a)",
    "np.dot(a, a[0])",
    "np.dot(a[0], a[0])",
    "scipy.linalg.cholesky(s)",
    "scipy.linalg.solve(s, a)",
    "scipy.linalg.solve_triangular(s, a)",
    "scipy.linalg.inv(a)",
    "scipy.linalg.det(a)",
    "scipy.linalg.lu_factor(a)",
    "scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), a)",
    "scipy.linalg.eigh(s)",
    "scipy.linalg.svd(a)",
    "scipy.linalg.qr(a)",
    "scipy.linalg.expm(a)",
    "scipy.linalg.pinv(a[:, :3])",
    "np.tensordot(a, a, 1)",
    "scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(a), a[:, :2])",
]


def outcome(call):
    """Return a result or an error, and the warnings with the files they are attributed to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:  # noqa: BLE001
            result = error
    return result, [(w.category, str(w.message), w.filename) for w in caught]


def compare(call):
    """Make a call plain and inside a block; return the two outcomes and the record."""
    want = outcome(call)
    with trnsci.drop_in(min_size=0) as seen:
        got = outcome(call)
    assert got[1] == want[1]
    assert type(got[0]) is type(want[0])
    return got[0], want[0], seen


# np.fft of NumPy before 2.4 and systems of SciPy before 1.17 return their results in another order
@pytest.mark.skipif(
    (np.lib.NumpyVersion(np.__version__) < "2.4.0") or (np.lib.NumpyVersion(scipy.__version__) < "1.17.0"),
    reason="the order of results in memory is that of NumPy 2.4 and SciPy 1.17",
)
@together(("form", "code"), [(f, c) for f in FORMS for c in (CALLS if "stack" in f else CALLS + MATRIX)])
def test_results_are_in_memory_as_the_librarys_own(form, code):
    a, s = FORMS[form](A), FORMS[form](S)
    got, want, seen = compare(lambda: eval(code, globals(), {"a": a, "s": s}))
    assert seen.substituted
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        assert type(ours) is type(theirs)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if isinstance(theirs, np.ndarray):
            assert ours.flags.owndata
            assert ours.flags.writeable
            assert (ours.flags.c_contiguous, ours.flags.f_contiguous) == (
                theirs.flags.c_contiguous,
                theirs.flags.f_contiguous,
            )


def test_scalars_and_arrays_are_used_as_numpys():
    with trnsci.drop_in(min_size=0) as seen:
        # an array without axes, which can be written to
        assert isinstance(np.tensordot(A, A), np.ndarray)
        energy, product, volume = np.einsum("ij,ij->", A, A), np.dot(A[0], A[0]), np.linalg.det(A)
        inverse = np.linalg.inv(A)
    for number in (energy, product, volume):
        assert isinstance(number, float)
        assert json.loads(json.dumps(number)) == number
        assert {number: 1}[float(number)] == 1
    before = energy
    energy += 1
    assert before != energy
    inverse.flags.writeable = False
    inverse.flags.writeable = True
    inverse.resize((4, 4))
    assert seen.substituted.total() >= 3


def test_views_of_numpys_are_views():
    a = A.copy()
    with trnsci.drop_in(min_size=0):
        np.einsum("ii->i", a)[:] = 7
        np.einsum("ij->ji", a)[0, 1] = 9
    assert (a.diagonal() == 7).all()
    assert a[1, 0] == 9


class Tagged(np.ndarray):
    """A subclass that changes nothing."""


class Duck:
    """Has a protocol of its own for every function of NumPy's."""

    def __array__(self, dtype=None, copy=None):
        return A

    def __array_function__(self, function, types, args, kwargs):
        return f"{function.__name__} of ducks"


OPERANDS = {
    "subclass": lambda: A.view(Tagged),
    "matrix": lambda: np.matrix(A),
    "masked": lambda: np.ma.masked_array(A, mask=A > 1),
    "duck": Duck,
    "float16": lambda: A.astype(np.float16),
    "object": lambda: A.astype(object),
    "long double": lambda: A.astype(np.longdouble),
    "big endian": lambda: A.astype(">f8"),
    "boolean": lambda: A > 0,
}
PACKAGES = {
    "pint": lambda pint: A * pint.UnitRegistry().m,
    "astropy.units": lambda units: A * units.m,
    "dask.array": lambda array: array.ones((8, 8), chunks=4),
    "sparse": lambda sparse: sparse.COO(np.eye(8)),
    "xarray": lambda xarray: xarray.DataArray(S),
    "pandas": lambda pandas: pandas.DataFrame(S),
}
FUNCTIONS = [
    lambda x: np.dot(x, x),
    lambda x: np.einsum("ij,jk->ik", x, x),
    lambda x: np.fft.fft(x),
    lambda x: np.linalg.inv(x),
    lambda x: np.linalg.solve(a=S, b=x),
    lambda x: scipy.linalg.inv(x),
    lambda x: scipy.linalg.solve(S, x),
    lambda x: scipy.fft.fft(x),
]


def left_alone(make, *, hands_on=False):
    """Compare outcomes; a package may hand plain arrays on to NumPy, and those calls are ours."""
    for function in FUNCTIONS:
        got, want, seen = compare(lambda function=function: function(make()))
        assert hands_on or not seen.substituted
        if isinstance(want, Exception):
            assert str(got) == str(want)
        else:
            assert repr(got) == repr(want)


@together("kind", OPERANDS)
def test_whatever_is_no_plain_array_goes_to_the_original(kind):
    left_alone(OPERANDS[kind])


@pytest.mark.parametrize("package", PACKAGES)
def test_arrays_of_other_packages_go_to_the_original(package):
    module = pytest.importorskip(
        package, reason=f"{package} is an array package of others, installed for release tests"
    )
    made = PACKAGES[package](module)
    left_alone(lambda: made, hands_on=True)


@together(
    "code",
    [
        "scipy.linalg.solve(scipy.linalg.hilbert(15), np.ones(15))",
        "scipy.linalg.inv(scipy.linalg.hilbert(15))",
        "scipy.linalg.lu_factor(np.zeros((3, 3)))",
        "np.fft.fftn(A, s=(4, 4))",
        "np.linalg.inv(np.zeros((2, 2)))",
        "np.linalg.solve(np.eye(3), np.ones(4))",
        "np.linalg.inv(np.full((3, 3), np.nan))",
        "np.linalg.det(1e10 * np.eye(400))",
        "np.dot(np.ones((2, 3)), np.ones((2, 3)))",
        "np.einsum('ij,jk->il', A, A)",
        "np.fft.fft(A, norm='none')",
        "np.fft.fft(A, n=0)",
        "np.linalg.inv(A, missing=1)",
        "np.dot(A)",
        "scipy.linalg.cholesky(-np.eye(3))",
        "scipy.linalg.inv(np.full((3, 3), np.nan))",
        "scipy.linalg.svd(A, lapack_driver='none')",
        "scipy.fft.fft(A, workers=0)",
        "np.linalg.norm(A, axis=0)",
        "np.linalg.norm(A[:3], axis=-1, keepdims=True)",
        "scipy.linalg.norm(A, axis=0)",
        "np.linalg.norm(A, keepdims=True)",
        "np.linalg.qr(A[:, :3], mode='full')",
        "np.linalg.qr(A[:, :3], mode='economic')",
        "np.linalg.qr(A[:, :3], mode='complete')",
        "scipy.linalg.qr(A[:, :3], mode='full')",
        "scipy.linalg.qr(A[:, :3], mode='reduced')",
    ],
)
def test_warnings_and_errors_are_the_originals(code):
    got, want, _ = compare(lambda: eval(code))
    if isinstance(want, Exception):
        assert str(got) == str(want)


def test_a_warning_points_at_the_line_that_caused_it():
    with trnsci.drop_in(min_size=0), pytest.warns(scipy.linalg.LinAlgWarning) as caught:
        scipy.linalg.solve(scipy.linalg.hilbert(15), np.ones(15))
    assert caught[0].filename == __file__


def test_overwriting_an_operand_is_the_originals_to_do():
    theirs, ours = np.asfortranarray(A), np.asfortranarray(A)
    want = scipy.linalg.lu_factor(theirs, overwrite_a=True)[0]
    with trnsci.drop_in(min_size=0):
        got = scipy.linalg.lu_factor(ours, overwrite_a=True)[0]
    assert np.shares_memory(got, ours) == np.shares_memory(want, theirs)
    assert (ours == theirs).all()


def test_functions_keep_their_names_and_their_documentation():
    with trnsci.drop_in():
        for path in ("numpy.dot", "scipy.linalg.solve"):
            module, _, name = path.rpartition(".")
            function = getattr(importlib.import_module(module), name)
            assert function.__name__ == name
            assert function.__doc__


class _Answers:
    """A backend of ``scipy.fft`` with an answer of its own."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method, args, kwargs):
        return method.__name__


def test_transforms_of_scipy_are_ours_wherever_they_were_imported():
    from scipy.fft import fft

    x = np.arange(8.0)
    with trnsci.drop_in(min_size=0) as seen:
        spectrum = fft(x)
    assert seen.substituted == {("scipy.fft.fft", "trnfft.fft"): 1}
    np.testing.assert_allclose(spectrum, np.fft.fft(x), rtol=1e-12)


def test_a_backend_that_the_program_sets_for_scipy_is_asked_first():
    with trnsci.drop_in(min_size=0) as seen, scipy.fft.set_backend(_Answers):
        assert scipy.fft.dct(np.ones(4)) == "dct"
    assert not seen.substituted


def test_norms_of_single_precision_are_as_exact_as_those_of_blas():
    # SciPy's test_stable: adding ones to 1e8 in single precision loses them
    x = np.array([1e4] + [1.0] * 10000, np.float32)
    with trnsci.drop_in(min_size=0) as seen:
        assert abs(scipy.linalg.norm(x) - 10000.5) < 1e-2
    assert ("scipy.linalg.norm", "trnblas.nrm2") in seen.substituted


def test_vectors_beyond_the_integers_of_lapack_are_refused_in_the_words_of_scipy():
    wide = np.lib.stride_tricks.as_strided(np.ones(1), (2, 50000), (0, 0))
    with trnsci.drop_in(min_size=0) as seen, pytest.raises(ValueError, match="integer overflow in LAPACK"):
        scipy.linalg.svd(wide)
    assert "more elements than LAPACK counts" in str(seen)


@together(
    "code",
    [
        # several results of a stack are a list, and right-hand sides of a stack are matrices
        "scipy.linalg.qr(np.stack([a, a]))",
        "scipy.linalg.svd(np.stack([a, a]))",
        "scipy.linalg.lu_factor(np.stack([a, a]))",
        "scipy.linalg.lu_solve(scipy.linalg.lu_factor(np.stack([a, a])), a[:2])",
        # of complex numbers SciPy reads no orthogonalize=, and keeps the memory order
        "scipy.fft.dct(np.asfortranarray(a + 1j), 3, orthogonalize=True)",
        "scipy.sparse.linalg.minres(scipy.sparse.csr_array(a + a.T + 1j * (a - a.T)), a[0] + 1j)",
        "scipy.linalg.inv(a[:0, :0])",
    ],
)
def test_scipys_own_ways_are_kept(code):
    def outcome():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                result = eval(code, globals(), {"a": A})
            except ValueError as error:
                return type(error), str(error)
        parts = result if isinstance(result, list | tuple) else [result]
        return type(result), len(said), *((np.shape(x), getattr(x, "strides", 0)) for x in parts)

    want = outcome()
    with trnsci.drop_in(min_size=0):
        assert outcome() == want
        if "dct" in code:
            got = eval(code, globals(), {"a": A})
    if "dct" in code:
        np.testing.assert_array_equal(got, eval(code, globals(), {"a": A}))


@together(
    "code",
    [
        "np.dot(x, x)",
        "np.dot(x[0], x[0])",
        "np.inner(x, x)",
        "np.tensordot(x, x, 1)",
        "np.einsum('ij,jk->ik', x, x, out=None)",
        "np.fft.fft(1e108 * x)",
        "np.linalg.norm(x)",
        "np.linalg.norm(x * 1e-300 * 1e-60)",
        "np.linalg.det(x * np.eye(8))",
        "multiply(x, x)",
        "multiply_in_place(x.copy(), x)",
    ],
)
def test_overflow_is_told_as_numpy_tells_it(code):
    names = {"x": np.full((8, 8), 1e200), "multiply": multiply, "multiply_in_place": multiply_in_place}

    def outcome():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = eval(code, globals(), names)
        try:
            with np.errstate(all="raise"):
                eval(code, globals(), names)
        except FloatingPointError as error:
            return repr(result), [str(each.message) for each in said], str(error)
        return repr(result), [str(each.message) for each in said], ""

    want = outcome()
    with trnsci.drop_in(min_size=0):
        assert outcome() == want
