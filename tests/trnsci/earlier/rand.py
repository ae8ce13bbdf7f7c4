"""A program of the earlier suite: random numbers by the earlier names, against NumPy and torch."""

import copy
import pickle

import pytest
import torch
import trnrand.nki
from trnrand.distributions import normal

import trnrand
from trnrand.quasi import sobol

close = torch.testing.assert_close
torch.manual_seed(0)
trnrand.manual_seed(3)
a = trnrand.normal(1000, mean=5.0, std=2.0)
trnrand.manual_seed(3)
assert torch.equal(a, normal(1000, mean=5.0, std=2.0))
assert abs(a.mean() - 5) < 0.3
assert a.dtype == torch.float32
g = trnrand.Generator(seed=7)
u = trnrand.uniform(10, 10, generator=g)
pos = g.position()
assert pos >= 100
st = g.get_state()
v = trnrand.uniform(5, generator=g)
g.set_state(st)
assert torch.equal(v, trnrand.uniform(5, generator=g))
assert g.manual_seed(7) is g
assert torch.equal(trnrand.uniform(10, 10, generator=g), u)
g.advance_to(0)
assert g.position() == 0
assert g.seed == 7
r0, r1 = (trnrand.Generator(seed=7, partition_rank=i, partition_size=2) for i in (0, 1))
assert not torch.equal(trnrand.uniform(8, generator=r0), trnrand.uniform(8, generator=r1))
assert set(trnrand.bernoulli(50, p=0.5).tolist()) <= {0.0, 1.0}
assert trnrand.bernoulli(3).dtype == torch.float32
assert trnrand.randint(100, low=2, high=5, generator=g).min() >= 2
assert sorted(trnrand.randperm(9).tolist()) == list(range(9))
t = trnrand.truncated_normal(2000, mean=1.0, std=0.5)
assert t.min() >= 0
assert t.max() <= 2
assert abs(trnrand.exponential(5000, rate=4.0).mean() - 0.25) < 0.03
assert trnrand.poisson(10, lam=3.0).dtype == torch.float32
assert trnrand.gamma(5, shape=2.0).shape == (5,)
assert trnrand.beta(4, alpha=1.0, beta=2.0).max() < 1
assert trnrand.chi_squared(3, df=2.0).min() >= 0
buf = torch.empty(7)
assert trnrand.normal_into(buf, mean=1.0, generator=g) is buf
trnrand.uniform_into(buf)
trnrand.exponential_into(buf)
assert sobol(16, 3).shape == (16, 3)
assert torch.equal(sobol(16, 3, seed=1), sobol(16, 3, seed=1))
assert trnrand.halton(8, 2).dtype == torch.float32
assert trnrand.latin_hypercube(8, 2).shape == (8, 2)
prog = trnrand.GeneratorProgram(["normal", ("uniform", {"low": 2.0, "high": 3.0})], seed=5)
b1, b2 = torch.empty(4), torch.empty(4)
prog.stream_into([b1, b2])
assert b2.min() >= 2

# torch's own generators, and the generator as an argument of torch's
assert torch.equal(*(trnrand.uniform(3, generator=torch.Generator().manual_seed(5)) for _ in range(2)))
assert torch.equal(*(torch.rand(3, generator=trnrand.Generator(seed=5).torch_generator) for _ in range(2)))
trnrand.latin_hypercube(8, 2, generator=torch.Generator())
g.advance_to(3)
for copied in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
    assert copied.seed == g.seed
    assert copied.position() == 3
assert torch.equal(trnrand.uniform(3, generator=copied), trnrand.uniform(3, generator=g))
assert (r1.partition_rank, r1.partition_size) == (1, 2)
with pytest.raises(ValueError, match="partition_rank is 2, expected 0 <= partition_rank < partition_size, which is 2"):
    trnrand.Generator(seed=7, partition_rank=2, partition_size=2)
with pytest.raises(ValueError, match="number of buffers is 0, expected 2, one for each step"):
    prog.stream_into([])
