"""Many calls, and little memory: nothing grows, and a limit of the system ends in a typed error."""

import subprocess
import sys
import textwrap

import pytest

MANY = """
    import gc, os, torch, trnblas, trnfft, trnrand, trnsolver, trnsparse, trntensor
    torch.set_num_threads(1)
    a, x = torch.eye(4, dtype=torch.float64) * 2, torch.ones(4, dtype=torch.float64)
    matrix, draw = trnsparse.CSRMatrix.from_dense(a), trnrand.Generator(1)
    calls = [
        lambda: trnblas.gemm(1.0, a, a),
        lambda: trnfft.fft(x),
        lambda: draw.uniform(4),
        lambda: trnsolver.cholesky(a),
        lambda: matrix @ x,
        lambda: trntensor.einsum("ij,jk->ik", a, a),
        lambda: trnblas.dot(x, x),
        lambda: trnsolver.solve(a, x),
    ]
    def held():
        gc.collect()
        pages = int(open("/proc/self/statm").read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    for i in range(4_000):
        calls[i % 8]()
    before = held()
    for i in range(100_000):
        calls[i % 8]()
    after = held()
    print(*(b - a for a, b in zip(before, after)))
"""

LIMITED = """
    import resource, torch, trnblas
    from trnsci.errors import CapacityError
    from trnsci.memory import free_bytes
    torch.set_num_threads(1)
    a = torch.ones(64, 64)
    trnblas.gemm(1.0, a, a)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
    assert free_bytes() <= 256 << 20
    column, row = torch.ones(9000, 1), torch.ones(1, 9000)
    try:
        trnblas.gemm(1.0, column, row)
    except CapacityError as error:
        print("refused", error.required, error.available)
    print("and goes on", trnblas.gemm(1.0, a, a)[0, 0].item())
"""


def run(text):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_hundred_thousand_calls_leave_memory_descriptors_and_objects_as_they_were():
    grown, descriptors, objects = map(int, run(MANY)[-1].split())
    assert grown < 8 << 20
    assert descriptors == 0
    assert objects < 1000


@pytest.mark.slow
def test_a_limit_of_the_address_space_is_a_capacity_error_and_later_calls_work():
    first, second = run(LIMITED)
    required, available = map(int, first.split()[1:])
    assert required == 4 * 9000 * 9000
    assert available <= 256 << 20
    assert second == "and goes on 64.0"
