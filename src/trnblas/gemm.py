"""General matrix multiply: ``alpha * op(a) @ op(b) + beta * c``, batched over leading axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas.accuracy import choose_for_size, error_bound, working_dtype
from trnblas.arguments import HALF, add_product, alike, combine, in_place, matching, stack, transpose_by, transposition
from trnblas.epilogue import ACTIVATIONS, Epilogue
from trnblas.kernels import gemm as kernels
from trnblas.split import exact_matmul, split_gemm
from trnsci import ArgumentError, array_function, check, cuda, merge_complex, op, run, split_complex
from trnsci.analogs import given, replaces, resembles
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, resolve, to_bfloat16_values


@resembles("numpy.matmul", "@")
@array_function
def gemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices: ``alpha * op(a) @ op(b) + beta * c``.

    Args:
        alpha: a number. When it is 0, ``a`` and ``b`` are not read and get no gradient.
        a: [..., M, K], or [..., K, M] when transposed.
        b: [..., K, N], or [..., N, K] when transposed.
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]; needed when ``beta`` is not 0.
        trans_a: ``False``/``"n"``/0, ``True``/``"t"``/1 (transpose) or ``"c"``/2 (conjugate transpose).
        trans_b: the same for ``b``.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        target_error: error to guarantee, relative to ``|a| @ |b|``, instead of ``precision``: the cheapest policy that
            meets it, within the range of its arithmetic, is taken. `trnblas.error_bound` says what each guarantees.
        epilogue: scale, bias and activation to apply to the result, inside the kernel.
        out: [..., M, N], memory for the result, shared with no operand except that it may be ``c`` itself.

    Returns:
        [..., M, N] in the operands' dtype. Leading axes broadcast.

    Raises:
        ArgumentError: shapes, devices, options or ``out`` do not fit.
        DtypeError: operands are not floating-point, or their dtypes differ.
        UnsupportedError: the backend asked for has no implementation for this dtype and precision.

    Error bound:
        ``|error| <= g(K + 2) * (|alpha| |a| @ |b| + |beta| |c|)`` elementwise, where ``g(n) = n u / (1 - n u)`` and
        ``u`` is the unit roundoff: ``2**-24`` for fp32 and fast, ``2**-53`` for fp64. Complex products count
        ``2K + 1`` terms, and sqrt(2) for the two parts. ``compensated`` gives ``u |result| + g(K + 2) |a| @ |b|`` with
        the ``u`` of the dtype and the ``g`` of at least fp64: one rounding. ``fast`` adds ``2**-6.99 |a| @ |b|`` for
        rounding operands to bfloat16. A result stored in fewer bits than the arithmetic has is rounded once more.

    Cost:
        ``2MNK`` FLOPs per matrix, four times as many for complex operands.

    Example:
        >>> gemm(2.0, torch.ones(2, 3), torch.ones(3, 2))
        tensor([[6., 6.],
                [6., 6.]])
    """
    if not matching(a, b, c):
        alike("gemm", a=a, b=b, c=c)
    dtype = a.dtype
    if trans_a is not False:
        a = _transpose("a", trans_a, a)
    if trans_b is not False:
        b = _transpose("b", trans_b, b)
    _check(a, b, c, beta)
    if type(alpha) is not float or type(beta) is not float:
        alpha, beta = check.coefficient("gemm", "alpha", alpha, dtype), check.coefficient("gemm", "beta", beta, dtype)
    if target_error is None:
        policy = resolve("gemm", precision, dtype)
    else:
        policy = choose_for_size("gemm", precision, target_error, dtype, error_bound, (a, b), K=a.shape[-1])
    call = Gemm(a, b, c, alpha, beta, policy, float(target_error or 0.0))
    if out is not None:
        bias = None if epilogue is None else epilogue.bias
        given = None if out is c and epilogue is None else c
        check.out("gemm", out, shape=call.shape, dtype=dtype, a=a, b=b, c=given, bias=bias)
    if epilogue is None:
        return run(call, out)
    epilogue.check("gemm", a, b.shape[-1])
    return _with_epilogue(call, epilogue, out)


replaces("aten::mm", "aten::bmm", by=gemm)(lambda a, b: given(gemm, 1.0, a, b))
replaces("aten::addmm", "aten::baddbmm", by=gemm)(functools.partial(add_product, gemm))


def _with_epilogue(call: Gemm, epilogue: Epilogue, out: Tensor | None) -> Tensor:
    """Fuse the epilogue where nothing is differentiated, else apply it with PyTorch's functions."""
    if in_place(call.a, call.b, call.c, epilogue.bias) and not torch.compiler.is_compiling():
        scale = epilogue.scale
        fused = call._replace(
            alpha=call.alpha * scale, beta=call.beta * scale, bias=epilogue.bias, activation=epilogue.activation
        )
        return run(fused, out)
    dtype = call.a.dtype
    work = working_dtype(call.precision, dtype)
    if work is not dtype:
        c = None if call.c is None else call.c.to(work)
        call = call._replace(a=call.a.to(work), b=call.b.to(work), c=c, precision=resolve("gemm", None, work))
    result = epilogue(run(call)).to(dtype)
    return result if out is None else out.copy_(result)


def _transpose(name: str, trans: bool | int | str, x: Tensor) -> Tensor:
    kind = transposition("gemm", trans, f"trans_{name}")
    if kind == "n":
        return x
    check.ndim("gemm", 2, **{name: x})
    return transpose_by(kind, x)


def _check(a: Tensor, b: Tensor, c: Tensor | None, beta: complex) -> None:
    """Check shapes. Comparisons are inline; `check` is called only to report a failure."""
    a_shape, b_shape = a.shape, b.shape
    if len(a_shape) < 2 or len(b_shape) < 2:
        check.ndim("gemm", 2, a=a, b=b)
    if a_shape[-1] != b_shape[-2]:
        check.equal("gemm", "K", a=a_shape[-1], b=b_shape[-2], hint="Transpose one of them with trans_a or trans_b?")
    if (len(a_shape) != 2 or len(b_shape) != 2) and a_shape[:-2] != b_shape[:-2]:
        check.broadcast("gemm", a=a_shape[:-2], b=b_shape[:-2])
    if c is not None:
        c_shape = c.shape
        if len(c_shape) < 2 or c_shape[-2] != a_shape[-2] or c_shape[-1] != b_shape[-1]:
            check.ndim("gemm", 2, c=c)
            check.equal("gemm", "M", a=a_shape[-2], c=c_shape[-2])
            check.equal("gemm", "N", b=b_shape[-1], c=c_shape[-1])
        if len(a_shape) + len(b_shape) + len(c_shape) != 6 and not a_shape[:-2] == b_shape[:-2] == c_shape[:-2]:
            check.broadcast("gemm", a=a_shape[:-2], b=b_shape[:-2], c=c_shape[:-2])
    elif beta != 0:
        raise ArgumentError("gemm", "c", None, f"a tensor [..., M, N], because beta is {beta}")


@op("trnblas::gemm")
class Gemm(NamedTuple):
    """``alpha * a @ b + beta * c``, then bias and activation."""

    a: Tensor  # [..., M, K]
    b: Tensor  # [..., K, N]
    c: Tensor | None  # [..., M, N]
    alpha: complex
    beta: complex
    precision: Precision
    target: float
    bias: Tensor | None = None  # [N]
    activation: str = "none"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        c = () if self.c is None else self.c.shape[:-2]
        batch = check.broadcast("gemm", a=self.a.shape[:-2], b=self.b.shape[:-2], c=c)
        return (*batch, self.a.shape[-2], self.b.shape[-1])

    def fake(self) -> Tensor:
        return self.a.new_empty(self.shape)

    def cost(self) -> int:
        products = math.prod(check.broadcast("gemm", a=self.a.shape[:-2], b=self.b.shape[:-2]))
        flops = 2 * products * self.a.shape[-2] * self.a.shape[-1] * self.b.shape[-1]
        return 4 * flops if self.a.is_complex() else flops

    def bound(self, implementation: str) -> float:
        guaranteed = error_bound(self.a.shape[-1], self.a.dtype, self.precision)
        # The kernel cuts operands into no more slices than the target asks for.
        sliced = implementation == "nki" and self.precision in ("compensated", "fp64")
        return max(guaranteed, self.target) if sliced else guaranteed

    def pytorch(self) -> Tensor:
        dtype, policy, activation = self.a.dtype, self.precision, self.activation
        if policy in ("fp32", "fp64") and self.bias is None and working_dtype(policy, dtype) is dtype:
            product = _multiply(self.a, self.b, self.c, self.alpha, self.beta)
            return product if activation == "none" else ACTIVATIONS[activation](product)
        bare = self.c is None and self.alpha == 1 and self.bias is None and activation == "none"
        if bare and dtype in HALF and policy == "fast":
            # Sums of half precision are accumulated in float32 and rounded once.
            return self.a @ self.b
        return self._compute_rounded()

    def _compute_rounded(self) -> Tensor:
        """Compute in the arithmetic of the policy, and round once at the end."""
        a, b, c, dtype = self.a, self.b, self.c, self.a.dtype
        work = working_dtype(self.precision, dtype)
        if self.precision == "fast" and dtype not in HALF:
            a, b = to_bfloat16_values(a), to_bfloat16_values(b)
        if work is not dtype:
            a, b, c = a.to(work), b.to(work), None if c is None else c.to(work)
        if self.precision == "compensated" and work is dtype and self.alpha != 0:
            result = combine(exact_matmul(a, b), self.alpha, self.beta, c, work)
        else:
            result = _multiply(a, b, c, self.alpha, self.beta)
        if self.bias is not None:
            result = result + self.bias
        return ACTIVATIONS[self.activation](result).to(dtype)

    def limits(self, implementation: str) -> str | None:
        if implementation != "cuda":
            return None
        a, b, dtype = self.a, self.b, self.a.dtype
        if self.precision == "fast" and dtype == torch.float32:
            if a.ndim != 2 or b.ndim != 2:
                return "takes one product, not a batch"
            return "there is nothing to multiply" if 0 in (*a.shape, *b.shape) else cuda.why_old(a.device)
        if self.precision != "compensated" or dtype != torch.float64:
            return "pays for float32 in precision fast and float64 in compensated; torch.matmul computes the others"
        if a.ndim != 2 or b.ndim != 2:
            return "takes one product, not a batch"
        (m, k), n = a.shape, b.shape[1]
        if k % 8 or n % 8 or m <= 16 or k > 1 << 16:
            return f"int8 tensor cores take K and N that 8 divides, M from 17 and K up to 65536, not {m}x{k}x{n}"
        if m * n * k < 1 << 30:
            return "pays from 1024x1024x1024 on"
        return cuda.why_no_triton(a.device)

    def calls(self, implementation: str) -> str:
        return "torch.mm in bfloat16" if self.precision == "fast" else "torch._int_mm and triton trnblas.cuda.gemm"

    def compiles(self) -> tuple[Hashable, float]:
        return ("trnblas.cuda.gemm", self.precision), 0.0 if self.precision == "fast" else 3.0

    def workspace(self, implementation: str) -> int:
        if implementation != "cuda":
            return 0
        (m, k), n = self.a.shape[-2:], self.b.shape[-1]
        if self.precision == "fast":
            return 2 * (m * k + k * n)
        # normalised operands, digits and rests; sums of digits, of the rest, and before they are scaled
        return (8 + 6 + 16) * (m * k + k * n) + (44 + 8 + 8) * m * n

    def cuda(self) -> Tensor:
        a, b, c = self.a, self.b, None if self.beta == 0 else self.c
        if self.alpha == 0:
            return self.pytorch()
        if self.precision == "fast":
            product = torch.mm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
        else:
            from trnblas.cuda.gemm import exact_product

            exact = exact_product(a, b)
            if exact is None:
                return self.pytorch()
            product = exact
        product = combine(product, self.alpha, self.beta, c, product.dtype)
        product = product if self.bias is None else product + self.bias
        return ACTIVATIONS[self.activation](product).expand(self.shape)

    def into(self, out: Tensor) -> None:
        plain = self.bias is None and self.activation == "none" and self.precision in ("fp32", "fp64")
        if plain and working_dtype(self.precision, self.a.dtype) is self.a.dtype:
            _multiply(self.a, self.b, self.c, self.alpha, self.beta, out)
        else:
            out.copy_(self.pytorch())

    @saves("a", "b")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        # With an epilogue the op is called only where nothing is to be differentiated.
        assert self.bias is None
        assert self.activation == "none"
        alpha, beta = self.alpha.conjugate(), self.beta.conjugate()
        gradients = {}
        if "a" in needs:
            a = gemm(alpha, grad, self.b, trans_b="c", precision=self.precision)
            gradients["a"] = a.sum_to_size(self.a.shape)
        if "b" in needs:
            b = gemm(alpha, self.a, grad, trans_a="c", precision=self.precision)
            gradients["b"] = b.sum_to_size(self.b.shape)
        if self.c is not None and "c" in needs:
            gradients["c"] = (beta * grad).sum_to_size(self.c.shape)
        return gradients

    def nki(self) -> Tensor:
        shape, c = self.shape, None if self.beta == 0 else self.c
        empty = math.prod(shape) == 0 or self.a.shape[-1] == 0 or self.alpha == 0
        if not (empty or self.a.is_complex() or self.precision in ("fp64", "compensated")):
            return _kernel(self, shape, c)
        if empty:
            result = self.a.new_zeros(shape, dtype=working_dtype(self.precision, self.a.dtype))
        elif self.a.is_complex():
            result = _complex_product(self)
        else:
            result = split_gemm(self.a.double(), self.b.double(), self.target)
        result = combine(result, self.alpha, self.beta, c, result.dtype)
        result = result if self.bias is None else result + self.bias
        return ACTIVATIONS[self.activation](result).expand(shape).to(self.a.dtype)


def _multiply(
    a: Tensor, b: Tensor, c: Tensor | None, alpha: complex, beta: complex, out: Tensor | None = None
) -> Tensor:
    if c is None and alpha == 1:
        if a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0]:
            # what matmul calls, without its 2 us of looking for a batch
            return torch.bmm(a, b, out=out)
        return a @ b if out is None else torch.matmul(a, b, out=out)
    if alpha == 0:
        zero = a.new_zeros(Gemm(a, b, c, alpha, beta, "fp32", 0.0).shape)
        return torch.add(zero, zero if c is None or beta == 0 else c, alpha=beta, out=out)
    if c is None or beta == 0:
        if a.ndim == 2 and b.ndim == 2 and (c is None or c.ndim == 2):
            # vmap multiplies what beta=0 would leave out: it must be finite
            return torch.addmm(a.new_zeros(()), a, b, beta=0, alpha=alpha, out=out)
        product = a @ b
        wide = product if c is None else product.expand(Gemm(a, b, c, alpha, beta, "fp32", 0.0).shape)
        return torch.mul(wide, alpha, out=out)
    if a.ndim == 2 and b.ndim == 2 and c.ndim == 2:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha, out=out)
    if a.ndim == 3 and b.ndim == 3 and c.ndim == 3 and a.shape[0] == b.shape[0] == c.shape[0]:
        return torch.baddbmm(c, a, b, beta=beta, alpha=alpha, out=out)
    return torch.add((a @ b).mul_(alpha), c, alpha=beta, out=out)


def _kernel(call: Gemm, shape: tuple[int, ...], c: Tensor | None) -> Tensor:
    """Launch the kernel on real float32 or half operands, with alpha, beta and the epilogue inside."""
    a, b, bias = call.a, call.b, call.bias
    batch = torch.Size(shape[:-2])
    # A batch of addends to one product: the kernel sees a batch of products.
    if call.c is not None and call.c.ndim > 2:
        a = a.expand(*batch, *a.shape[-2:])
    half = a.dtype in HALF
    operand = a.dtype if half else torch.bfloat16 if call.precision == "fast" else torch.float32
    # One right factor for a batch of left ones: the batch is more rows of one product.
    if b.ndim == 2 and c is None:
        a, batch = a.reshape(-1, a.shape[-1]), torch.Size()
    aT_hbm = stack(a.mT, batch).to(operand).contiguous()  # [B or 1, K, M]
    b_hbm = stack(b, batch).to(operand).contiguous()  # [B or 1, K, N]
    stored = a.dtype if half else torch.float32
    c_hbm = None if c is None else stack(c.expand(shape), batch).to(stored).contiguous()  # [B, M, N]
    scale_hbm = None
    if call.alpha != 1 or c is not None or bias is not None:
        scale = torch.tensor([call.alpha, call.beta], dtype=torch.float32, device=a.device)
        scale_hbm = scale.expand(P_MAX, 2).contiguous()  # [p, 2]
    bias_hbm = None if bias is None else bias.float().expand(P_MAX, -1).contiguous()  # [p, N]
    product: Tensor = launch(
        kernels.gemm, aT_hbm, b_hbm, c_hbm, scale_hbm, bias_hbm, half=half, activation=call.activation
    )  # [B, M, N]
    return product.reshape(shape).to(call.a.dtype)


def _complex_product(call: Gemm) -> Tensor:
    """Multiply once in real numbers: ``[[Re a, -Im a], [Im a, Re a]] @ [[Re b], [Im b]]``."""
    a_re, a_im = split_complex(call.a)
    rows = torch.cat([torch.cat([a_re, -a_im], -1), torch.cat([a_im, a_re], -1)], -2)  # [..., 2M, 2K]
    columns = torch.cat(split_complex(call.b), -2)  # [..., 2K, N]
    if call.precision in ("fp64", "compensated"):
        rows, columns = rows.double(), columns.double()
    real, imag = Gemm(rows, columns, None, 1.0, 0.0, call.precision, call.target).nki().chunk(2, -2)
    return merge_complex(real, imag)
