"""Process group ``neuron`` of the emulated device: collectives against NumPy, and the rules that gloo alone lacks."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

RANKS = """
import json, os, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
import trnsci

def message(call):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

def collectives(rank, size, options):
    device = trnsci.emulate("trn2", **options)
    dist.init_process_group("neuron", init_method="tcp://127.0.0.1:" + sys.argv[1], rank=rank, world_size=size)
    x = torch.arange(8.0, device="neuron") * (rank + 1)
    told = {}
    for name, op in (("sum", dist.ReduceOp.SUM), ("max", dist.ReduceOp.MAX), ("mean", dist.ReduceOp.AVG)):
        reduced = x.clone()
        dist.all_reduce(reduced, op=op)
        told[name] = reduced.tolist()
    # columns: neither contiguous nor alone in their memory
    columns = (torch.arange(8.0, device="neuron").reshape(4, 2) * (rank + 1)).T[1]
    dist.all_reduce(columns)
    told["columns"] = columns.tolist()
    gathered = torch.empty(8 * size, device="neuron")
    dist.all_gather_into_tensor(gathered, x)
    told["gathered"] = gathered.tolist()
    parts = [torch.empty(8, device="neuron", dtype=torch.bfloat16) for _ in range(size)]
    dist.all_gather(parts, x.bfloat16(), async_op=True).wait()
    told["halves"] = torch.stack(parts).flatten().tolist()
    part = torch.empty(8 // size, device="neuron")
    dist.reduce_scatter_tensor(part, x)
    told["part"] = part.tolist()
    copy = x.clone()
    dist.broadcast(copy, size - 1)
    told["copy"] = copy.tolist()
    received = torch.empty_like(x)
    exchange = lambda *splits: dist.all_to_all_single(received, x, *splits)
    told["exchange"] = message(exchange) or received.tolist()
    told["splits"] = message(lambda: exchange([8 // size] * size, [8 // size] * size))
    told["unequal"] = message(lambda: dist.all_gather([torch.empty(n + 1, device="neuron") for n in range(size)], x))
    told["host"] = message(lambda: dist.all_reduce(x.cpu()))
    half = dist.new_group(list(range(size // 2)))
    if rank < size // 2:
        told["barrier"] = message(lambda: dist.barrier(half))
    dist.barrier()
    told["send"] = message(lambda: ring(rank, size, x, received)) or received.tolist()
    told["double"] = wide(rank)
    if size == 4:
        model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False).to("neuron"))
        model(torch.full((1, 2), float(rank), device="neuron")).sum().backward()
        told["gradient"] = model.module.weight.grad.flatten().tolist()
        matrix, mesh = torch.arange(16.0).reshape(4, 4).to("neuron"), init_device_mesh("neuron", (4,))
        sharded = distribute_tensor(matrix, mesh, [Shard(0)])
        told["product"] = (sharded @ sharded).full_tensor().flatten().tolist()
    told["counted"] = sum(device.record.collectives.values())
    with open(f"{sys.argv[0]}.{rank}", "w") as file:
        json.dump(told, file)
    dist.destroy_process_group()

def wide(rank):
    x = torch.full((1,), 1 / 3, dtype=torch.float64, device="neuron")
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x.item()

def ring(rank, size, x, received):
    pair = dist.P2POp(dist.isend, x, (rank + 1) % size), dist.P2POp(dist.irecv, received, (rank - 1) % size)
    for work in dist.batch_isend_irecv(list(pair)):
        work.wait()

if __name__ == "__main__":
    torch.multiprocessing.spawn(collectives, (int(sys.argv[2]), json.loads(sys.argv[3])), int(sys.argv[2]))
"""

ALONE = """
import os, torch, torch.distributed as dist, trnsci
from torch._C._distributed_c10d import HashStore
trnsci.emulate("trn2")
start = lambda name: dist.init_process_group(name, store=HashStore(), rank=0, world_size=1)
{first}
try:
    start("neuron")
    {then}
except RuntimeError as error:
    print(error)
"""


def ranks(tmp_path, free_port, size, **options):
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    words = [sys.executable, "-W", "ignore", str(program), str(free_port), str(size), json.dumps(options)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((tmp_path / f"ranks.py.{rank}").read_text()) for rank in range(size)]


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "has_send"), [(2, False), (4, True)])
def test_ranks_exchange_what_numpy_says_and_what_neuron_lacks_is_refused(tmp_path, free_port, size, has_send):
    row = np.arange(8.0)
    every = np.stack([row * (rank + 1) for rank in range(size)])
    for rank, told in enumerate(ranks(tmp_path, free_port, size, has_send=has_send)):
        np.testing.assert_array_equal(told["sum"], every.sum(0))
        np.testing.assert_array_equal(told["max"], every.max(0))
        np.testing.assert_array_equal(told["mean"], every.mean(0))
        np.testing.assert_array_equal(told["columns"], every.sum(0).reshape(4, 2)[:, 1])
        np.testing.assert_array_equal(told["gathered"], every.ravel())
        np.testing.assert_array_equal(told["halves"], every.ravel())
        np.testing.assert_array_equal(told["part"], every.sum(0).reshape(size, -1)[rank])
        np.testing.assert_array_equal(told["copy"], every[-1])
        assert "no split sizes" in told["splits"]
        assert "wants equal parts" in told["unequal"]
        assert "cpu:gloo,neuron:neuron" in told["host"]
        assert told["double"] == float(np.float32(1 / 3))
        assert told["counted"] >= 8
        if size == 2:
            assert "does not support ranks [0, 1]: it has 4, 8 or multiples of 32" in told["exchange"]
            assert "has no send" in told["send"]
        else:
            np.testing.assert_array_equal(told["exchange"], every.reshape(4, 4, 2)[:, rank].ravel())
            np.testing.assert_array_equal(told["send"], every[rank - 1])
            np.testing.assert_array_equal(told["gradient"], [1.5, 1.5])
            matrix = np.arange(16.0).reshape(4, 4)
            np.testing.assert_array_equal(told["product"], (matrix @ matrix).ravel())
        if rank < size // 2:
            assert "default group alone" in told["barrier"]


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ("x = torch.ones(2, device='neuron')", "pass", "call init_process_group before the device is used"),
        ("", "dist.all_reduce(torch.ones(2))", "start the group as cpu:gloo,neuron:neuron"),
        (
            "",
            "x = torch.ones(2, device='neuron'); os.fork() or torch.ones(2, device='neuron')",
            "use the start method spawn",
        ),
    ],
)
def test_a_group_comes_before_the_device_and_neither_survives_a_fork(first, then, message):
    code = ALONE.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert message in done.stdout, done.stderr[-2000:]


@pytest.mark.slow
def test_host_tensors_travel_by_gloo_where_the_group_names_it():
    code = ALONE.format(first="", then="").replace('start("neuron")', 'start("cpu:gloo,neuron:neuron")')
    code += "x = torch.ones(2)\ndist.all_reduce(x)\nprint(x.tolist())\n"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout == "[1.0, 1.0]\n", done.stderr[-2000:]
