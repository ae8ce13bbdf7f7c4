"""A program of the earlier suite: contractions by the earlier names, against NumPy and torch."""

import torch
import trntensor.nki

import trntensor

close = torch.testing.assert_close
torch.manual_seed(0)
A = torch.randn(5, 5)
B = torch.randn(5, 5)
C = torch.randn(5, 5)
close(trntensor.einsum("ij,jk->ik", A, B, alpha=2.0, beta=1.0, out=C), 2 * A @ B + C)
before = C.clone()
trntensor.einsum("ij,jk->ik", A, B, beta=1.0, out=C)
assert torch.equal(C, before)
assert torch.equal(trntensor.einsum("ij,jk->ik", A, B), A @ B)
assert trntensor.einsum("ij,jk->ik", A, B, dtype=torch.float64).dtype == torch.float64
one, two = trntensor.multi_einsum(("ij,jk->ik", A, B), ("ij->ji", A))
close(two, A.T)
pl = trntensor.plan_contraction("ij,kj->ik", A, B)
assert (pl.strategy, pl.transA, pl.transB, pl.contraction_indices, pl.backend) == (
    "matmul",
    False,
    True,
    ["j"],
    "pytorch",
), pl
assert trntensor.plan_contraction("bij,bjk->bik", A.expand(2, 5, 5), B.expand(2, 5, 5)).strategy == "bmm"
assert trntensor.estimate_flops("ij,jk->ik", A, B) == 250
trntensor.plan_cache_info()
trntensor.clear_plan_cache()
X3 = torch.einsum("ar,br,cr->abc", torch.randn(4, 2), torch.randn(5, 2), torch.randn(6, 2))
f, wt = trntensor.cp_decompose(X3, 2, max_iter=500, tol=1e-9)
close(trntensor.cp_reconstruct(f, wt), X3, atol=1e-2, rtol=1e-2)
core, fs = trntensor.tucker_decompose(X3, (2, 2, 2))
close(trntensor.tucker_reconstruct(core, fs), X3, atol=1e-4, rtol=1e-4)
close(trntensor.tt_reconstruct(trntensor.tt_decompose(X3, 4)), X3, atol=1e-4, rtol=1e-4)

trntensor.clear_plan_cache()
for _ in range(2):
    trntensor.plan_contraction("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))
assert trntensor.plan_cache_info()[:2] == (1, 1)  # hits and misses
start = [torch.rand(n, 2) for n in (3, 4, 5)]
factors, weights = trntensor.cp_decompose(trntensor.cp_reconstruct(start, torch.ones(2)), 2, factors=start)
torch.testing.assert_close(
    trntensor.cp_reconstruct(factors, weights), trntensor.cp_reconstruct(start, torch.ones(2)), rtol=1e-5, atol=1e-5
)

batched = trntensor.plan_contraction("...ij,...jk->...ik", torch.ones(2, 3, 4), torch.ones(2, 4, 5))
assert (batched.strategy, batched.contraction_indices, batched.output_indices) == ("torch", ["j"], ["i", "k"])

# a contraction is planned once, and several may hold their operands together
trntensor.clear_plan_cache()
for _ in range(3):
    trntensor.einsum("ij,jk->ik", A, B)
assert trntensor.plan_cache_info()[:2] == (2, 1)
close(torch.as_tensor(trntensor.einsum("ij,jk->ik", A.numpy(), B.numpy())), A @ B)
close(trntensor.multi_einsum(("ij,jk->ik", (A, B)), ("ij->i", A))[0], A @ B)
