"""Cost formulas against published measurements, and no instruction without a formula."""

import pytest

import trnsim.collectives
import trnsim.isa
import trnsim.language as nl
from tests.together import together
from tests.trnsim.timing.kernels import report_of, shaped
from trnsim import TARGETS
from trnsim.errors import TrnError
from trnsim.timing.compute import table_of
from trnsim.timing.costs import FORMULAS, Call, Cost, Layout, cost_of, itemsize
from trnsim.timing.dma import DMA_NAMES

TRN1, TRN2, TRN3 = (TARGETS[name] for name in ("trn1", "trn2", "trn3"))


def layout(n, dtype="float32", buffer="sbuf", rows=128, step=1):
    return Layout(buffer, dtype, (rows, n), (n * step, step))


def cost(name, engine, writes, reads, target=TRN2, **info):
    return cost_of(Call(name, engine, tuple(writes), tuple(reads), info), target)


# instruction, engine, destination, sources, options, measured latency and interval in ns (None: not published)
PSUM = layout(512, buffer="psum")
BF16 = [layout(128, "bfloat16"), layout(512, "bfloat16")]
SHORT = [layout(128, "bfloat16"), layout(128, "bfloat16")]
PROBES = [
    ("tensor_copy", "vector", layout(512), [layout(512, buffer="psum")], {}, 156 + 1.042 * 512, 75 + 1.042 * 512),
    ("tensor_copy", "vector", layout(512), [layout(512)], {}, 156 + 0.521 * 512, None),
    ("tensor_copy", "vector", layout(512, "bfloat16"), [layout(512, "bfloat16")], {}, 156 + 0.27 * 512, None),
    ("tensor_copy", "vector", layout(512), [layout(512, "bfloat16")], {}, 153 + 0.80 * 512, None),
    ("tensor_copy", "scalar", layout(512), [layout(512, buffer="psum")], {}, 158 + 0.833 * 512, 50 + 0.833 * 512),
    ("tensor_copy", "scalar", layout(512), [layout(512)], {}, 191 + 0.833 * 512, None),
    ("tensor_reduce", "vector", layout(1), [layout(512)], {}, 155 + 1.042 * 512, 68 + 1.042 * 512),
    ("tensor_reduce", "vector", layout(1), [layout(8)], {}, 155 + 1.042 * 8, 67 + 1.042 * 8),
    ("tensor_scalar", "vector", layout(512), [layout(512)], {}, 160 + 0.521 * 512, None),
    ("tensor_scalar", "vector", layout(512), [layout(512), layout(1)], {}, 214 + 0.521 * 512, 396),
    ("tensor_scalar", "vector", layout(512), [PSUM, layout(1)], {}, 216 + 1.042 * 512, 135 + 1.042 * 512),
    ("tensor_tensor", "vector", layout(512), [layout(512), layout(512)], {}, 159 + 1.042 * 512, None),
    ("tensor_tensor", "vector", layout(512, "bfloat16"), [layout(512, "bfloat16")] * 2, {}, 161 + 0.517 * 512, None),
    ("tensor_tensor_scan", "vector", layout(512), [layout(512), layout(512)], {}, 158 + 2.083 * 512, None),
    ("reciprocal", "vector", layout(64), [layout(64)], {}, 153 + 6.25 * 64, None),
    ("memset", "vector", layout(512), [], {}, 58 + 0.832 * 512, None),
    ("affine_select", "gpsimd", layout(512), [layout(512)], {}, 177 + 0.846 * 512, None),
    ("activation", "scalar", layout(512), [layout(512), layout(1)], {"op": "exp"}, 706, 612),
    ("activation", "scalar", layout(512), [layout(512, buffer="psum"), layout(1)], {"op": "exp"}, 686, 570),
    ("activation", "scalar", layout(512), [layout(512)], {"op": "copy"}, 202 + 0.834 * 512, None),
    ("activation", "scalar", layout(512), [layout(512), layout(1)], {"op": "identity"}, 293 + 0.834 * 512, None),
    ("nc_matmul", "tensor", PSUM, BF16, {}, 379, 216),
    ("nc_matmul", "tensor", layout(128, buffer="psum"), SHORT, {}, 219, 56),
    ("nc_matmul", "tensor", layout(512, buffer="psum"), [layout(128), layout(512)], {}, 2 * 429 + 165, 2 * 429),
    ("nc_matmul", "tensor", layout(128, buffer="psum"), [layout(128), layout(128)], {"is_transpose": True}, 272, 109),
]  # fmt: skip


@together("probe", PROBES)
def test_trn2_laws_are_within_four_percent_of_published_measurements(probe):
    name, engine, write, reads, info, latency, interval = probe
    made = cost(name, engine, [write], reads, **info)
    assert made.done == pytest.approx(latency, rel=0.04)
    if interval is not None:
        assert made.busy == pytest.approx(interval, rel=0.05)


def test_trn1_laws_match_the_performance_guides_figures():
    long = cost("tensor_tensor", "vector", [layout(8192)], [layout(8192)] * 2, TRN1)
    assert long.done == pytest.approx(14968, rel=0.03)
    short = cost("activation", "scalar", [layout(1)], [layout(1)], TRN1, op="identity")
    assert short.done + TRN1.timing.semaphore == pytest.approx(189, rel=0.05)


def test_every_instruction_of_the_reference_has_a_law():
    for module in (trnsim.isa, trnsim.collectives):
        names = [n for n, v in vars(module).items() if getattr(v, "__nki_instruction__", False)]
        assert names
        missing = [n for n in names if n not in FORMULAS and n not in DMA_NAMES]
        assert missing == []


# of one or two tiles, these say something about them, or make room: no engine works
_NO_WORK = {"ds", "empty_like", "num_programs", "program_id"}


def _works(function, count):
    """Instructions of a language function of ``count`` tiles beyond their loads; ``None`` where it takes none."""

    def kernel(x_hbm):
        y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)
        function(*(nl.load(x_hbm) for _ in range(count)))
        return y_hbm

    try:
        report = report_of(kernel, shaped(128, 128))
    except (TrnError, TypeError):
        return None
    assert report.uncosted == {}
    return report.instruction_count - count


@pytest.mark.filterwarnings("ignore")
def test_every_language_function_that_computes_takes_time():
    took = {}
    for name, function in vars(nl).items():
        if callable(function) and not isinstance(function, type) and not name.startswith("_"):
            works = [made for made in (_works(function, count) for count in (1, 2)) if made is not None]
            if works:
                took[name] = max(works)
    assert len(took) > 50
    assert {name for name, work in took.items() if not work} == _NO_WORK


def test_an_unknown_instruction_is_named_not_free():
    assert cost("frobnicate", "vector", [layout(8)], []) == Cost("vector", 0.0, 0.0, "nothing")


def test_faster_dtypes_and_modes_of_the_tensor_engine():
    def interval(a, b, target=TRN2, **info):
        return cost("nc_matmul", "tensor", [layout(512, buffer="psum")], [a, b], target, **info).busy

    bf16 = interval(layout(128, "bfloat16"), layout(512, "bfloat16"))
    assert interval(layout(128), layout(512)) == pytest.approx(4 * bf16, rel=0.02)
    pairs = interval(layout(256, "float8_e4m3"), layout(1024, "float8_e4m3"), perf_mode="double_row")
    assert pairs == pytest.approx(bf16)
    assert (
        cost(
            "nc_matmul",
            "tensor",
            [layout(512, buffer="psum")],
            [layout(256, "float8_e4m3"), layout(1024, "float8_e4m3")],
            perf_mode="double_row",
        ).flops
        == 2 * 256 * 128 * 512
    )
    assert interval(layout(128, "bfloat16"), layout(1, "bfloat16")) == pytest.approx(64 / 2.4 + 3)
    assert interval(layout(128, "bfloat16"), layout(128, "bfloat16", step=64)) == pytest.approx(2 * 128 / 2.4 + 3)


def test_strided_operands_halve_the_rate():
    near = cost("tensor_reduce", "vector", [layout(1)], [layout(512)], TRN1)
    far = cost("tensor_reduce", "vector", [layout(1)], [layout(512, step=8)], TRN1)
    assert far.busy - TRN1.timing.vector_issue == pytest.approx(2 * (near.busy - TRN1.timing.vector_issue))
    assert cost("tensor_reduce", "vector", [layout(1)], [layout(512, step=8)]).busy == pytest.approx(
        cost("tensor_reduce", "vector", [layout(1)], [layout(512)]).busy
    )


def test_trn3_scalar_engine_doubles_for_sixteen_bits():
    half, full = (
        cost("tensor_copy", "scalar", [layout(4096, d)], [layout(4096, d)], TRN3).busy for d in ("bfloat16", "float32")
    )
    assert full - TRN3.timing.scalar_issue == pytest.approx(2 * (half - TRN3.timing.scalar_issue))


def test_left_open_trn1_copies_on_the_scalar_engine_and_trn2_on_the_vector_engine():
    made = {
        t.name: cost("tensor_copy", "vector", [layout(8)], [layout(8)], t, free=True).engine for t in (TRN1, TRN2, TRN3)
    }
    assert made == {"trn1": "scalar", "trn2": "vector", "trn3": "vector"}
    assert cost("tensor_copy", "vector", [layout(8)], [layout(8)], TRN1, free=False).engine == "vector"


def test_trn1_moves_to_the_scalar_engine_only_what_an_activation_computes():
    def where(op0, op1, dtype="float32", engine="vector"):
        made = cost("tensor_scalar", engine, [layout(8, dtype)], [layout(8, dtype)], TRN1, free=True, op0=op0, op1=op1)
        return made.engine

    for ops in (("multiply", None), ("add", None), ("multiply", "add"), ("multiply", "subtract")):
        assert where(*ops) == "scalar"
        # it computes in fp32, which does not hold every 32-bit integer
        assert where(*ops, "int32") == "vector"
    for ops in (("bitwise_and", None), ("logical_shift_left", "bitwise_or"), ("greater", None), ("add", "multiply")):
        assert where(*ops) == "vector"
    assert where("rsqrt", None, engine="gpsimd") == "gpsimd"
    bits = cost("tensor_copy", "vector", [layout(8, "uint32")], [layout(8, "uint32")], TRN1, free=True)
    assert bits.engine == "vector"


def test_tables_group_as_published_profiles_show_them():
    assert table_of("copy") is table_of("square") is table_of("relu") is None
    assert table_of("sqrt") == table_of("rsqrt") != table_of("exp")
    assert table_of("gelu") == "gelu"


def test_collectives_grow_with_ranks_and_bytes():
    def took(ranks, n):
        return cost("all_reduce", "cc", [layout(n)], [layout(n)], ranks=ranks).done

    assert took(2, 512) < took(8, 512) < took(16, 512)
    assert took(8, 512) < took(8, 65536)


@together(
    ("dtype", "size"),
    [("float32", 4), ("bfloat16", 2), ("float8_e4m3", 1), ("float8_e5m2_x4", 4), ("float4_e2m1fn_x4", 2), ("uint8", 1)],
)
def test_item_sizes(dtype, size):
    assert itemsize(dtype) == size
