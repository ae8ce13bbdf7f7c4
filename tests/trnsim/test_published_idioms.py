"""Idioms of published kernels that once were refused, and near ones that must stay refused."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from tests.together import together
from tests.trnsim.kernels import refused, rng, run
from trnsim import isa, language
from trnsim.errors import HardwareLimit, OutOfBounds, WrongArgument, WrongCall, WrongDtype
from trnsim.language import psum, sbuf, shared_hbm

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype("f4")


def simulated(kernel, *arrays, target="trn2", **options):
    return trnsim.simulate(kernel, target=target, **options)(*arrays)


# ranges as indices


def test_a_range_indexes_like_the_slice_it_is():
    def kernel(a):
        out = language.ndarray((8, 3), dtype=a.dtype, buffer=shared_hbm)
        rows, columns = range(2, 10), range(0, 6, 2)
        tile = language.load(a[rows, columns])
        language.store(out[range(8), range(3)], tile)
        return out

    a = rng().standard_normal((12, 7), dtype=F32)
    np.testing.assert_array_equal(simulated(kernel, a), a[2:10, 0:6:2])


@pytest.mark.parametrize(
    ("index", "error", "rule"),
    [(range(13), OutOfBounds, "bounds"), (range(4, -1, -1), WrongArgument, "view"), ([0, 1], WrongArgument, "index")],
    ids=["too long", "backwards", "list"],
)
def test_other_indices_stay_refused(index, error, rule):
    def kernel(a):
        return language.load(a[index])

    with pytest.raises(error) as caught:
        simulated(kernel, np.zeros((12, 7), F32), lint="off")
    assert caught.value.rule == rule
    assert ".py:" in caught.value.line


# a transpose that widens


@pytest.mark.parametrize("engine", ["unknown", "tensor"])
def test_the_tensor_engine_of_trn1_may_widen_what_it_transposes(engine):
    values = rng().standard_normal((64, 96), dtype=F32).astype(BF16)

    def body(a, b):
        isa.nc_transpose(dst=b, data=a, engine=engine)

    made = run(body, values, out=[((96, 64), F32, psum)], target="trn1")
    np.testing.assert_array_equal(made, values.T.astype(F32))


@pytest.mark.parametrize(
    ("target", "kept", "wide", "memory"),
    [
        ("trn2", BF16, F32, psum),
        ("trn3", BF16, F32, psum),
        ("trn1", F32, BF16, psum),
        ("trn1", np.dtype("i2"), F32, psum),
        ("trn1", BF16, F32, sbuf),
    ],
    ids=["trn2", "trn3", "narrower", "integers", "Vector Engine"],
)
def test_other_transposes_keep_the_dtype(target, kept, wide, memory):
    error = refused(
        WrongDtype,
        "transpose-dtype",
        lambda a, b: isa.nc_transpose(dst=b, data=a),
        np.zeros((32, 32), kept),
        out=[((32, 32), wide, memory)],
        target=target,
        says=("keeps the dtype", str(kept), str(wide)),
    )
    assert (error.got, error.limit) == (str(wide), str(kept))


# raise in a helper


def guarded(a):
    if a.shape[0] > 128:
        raise ValueError(f"{a.shape[0]} rows")
    return language.load(a)


def guarding(a):
    out = language.ndarray(a.shape, dtype=a.dtype, buffer=shared_hbm)
    language.store(out, guarded(a))
    return out


def test_raise_is_a_warning_and_still_raises():
    report = trnsim.lint(guarding, nki="0.6")
    assert not report.errors
    assert not trnsim.lint(guarding)
    assert [f.rule for f in report.warnings] == ["raise"]
    a = rng().standard_normal((128, 4), dtype=F32)
    np.testing.assert_array_equal(simulated(guarding, a), a)
    with pytest.raises(ValueError, match="129 rows"):
        simulated(guarding, np.zeros((129, 4), F32))


# values of the device in Python


@together(
    "compute", [lambda i: i + 1, lambda i: 2 * i, lambda i: -i, lambda i: i < 3, lambda i: i == 2, lambda i: i != 2]
)
def test_python_cannot_compute_with_a_register(compute):
    def kernel(a):
        compute(isa.register_alloc(2))
        return a

    with pytest.raises(WrongArgument, match="exists on the device only") as caught:
        simulated(kernel, np.zeros((4, 4), F32), lint="off")
    assert caught.value.rule == "register-expression"
    assert "register_store" in caught.value.hint


def test_a_register_may_be_compared_with_nothing_and_itself():
    seen = []

    def kernel(a):
        i, j = isa.register_alloc(2), isa.scalar_load(language.load(a))
        seen.extend([i == None, i != None, i == i, j == None, j != None])  # noqa: E711
        return a

    simulated(kernel, np.zeros((1, 1), np.int32), lint="off")
    assert seen == [False, True, True, False, True]


@together("compute", [lambda t: t + t, lambda t: 2.0 * t, lambda t: t @ t, lambda t: t > 0, abs])
def test_python_cannot_compute_with_a_tensor(compute):
    def kernel(a):
        compute(language.load(a))
        return a

    with pytest.raises(WrongArgument, match="exist on the device only") as caught:
        simulated(kernel, np.ones((4, 4), F32), lint="off")
    assert caught.value.rule == "tensor-operator"
    assert "nl.add" in caught.value.hint
    assert ".py:" in caught.value.line


def test_the_truth_value_of_an_argument_says_that_there_is_one():
    class Params(language.NKIObject):
        index: object = None

    def kernel(a, bias=None, params=None):
        out = language.ndarray(a.shape, a.dtype, buffer=language.shared_hbm)
        tile = language.load(a)
        if bias:
            isa.tensor_scalar(dst=tile, data=tile, op0=language.add, operand0=1.0)
        if params.index:
            isa.tensor_scalar(dst=tile, data=tile, op0=language.add, operand0=10.0)
        language.store(out, tile)
        return out

    zeros = np.zeros((4, 4), F32)
    for bias, index, expected in ((None, None, 0), (zeros, None, 1), (None, zeros, 10), (zeros, zeros, 11)):
        assert (simulated(kernel, zeros, bias, Params(index)) == expected).all()


# access patterns


def test_memset_has_four_strides_too():
    def body(b):
        isa.memset(b[:, 0:2, 0:2, 0:2, 0:2, 0:1], 1)
        isa.memset(b[:, 0:2, 0:2, 0:2, 0:2, 0:2], 1)

    error = refused(
        HardwareLimit, "access-pattern", body, out=[((1, 3, 3, 3, 3, 3), F32)], says=("5 strides", "at most 4")
    )
    assert (error.got, error.limit, error.instruction) == (5, 4, "memset")


# calls


def test_a_wrong_call_is_answered_with_the_signature():
    error = refused(
        WrongCall,
        "signature",
        lambda b: isa.tensor_copy(dst=b, src=b, dtype=F32),
        out=[((4, 4), F32)],
        says="dtype",
    )
    assert error.hint == "tensor_copy(dst, src, engine=engine.unknown, name=None)"


def test_an_argument_of_no_trainium_dtype_names_kernel_and_target():
    def kernel(a):
        return a

    with pytest.raises(WrongDtype) as caught:
        simulated(kernel, np.zeros((4, 4), np.int64), target="trn1", lint="off", nki="0.6")
    assert (caught.value.kernel, caught.value.target) == ("kernel", "trn1")


@pytest.mark.parametrize(
    ("address", "error", "hint"),
    [
        ((0, 6), HardwareLimit, "The next that is one is 8"),
        ((0, 229_364), OutOfBounds, "16 bytes start at 212712 or before"),
        ((100, 0), OutOfBounds, "32 partitions start at 96 or before"),
    ],
    ids=["alignment", "bytes", "partitions"],
)
def test_a_wrong_address_is_answered_with_a_right_one(address, error, hint):
    def kernel(a):
        language.ndarray((32, 4), dtype=language.float32, buffer=sbuf, address=address)
        return a

    with pytest.raises(error) as caught:
        simulated(kernel, np.zeros((4, 4), F32), lint="off")
    assert hint in str(caught.value)
    assert ".py:" in caught.value.line


def test_the_compilers_early_name_of_trn3_is_known(monkeypatch):
    seen = []

    def kernel(a):
        seen.append(isa.get_nc_version())
        return a

    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3pre")
    trnsim.simulate(kernel, lint="off")(np.zeros((4, 4), F32))
    assert seen == [isa.nc_version.gen4]
