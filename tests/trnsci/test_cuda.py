"""Implementations named ``cuda``: each against its op's definition, what they refuse and why, and what plans say."""

import importlib
import json
import math

import pytest
import torch

import trnblas
import trnrand
import trnsci
import trnsparse
import trntensor
from trnblas.gemm import Gemm
from trnblas.mp2 import Mp2
from trnblas.split import exact_matmul
from trnrand.binomial import Binomial
from trnrand.bits import Bits
from trnrand.gamma import Gamma
from trnrand.inverse import FORMULAS, Inverse
from trnrand.normal import Normal
from trnrand.poisson import Poisson
from trnrand.randint import Randint
from trnrand.request import substream
from trnrand.segment import Segment
from trnrand.sketch import Sketch
from trnrand.stream import Stream
from trnrand.uniform import Uniform
from trnsci import cuda
from trnsci.ops import all_ops, definition
from trnsci.specs import TensorSpec, freeze
from trnsci.testing import gaussian
from trnsolver.dense.lstsq import LstsqCall
from trnsparse.attention import Attention
from trnsparse.bsr_spmm import BsrSpmm
from trnsparse.sddmm import Sddmm
from trnsparse.spmm import Spmm
from trntensor.fuse import Fuse
from trntensor.mp2_energy import Between, Within, mp2_blocks

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
F32, F64 = torch.float32, torch.float64


def _streams():
    # carries through all words of the counter, keys with their upper bits set, and positions inside a block
    for engine in ("philox4x32", "threefry4x32"):
        for base, key in ((0, 5), ((1 << 96) - 7, (1 << 64) - 123), ((1 << 128) - 3, 99)):
            yield Stream(key, engine, base)


def _draws(device):
    for stream in _streams():
        for first, count in ((0, 9001), (5, 1000), (3, 1)):
            four, two = Segment.of(stream, first, count), Segment.of(stream, first, count, 2)
            own = Segment.of(substream(stream, 0, 0), first, count, 1)
            yield Bits(four, torch.uint32, device)
            yield from (Uniform(four, F32, device), Uniform(two, F64, device))
            yield from (Normal(four, F32, device), Normal(two, F64, device))
            for shape in (torch.tensor([2.5], dtype=F64), torch.linspace(0.1, 30, count, dtype=F64)):
                yield Gamma([shape.to(device)], own)
            for rate in (torch.tensor([4.0], dtype=F64), torch.logspace(-3, 9, count, dtype=F64)):
                yield Poisson([rate.to(device)], own)
            trials, chances = 3 * torch.arange(count, dtype=F64), torch.linspace(0, 1, count, dtype=F64)
            yield Binomial([trials.to(device), chances.to(device)], own)
            yield Binomial([trials[-1:].to(device), torch.tensor([0.4], dtype=F64, device=device)], own, 3)
            other = Segment.of(substream(stream, 0, 0), first - four.skip, four.skip + count, 1)
            for low, last in ((0, 5), (-3, (1 << 31) + 5), (-(1 << 63), (1 << 63) - 1), (-10, (1 << 62) + 12345)):
                yield Randint(four, other, low, last, device)
    for name in FORMULAS:
        parameters = {"exponential": (2.5,), "geometric": (-0.4,), "bernoulli": (0.3,)}.get(name, (1.7, 0.3))
        kinds = {"geometric": (torch.int64, F64), "bernoulli": (torch.bool, F32)}.get(name, (F32, F64))
        for dtype in kinds:
            yield Inverse(name, parameters, two, dtype, device)


@pytest.mark.cuda
def test_streams_have_the_bits_of_the_host():
    for there, here in zip(_draws(GPU), _draws(CPU), strict=True):
        assert definition(there).decide(there).implementation == "cuda"
        made, expected = there.cuda().cpu(), here.host()
        # torch compares no uint32 on every device
        assert made.dtype == expected.dtype
        assert made.numpy().tobytes() == expected.numpy().tobytes(), there


@pytest.mark.cuda
def test_chunks_and_devices_do_not_change_a_stream():
    whole = trnrand.Generator(3).normal(10_007, device="cuda")
    parts, generator = [], trnrand.Generator(3)
    for size in (1, 4096, 13, 5897):
        parts.append(generator.normal(size, device="cuda"))
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(whole.cpu(), trnrand.Generator(3).normal(10_007))
    out = torch.empty(10_007, device="cuda")
    assert torch.equal(trnrand.Generator(3).normal(10_007, out=out), whole)


def _pairs(dtype, device):
    B = gaussian((7, 37, 20), 1, dtype).to(device)
    return (
        B,
        -torch.linspace(0.5, 2.0, 7, dtype=dtype, device=device),
        torch.linspace(0.1, 3.0, 37, dtype=dtype, device=device),
    )


def _attention(mask, dtype, device, *, queries=300, heads=(4, 2), depth=64):
    q = gaussian((1, heads[0], queries, depth), 1).to(device, dtype)
    k, v = (gaussian((1, heads[1], 300, depth), seed).to(device, dtype) for seed in (2, 3))
    bound = mask.bind(queries, 300)
    return Attention(q, k, v, *bound.patterns[0].on(device), 0.1, bound.rule)


def _products(device):
    a, b = gaussian((1024, 1024), 1, F64).to(device), gaussian((1024, 1032), 2, F64).to(device)
    yield Gemm(a, b, None, 1.0, 0.0, "compensated", 0.0), 2.0**-52
    yield Gemm(a * 1e200, b, a @ b, 2.0, 0.5, "compensated", 0.0), 2.0**-52
    yield Gemm(a.float(), b.float(), None, 1.0, 0.0, "fast", 0.0), 2.0**-18
    yield Gemm(a.float(), b.float(), None, -0.5, 0.0, "fast", 0.0, b[0].float(), "relu"), 2.0**-18


def _sparse(device):
    dense = gaussian((200, 300), 4) * (gaussian((200, 300), 5) > 1.0)
    for dtype in (F32, F64, torch.complex128):
        m = trnsparse.CSRMatrix.from_dense(dense.to(dtype)).to(device)
        for trans in (False, True):
            for shape in ((200 if trans else 300,), (200 if trans else 300, 7)):
                yield Spmm(m.indptr, m.indices, m.values, gaussian(shape, 6).to(device, dtype), 300, trans), 1e-5
        rows, columns = gaussian((200, 17), 8).to(device, dtype), gaussian((300, 17), 9).to(device, dtype)
        yield Sddmm(m.indptr, m.indices, rows, columns), 1e-5
    for block, columns in (((32, 32), 20), ((16, 48), 7), ((128, 128), 70)):
        m = trnsparse.CSRMatrix.from_dense(dense).to_bsr(block).to(device)
        for dtype, tolerance in ((F32, 1e-5), (torch.bfloat16, 2.0**-7)):
            b = gaussian((300, columns), 7).to(device, dtype)
            yield BsrSpmm(m.indptr, m.indices, m.values.to(dtype), b, 200), tolerance


def _rest(device):
    for dtype, tolerance in ((F32, 1e-5), (F64, 1e-13)):
        sketched = Segment.of(Stream(5), 3, 50 * 12, 2 if dtype == F64 else 4)
        yield Sketch(gaussian((50, 9), 3, dtype).to(device), sketched, 12), tolerance
        B, occ, vir = _pairs(dtype, device)
        yield Within(B, occ, vir), tolerance
        t = torch.einsum("iap,jbp->iajb", B[2:5], B).reshape(3 * 37, 7 * 37)
        for symmetric in (False, True):
            yield Mp2(t, occ[2:5], occ, vir, symmetric, 2, 1e-7), tolerance
        yield Between(B[:3], B, occ[:3], occ, vir), tolerance
        yield Between(B[:3], B, occ[:3], occ, vir, vir + 0.5), tolerance
        program = trntensor.fuse("bik,bkj->bij", epilogue=lambda t, d: t * t / d, extras=("j",))
        code = json.dumps([list(instruction) for instruction in program.code])
        for keep in ("bmn", "bm", "bn", "b", ""):
            a, b = gaussian((3, 10, 4), 1, dtype).to(device), gaussian((3, 4, 6), 2, dtype).to(device)
            yield Fuse(a, b, [torch.linspace(1, 2, 6, dtype=dtype, device=device).view(1, 1, 6)], code, keep), tolerance
        for m, n, k in ((32, 32, 8), (50, 7, 3)):
            a, b = gaussian((20, m, n), 1, dtype).to(device), gaussian((20, m, k), 2, dtype).to(device)
            a[3, :, 1] = a[3, :, 0]
            yield LstsqCall(a, b, 1e-13 if dtype == F64 else 1e-5, "gelsy"), 1e4 * tolerance


def _masks():
    ids = torch.arange(300) // 70
    kept = gaussian((300, 300), 9) > 0.5
    window = trnsparse.causal() & trnsparse.window(50)
    return {
        "full": trnsparse.full(),
        "causal": trnsparse.causal(),
        "window": window,
        "sink": window | trnsparse.sink(4),
        "documents": trnsparse.documents(ids) & trnsparse.causal(),
        "lonely": trnsparse.causal(-3),
        "dense": importlib.import_module("trnsparse.masks").from_dense(kept),
    }


def _close(made, expected, tolerance):
    made, expected = ((x,) if isinstance(x, torch.Tensor) else x for x in (made, expected))
    for x, y in zip(made, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        scale = float(y.abs().max()) if y.numel() else 1.0
        # NaN passes no comparison
        assert not y.numel() or float((x - y).abs().max()) <= tolerance * max(scale, 1e-300)


@pytest.mark.cuda
@pytest.mark.parametrize("calls", [_products, _sparse, _rest], ids=lambda f: f.__name__.strip("_"))
def test_results_are_those_of_the_definition(calls):
    for call, tolerance in calls(GPU):
        assert definition(call).decide(call).implementation == "cuda", definition(call).verdicts(call)
        _close(call.cuda(), call.pytorch(), tolerance)


@pytest.mark.cuda
def test_compensated_products_are_rounded_once():
    a = gaussian((1024, 512), 1, F64).cuda()
    b = gaussian((512, 1024), 2, F64).cuda()
    # half of every sum cancels the other, up to the last bits of float64
    left, right = torch.cat([a, a], 1), torch.cat([b, -b + 2.0**-40 * b.flip(0)], 0)
    made = trnblas.gemm(1.0, left, right, precision="compensated")
    assert definition(Gemm).decide(Gemm(left, right, None, 1.0, 0.0, "compensated", 0.0)).implementation == "cuda"
    expected = exact_matmul(left.cpu(), right.cpu())
    sizes = left.cpu().abs() @ right.cpu().abs()
    bound = 2.0**-53 * expected.abs() + (left.shape[1] * 2.0**-53) ** 2 * sizes
    assert bool(((made.cpu() - expected).abs() <= bound).all())
    # float64 alone is nowhere near
    assert float(((left @ right).cpu() - expected).abs().max()) > 100 * float(bound.max())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, F32], ids=str)
@pytest.mark.parametrize("name", list(_masks()))
def test_attention_keeps_what_the_mask_keeps(name, dtype):
    call = _attention(_masks()[name], dtype, GPU)
    assert definition(call).decide(call).implementation == "cuda", definition(call).verdicts(call)
    out, lse = call.cuda()
    wide = call._replace(q=call.q.double(), k=call.k.double(), v=call.v.double())
    expected, sums = wide.pytorch()
    scores = float((call.q.double() * 0.1).norm(dim=-1).max() * call.k.double().norm(dim=-1).max())
    unit = 2.0**-24 if dtype == F32 else 2.0**-8
    bound = (1 + 2 * scores) * float(call.v.abs().max()) * (2 * 64 + 2 * 300 + 8) * 2.0**-24 + 3 * unit * float(
        call.v.abs().max()
    )
    assert float((out.double() - expected).abs().max()) <= bound
    finite = sums.isfinite()
    assert torch.equal(lse.isfinite(), finite)
    assert float((lse.double() - sums)[finite].abs().max()) <= 1e-2 if dtype != F32 else 1e-4


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["causal", "window"])
def test_gradients_of_attention_are_those_of_the_definition(name):
    call = _attention(_masks()[name], torch.bfloat16, GPU, heads=(2, 2))
    inputs = [x.clone().requires_grad_() for x in call[:3]]
    ours = trnsci.ops.run(call._replace(q=inputs[0], k=inputs[1], v=inputs[2]))[0]
    wide = [x.double().detach().requires_grad_() for x in call[:3]]
    theirs = call._replace(q=wide[0], k=wide[1], v=wide[2]).pytorch()[0]
    seed = torch.ones_like(ours)
    for x, y in zip(
        torch.autograd.grad(ours, inputs, seed), torch.autograd.grad(theirs, wide, seed.double()), strict=True
    ):
        assert float((x.double() - y).abs().max()) <= 0.03 * float(y.abs().max())


@pytest.mark.cuda
def test_gradients_flow_through_kernels():
    a, b = gaussian((64, 48), 1).cuda().requires_grad_(), gaussian((48, 40), 2).cuda().requires_grad_()
    trnblas.gemm(1.0, a, b, precision="fast").sum().backward()
    assert float((a.grad - b.detach().sum(1)).abs().max()) < 0.2
    B, occ, vir = (x.requires_grad_() for x in _pairs(F64, GPU))
    wanted = torch.autograd.grad(trntensor.mp2_energy(B, occ, vir), (B, occ, vir))
    host = [x.detach().cpu().requires_grad_() for x in (B, occ, vir)]
    for x, y in zip(wanted, torch.autograd.grad(trntensor.mp2_energy(*host), host), strict=True):
        assert torch.allclose(x.cpu(), y, rtol=1e-9, atol=1e-12)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_energies_without_a_gap_are_no_number_on_a_gpu(dtype):
    B, occ, vir = _pairs(dtype, GPU)
    lone = vir.clone()
    lone[-1] = occ.max()
    for some, others in ((vir[:7], vir), (occ, lone), (occ, torch.where(vir == vir[3], math.nan, vir))):
        made = trntensor.mp2_energy(B, some, others, parts=True)
        assert all(math.isnan(x) for x in made)
    with pytest.raises(trnsci.ArgumentError, match="below the lowest of eps_vir"):
        Within(B, vir[:7], vir).pytorch()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_pair_energies_keep_the_memory_they_state(dtype):
    B = gaussian((24, 160, 200), 1, dtype).cuda()
    occ, vir = -torch.linspace(0.5, 2.0, 24, dtype=dtype).cuda(), torch.linspace(0.1, 3.0, 160, dtype=dtype).cuda()
    stated = trnsci.plan(trntensor.mp2_energy, B, occ, vir).peak_bytes
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated() - B.nbytes - occ.nbytes - vir.nbytes
    torch.cuda.reset_peak_memory_stats()
    trntensor.mp2_energy(B, occ, vir)
    torch.cuda.synchronize()
    used = torch.cuda.max_memory_allocated() - before
    assert used <= stated
    # and it is no idle bound
    assert stated <= 1.5 * used + (64 << 20)


@pytest.mark.cuda
def test_integrals_that_do_not_fit_are_brought_within_the_memory_given():
    B = gaussian((40, 96, 160), 1, F64)
    occ, vir = -torch.linspace(0.5, 2.0, 40, dtype=F64), torch.linspace(0.1, 3.0, 96, dtype=F64)
    # what cuBLAS takes for itself and a few blocks
    memory = 60 << 20
    chosen = mp2_blocks(*B.shape, dtype=F64, device=GPU, memory=memory)
    assert chosen.rows < 40
    assert chosen.peak_bytes <= memory
    expected = trntensor.mp2_energy(B, occ, vir)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    made = trntensor.mp2_energy(B, occ, vir, device="cuda", memory=memory)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= chosen.peak_bytes
    assert abs(float(made - expected)) <= 1e-12 * abs(float(expected))


@pytest.mark.cuda
def test_plans_tell_of_the_first_call_until_it_has_run():
    call = Within(*_pairs(F32, "cuda"))
    cuda._compiled.discard(call.compiles()[0])
    assert "first call compiles, about 2 s" in definition(call).plan(call).reason
    definition(call).execute(call, definition(call).decide(call))
    plan = definition(call).plan(call)
    assert "first call" not in plan.reason
    assert plan.steps[0].runs_on == "cuda: torch.mm and triton trntensor.cuda.mp2_energy"


def _there(shape, dtype=F32):
    return TensorSpec(shape, dtype, device=GPU)


def test_every_cuda_implementation_is_in_this_file():
    named = {definition(kind).name for kind in (Bits, Uniform, Normal, Inverse, Gamma, Randint, Gemm, Spmm, BsrSpmm)}
    named |= {definition(kind).name for kind in (Poisson, Binomial, Sketch, Mp2, Sddmm)}
    named |= {definition(kind).name for kind in (Within, Between, Fuse, LstsqCall, Attention)}
    assert {op.name for op in all_ops() if hasattr(op.kind, "cuda")} == named


def test_a_machine_without_a_gpu_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cuda._why_old.cache_clear()
    call = Within(_there((3, 4, 5)), _there((3,)), _there((4,)))
    assert definition(call).refusal(call, "cuda") == "PyTorch finds no such NVIDIA GPU here"
    assert definition(call).decide(call).implementation == "pytorch"
    cuda._why_old.cache_clear()


@pytest.mark.parametrize("what", ["triton", "old"])
def test_old_cards_and_builds_without_triton_run_the_definition(monkeypatch, what):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    capability = (7, 5) if what == "old" else (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla T4")
    monkeypatch.setattr(cuda, "_why_no_package", lambda: "Triton is not installed" if what == "triton" else None)
    cuda._why_old.cache_clear()
    expected = "Triton is not installed" if what == "triton" else "needs compute capability 8.0, and Tesla T4 has 7.5"
    for call in (
        Within(_there((3, 4, 5)), _there((3,)), _there((4,))),
        Uniform((0, 0, 10, *[0] * 8), F32, GPU),
    ):
        op = definition(call)
        assert op.refusal(call, "cuda") == expected
        assert op.decide(call).implementation == "pytorch"
        assert next(v for v in op.verdicts(call)[0] if v.implementation == "cuda").refusal == expected
    cuda._why_old.cache_clear()


def test_what_kernels_refuse_has_a_reason():
    half = torch.bfloat16
    for call, words in (
        (Gemm(_there((4, 4)), _there((4, 4)), None, 1.0, 0.0, "fp32", 0.0), "torch.matmul computes the others"),
        (Gemm(_there((2, 4, 4)), _there((4, 4)), None, 1.0, 0.0, "fast", 0.0), "not a batch"),
        (Within(_there((3, 4, 5), half), _there((3,), half), _there((4,), half)), "takes float32 and float64"),
        (LstsqCall(_there((4, 4)), _there((4, 1)), 0.0, "gelsy"), "pays for batches"),
        (
            Spmm(
                _there((3,), torch.int64), _there((2,), torch.int64), _there((2,), half), _there((4,), half), 4, False
            ),
            "takes",
        ),
    ):
        assert words in definition(call).refusal(call, "cuda")


def test_operands_elsewhere_are_refused_first():
    a = torch.ones(4, 4)
    assert (
        definition(Gemm).refusal(Gemm(a, a, None, 1.0, 0.0, "fast", 0.0), "cuda")
        == "an operand is not on an NVIDIA GPU"
    )
    assert freeze(a).device == CPU
    assert math.isfinite(cuda.state())


def test_a_compiled_kernel_is_launched_again_where_triton_would_take_it(monkeypatch):
    asked, launched = [], []

    class Kernel:
        def __getitem__(self, grid):
            def compiled(*args, **options):
                asked.append((grid, args, options))
                return Compiled()

            return compiled

    class Compiled:
        def __getitem__(self, grid):
            return lambda *args, stream: launched.append((grid, args, stream))

    kernel, x = Kernel(), torch.zeros(64)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: None, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)

    def launch(*args, constants=(7,), words=(3,), warps=4):
        before = len(asked)
        cuda.launch(kernel, (2, 1, 1), CPU, args, constants, words, num_warps=warps)
        return len(asked) > before

    assert launch(x, 32)
    assert asked == [((2, 1, 1), (x, 32, 3, 7), {"num_warps": 4})]
    # other memory, another multiple of 16 and other words are one kernel to Triton
    y = torch.ones(32)
    assert not launch(y, 48, words=(1 << 30,))
    assert launched == [((2, 1, 1), (y.data_ptr(), 48, 1 << 30, 7), 5)]
    # what Triton specialises for: dtype, alignment, ones, multiples of 16, integers that need 64 bits, constants
    others = [(x.double(), 32), (x[1:], 32), (x, 1), (x, 33), (x, 1 << 31), (x, -(1 << 31) - 16), (x, 1 << 63)]
    assert all(launch(*args) for args in others[:5])
    assert not launch(x, -(1 << 31))
    assert not launch(*others[5])
    assert launch(*others[6])
    assert launch(x, 32, constants=(8,))
    assert launch(x, 32, warps=8)
