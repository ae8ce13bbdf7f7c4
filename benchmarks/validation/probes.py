"""What kernels take for granted about the arithmetic, each in a kernel of a few lines, with answers that must be exact.

A finding is a sentence; a probe that does not hold says what came out instead.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import NamedTuple

import torch

import trnblas
import trnrand
from trnsci import config, neuron
from trnsci.nki import P_MAX, launch, load, nisa, nki, nl, require, store

U32 = (1 << 32) - 1


class Finding(NamedTuple):
    """Whether an assumption holds, in words."""

    holds: bool
    text: str


@nki.jit
def summed(a_hbm, b_hbm, times):  # type: ignore[no-untyped-def]
    """``times`` equal products added up in one PSUM tile."""
    _, M = a_hbm.shape
    _, N = b_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [M, N]
    a_sb = load(a_hbm)  # [K, M]
    b_sb = load(b_hbm)  # [K, N]
    out_ps = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)  # [M, N]
    for i in range(times):
        nisa.nc_matmul(dst=out_ps, stationary=a_sb, moving=b_sb, accumulate=i > 0)
    store(out_hbm, out_ps)
    return out_hbm


@nki.jit
def combined(x_hbm, y_hbm):  # type: ignore[no-untyped-def]
    """Sums and products of 32-bit integers on GpSimd, and their shifts on the Vector Engine: [3, P, F]."""
    P, F = x_hbm.shape
    out_hbm = nl.ndarray((3, P, F), dtype=nl.uint32, buffer=nl.shared_hbm)  # [3, P, F]
    x_sb = load(x_hbm)  # [P, F]
    y_sb = load(y_hbm)  # [P, F]
    sum_sb = nl.ndarray((P, F), dtype=nl.uint32, buffer=nl.sbuf)  # [P, F]
    nisa.tensor_tensor(dst=sum_sb, data1=x_sb, data2=y_sb, op=nl.add, engine=nisa.engine.gpsimd)
    store(out_hbm[0], sum_sb)
    product_sb = nl.ndarray((P, F), dtype=nl.uint32, buffer=nl.sbuf)  # [P, F]
    nisa.tensor_tensor(dst=product_sb, data1=x_sb, data2=y_sb, op=nl.multiply, engine=nisa.engine.gpsimd)
    store(out_hbm[1], product_sb)
    shifted_sb = nl.ndarray((P, F), dtype=nl.uint32, buffer=nl.sbuf)  # [P, F]
    nisa.tensor_scalar(dst=shifted_sb, data=x_sb, op0=nl.right_shift, operand0=31, engine=nisa.engine.vector)
    store(out_hbm[2], shifted_sb)
    return out_hbm


@nki.jit
def narrowed(x_hbm):  # type: ignore[no-untyped-def]
    """Float32 stored as bfloat16."""
    out_hbm = nl.ndarray(x_hbm.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)  # [P, F]
    x_sb = load(x_hbm)  # [P, F]
    out_sb = nl.ndarray(x_hbm.shape, dtype=nl.bfloat16, buffer=nl.sbuf)  # [P, F]
    nisa.tensor_copy(dst=out_sb, src=x_sb, engine=nisa.engine.vector)
    store(out_hbm, out_sb)
    return out_hbm


@nki.jit
def tabulated(x_hbm):  # type: ignore[no-untyped-def]
    """The functions kernels ask the Scalar Engine for: exp, log, sin, sqrt of the same numbers: [4, P, F]."""
    P, F = x_hbm.shape
    functions = (nl.exp, nl.log, nl.sin, nl.sqrt)
    out_hbm = nl.ndarray((4, P, F), dtype=nl.float32, buffer=nl.shared_hbm)  # [4, P, F]
    x_sb = load(x_hbm)  # [P, F]
    for i in range(4):
        out_sb = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.sbuf)  # [P, F]
        nisa.activation(dst=out_sb, op=functions[i], data=x_sb)
        store(out_hbm[i], out_sb)
    return out_hbm


@nki.jit
def repeat_gather(x_hbm, at_hbm, times):  # type: ignore[no-untyped-def]
    """The same gather on GpSimd, ``times`` times."""
    P, F = at_hbm.shape
    out_hbm = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.shared_hbm)  # [P, F]
    x_sb = load(x_hbm)  # [P, W]
    at_sb = load(at_hbm)  # [P, F]
    out_sb = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.sbuf)  # [P, F]
    for _ in range(times):
        nisa.nc_n_gather(dst=out_sb, data=x_sb, indices=at_sb)
    store(out_hbm, out_sb)
    return out_hbm


def gathers() -> Finding:
    """A gather within partitions is exact; its cost, which nothing published fixes, by data and by indices."""
    texts = []
    for width in (512, 8192):
        for count in (512, 4096):
            x = torch.arange(P_MAX * width, dtype=torch.float32).reshape(P_MAX, width)
            at = torch.arange(count).mul(37).remainder(width).expand(P_MAX, count).contiguous()
            seconds = []
            for times in (1, 33):
                runs = []
                for _ in range(3):
                    start = time.perf_counter()
                    got = launch(repeat_gather, x, at.to(torch.uint32), times=times).cpu()
                    runs.append(time.perf_counter() - start)
                if not torch.equal(got, x.gather(1, at)):
                    return Finding(False, f"{count} indices into {width} elements give others than those asked for")
                seconds.append(min(runs))
            texts.append(f"{count} of {width} elements {(seconds[1] - seconds[0]) / 32 * 1e6:.2f} us")
    return Finding(True, f"gathers take, here: {', '.join(texts)}")


def products() -> Finding:
    """Products of 7-bit digits reach PSUM unrounded, in bfloat16 or in float32."""
    text = trnblas.probe()["split_gemm"]
    return Finding("bfloat16" in text, text)


def sums() -> Finding:
    """PSUM adds integers exactly up to 2^24."""
    ones = torch.ones(P_MAX, 8, dtype=torch.bfloat16)
    # 128 · 127 · 127 · 8 = 16,516,096 < 2^24
    got = launch(summed, 127 * ones, 127 * ones, times=8)
    expected = 128.0 * 127 * 127 * 8
    holds = bool((got == expected).all())
    low, high = float(got.min()), float(got.max())
    return Finding(holds, f"eight products of 128 terms add up to {low:.0f} to {high:.0f}, expected {expected:.0f}")


def integers() -> Finding:
    """Unsigned sums and products wrap at 2^32, comparisons see the 32nd bit, streams are those of the definition."""
    pairs = [(U32, 1), (U32, U32), (1 << 31, 1 << 31), (0x9E3779B9, 0x85EBCA6B), (65537, 65535), (3, 5)]
    x = torch.tensor([[a for a, _ in pairs]] * P_MAX).to(torch.uint32)
    y = torch.tensor([[b for _, b in pairs]] * P_MAX).to(torch.uint32)
    got = launch(combined, x, y).to(torch.int64)  # [3, P, F]
    wanted = [[a + b & U32 for a, b in pairs], [a * b & U32 for a, b in pairs], [a >> 31 for a, _ in pairs]]
    for name, rows, want in zip(("sums", "products", "shifts"), got.tolist(), wanted, strict=True):
        for have in rows:
            if have != want:
                return Finding(False, f"{name} of unsigned integers are {have}, expected {want}")
    return Finding(True, f"sums, products and shifts wrap at 2^32; {trnrand.probe()['bits']}")


def rounding() -> Finding:
    """Stores round to nearest, ties to even."""
    x = torch.tensor([[1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -1 - 2.0**-8]] * P_MAX)
    got = launch(narrowed, x).float()
    expected = x.bfloat16().float()
    holds = bool((got == expected).all())
    return Finding(holds, f"ties of bfloat16 become {got[0].tolist()}, expected {expected[0].tolist()}")


def tables() -> Finding:
    """The Scalar Engine's functions are within 2^-16 of the exact values, which kernels assume of them."""
    x = torch.linspace(0.01, 3.0, 512).expand(P_MAX, 512).contiguous()
    got = launch(tabulated, x).double()
    y = x.double()
    exact = torch.stack([y.exp(), y.log(), y.sin(), y.sqrt()])
    worst = ((got - exact).abs() / exact.abs().clamp(min=0.1)).amax((1, 2))
    named = ", ".join(
        f"{name} {float(error):.1e}" for name, error in zip(("exp", "log", "sin", "sqrt"), worst, strict=True)
    )
    return Finding(bool((worst < 2.0**-16).all()), f"largest relative errors: {named}")


@nki.jit
def shifted(x_hbm, bias_hbm, optional_hbm=None):  # type: ignore[no-untyped-def]
    """``copy(2 x + bias)`` on the Scalar Engine, with an argument that is ``None``."""
    require(optional_hbm is None, "None arrived as something else")
    out_hbm = nl.ndarray(x_hbm.shape, dtype=nl.float32, buffer=nl.shared_hbm)  # [P, F]
    x_sb = load(x_hbm)  # [P, F]
    bias_sb = load(bias_hbm)  # [P, 1]
    out_sb = nl.ndarray(x_hbm.shape, dtype=nl.float32, buffer=nl.sbuf)  # [P, F]
    nisa.activation(dst=out_sb, op=nl.copy, data=x_sb, bias=bias_sb, scale=2.0)
    store(out_hbm, out_sb)
    return out_hbm


def copies() -> Finding:
    """``activation(copy)`` applies scale and bias (aws-neuron-sdk #1296), and ``None`` is an argument."""
    x = torch.arange(8.0).expand(P_MAX, 8).contiguous()
    bias = torch.arange(float(P_MAX))[:, None]
    got = launch(shifted, x, bias, None)
    holds = bool((got == 2 * x + bias).all())
    return Finding(holds, f"copy of 2 x + bias gives {got[1].tolist()} for {x[0].tolist()} and a bias of 1")


def wide() -> Finding:
    """Double precision and 64-bit integers are not what the tensor says: kernels and plans assume 32 bits."""
    if not _is_torch_device():
        return Finding(True, "not asked: the device is not torch's own")
    third = torch.full((2,), 1 / 3, dtype=torch.float64).to("neuron")
    sums = (third * 3).cpu()
    integers = (torch.tensor([2**31 - 1]).to("neuron") + 1).cpu()
    exact = abs(float(sums[0]) - 1 / 3 * 3) < 1e-12 and int(integers[0]) == 2**31
    return Finding(
        True, f"a third three times is {float(sums[0])!r}, 2^31 - 1 + 1 is {int(integers[0])}: 64 bits {exact}"
    )


def complexes() -> Finding:
    """Complex tensors on the device: the suite keeps planes whatever the answer is."""
    if not _is_torch_device():
        return Finding(True, "not asked: the device is not torch's own")
    try:
        product = (torch.full((2,), 1j).to("neuron") * 2).cpu()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return Finding(True, f"refused: {str(error).splitlines()[0]}")
    return Finding(bool((product == 2j).all()), f"2 i is {product[0].item()}")


def events() -> Finding:
    """``Event.elapsed_time`` grows with the work; users of 2.12 saw 25 to 30 us whatever it was."""
    if not _is_torch_device():
        return Finding(True, "not asked: the device is not torch's own")
    module, times = torch.get_device_module("neuron"), []
    for n in (1, 40):
        x = torch.ones(1024, 1024).to("neuron")
        start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        start.record()
        for _ in range(n):
            x = x @ x
        end.record()
        module.synchronize()
        times.append(start.elapsed_time(end))
    # validate measures by the host's clock around synchronize, so that no answer is wrong
    verdict = "follow" if times[1] > 5 * times[0] else "do not follow"
    return Finding(True, f"events {verdict} the work: {times[0]:.3g} ms for one product, {times[1]:.3g} ms for 40")


_EXCHANGE = """
import datetime, os, sys
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("neuron", init_method="env://", timeout=datetime.timedelta(seconds=100))
x = torch.full((4,), float(rank), device="neuron")
dist.all_reduce(x)
print("all_reduce", x.cpu().tolist() == [1.0] * 4, flush=True)
y = torch.full((4,), float(rank), device="neuron")
dist.send(y, 1) if rank == 0 else dist.recv(y, 0)
print("send", y.cpu().tolist() == [0.0] * 4, flush=True)
"""


def sends() -> Finding:
    """``send`` and ``recv`` between two logical cores, after a sum; betas had neither."""
    if not _is_torch_device():
        return Finding(True, "not asked: the device is not torch's own")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = []
    for rank in ("0", "1"):
        own = meeting | {"RANK": rank, "LOCAL_RANK": rank, "NEURON_RT_VISIBLE_CORES": rank}
        words = [sys.executable, "-c", _EXCHANGE]
        ranks.append(
            subprocess.Popen(
                words, env=config.environment(own), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    said = []
    for process in ranks:
        try:
            said.append(process.communicate(timeout=180)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            said.append(f"{process.communicate()[0]}waited for longer than 180 s")
    # what it can is asked, not assumed: plans use neither
    wrong = [text for text in said if "False" in text]
    last = said[1].strip().splitlines()[-1] if said[1].strip() else "nothing was said"
    if all("send True" in text for text in said):
        return Finding(True, "sums and sends between two logical cores are right")
    return Finding(not wrong, f"{'sums are right, and ' if 'all_reduce True' in said[1] else ''}{last}")


def _is_torch_device() -> bool:
    device = neuron.device()
    return device is not None and device.kind == "neuron"
