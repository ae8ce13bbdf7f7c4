"""Run-time addresses in compute instructions, and names NKI has retired."""

import numpy as np
import pytest

from tests.trnsim.kernels import refused, rng, run
from trnsim import isa, language
from trnsim.errors import (
    HardwareLimit,
    WrongArgument,
    WrongBuffer,
    WrongEngine,
)
from trnsim.isa.enums import engine

F32, I32, U8 = np.dtype("f4"), np.dtype("i4"), np.dtype("u1")


# retired names


@pytest.mark.parametrize("name", ["tensor", "vector", "scalar", "gpsimd", "unknown"])
def test_engine_constants_warn_and_work(name):
    with pytest.warns(DeprecationWarning, match=f"engine.{name}"):
        assert getattr(isa, f"{name}_engine") is engine[name]


def test_other_names_are_missing_as_usual():
    with pytest.raises(AttributeError, match="warp_engine"):
        isa.warp_engine  # noqa: B018


@pytest.mark.parametrize("operand", ["src", "dst"])
def test_dynamic_copies_are_gone(operand):
    with pytest.raises(AttributeError, match=rf"use tensor_copy with {operand}=tile.ap\(…, scalar_offset=…\)"):
        getattr(isa, f"tensor_copy_dynamic_{operand}")


# tensor indirection (trn3)


def test_copy_gathers_and_scatters_columns_on_trn3():
    x = rng().normal(size=(32, 8)).astype(F32)
    # column k of a group of 16 partitions is named by partition k % 16, column k // 16 of the index
    index = np.zeros((32, 1), np.uint16)
    picks = [5, 2, 7, 0]
    index[0:4, 0] = index[16:20, 0] = picks

    def body(a, i, b, c):
        isa.tensor_copy(dst=b, src=a.indirect(i, num_elem=4))
        isa.memset(c, 0)
        isa.tensor_copy(dst=c.indirect(i, num_elem=4), src=b)

    gathered, scattered = run(body, x, index, out=[((32, 4), F32), ((32, 8), F32)], target="trn3")
    np.testing.assert_array_equal(gathered, x[:, picks])
    expected = np.zeros((32, 8), F32)
    expected[:, picks] = x[:, picks]
    np.testing.assert_array_equal(scattered, expected)


def test_predicated_copy_scatters_only_what_it_chooses():
    x = rng().normal(size=(32, 4)).astype(F32)
    index = np.zeros((32, 1), np.uint16)
    picks = [5, 2, 7, 0]
    index[0:4, 0] = index[16:20, 0] = picks
    mask = rng(1).integers(0, 2, (32, 4)).astype(U8)

    def body(a, i, m, c):
        isa.memset(c, 0)
        isa.tensor_copy_predicated(dst=c.indirect(i, num_elem=4), src=a, predicate=m)

    made = run(body, x, index, mask, out=[((32, 8), F32)], target="trn3")
    expected = np.zeros((32, 8), F32)
    expected[:, picks] = np.where(mask, x, 0)
    np.testing.assert_array_equal(made, expected)


def test_indirection_refuses():
    x = np.ones((32, 8), F32)
    index = np.zeros((32, 1), np.uint16)
    out = [((32, 4), F32)]

    def gather(engine_name):
        return lambda a, i, b: isa.tensor_copy(dst=b, src=a.indirect(i, num_elem=4), engine=engine_name)

    refused(WrongEngine, "generation", gather("vector"), x, index, out=out, says="trn2")
    refused(WrongEngine, "engine", gather("gpsimd"), x, index, out=out, target="trn3")
    mask = np.ones((32, 4), U8)
    refused(
        WrongArgument,
        "indirect-operand",
        lambda a, i, m, b: (
            isa.memset(b, 0),
            isa.tensor_copy_predicated(dst=b, src=a.indirect(i, num_elem=4), predicate=m),
        ),
        x,
        index,
        mask,
        out=out,
        target="trn3",
        says="src",
    )

    def scatter(a, i, b):
        isa.memset(b, 0)
        isa.tensor_copy(dst=b.indirect(i, num_elem=8), src=a, engine=engine.scalar)

    refused(WrongBuffer, "indirect-scalar-psum", scatter, x, index, out=[((32, 8), F32, language.psum)], target="trn3")


def test_indirect_operands_placed_by_hand_share_a_first_partition():
    def body(b):
        data = language.ndarray((32, 8), F32, address=(32, 0))
        index = language.ndarray((32, 1), np.dtype("u2"), address=(64, 64))
        isa.memset(data, 0)
        isa.memset(index, 0)
        isa.tensor_copy(dst=b, src=data.indirect(index, num_elem=4))

    error = refused(HardwareLimit, "indirect-start", body, out=[((32, 4), F32)], target="trn3")
    assert (error.got, error.limit) == (32, 64)
