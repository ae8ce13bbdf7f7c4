"""Programs that span contractions: contract, apply a function, reduce; or contract and contract again."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

import trnsci
from trnsci import ArgumentError, Cost, array_function, check, cuda, op, run
from trnsci.arrays import pass_through
from trnsci.gradient import saves
from trnsci.nki import K_TILE, N_TILE, launch
from trntensor.chain import NO_LINK, find_link, run_chain
from trntensor.einsum import einsum
from trntensor.equation import Equation, parse
from trntensor.expression import Instruction, evaluate, written_down
from trntensor.kernels import fuse as kernels

_BLOCK_ELEMENTS = 1 << 20
MAX_EXTRAS = 4


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """A described program; call it with the operands of its contraction, then the extra ones.

    Attributes:
        equations: one, or the links of a chain.
        code: the epilogue as instructions; empty without one.
        extras: labels of the extra operands.
        reduce: labels of the result.
    """

    equations: tuple[str, ...]
    code: tuple[Instruction, ...]
    extras: tuple[str, ...]
    reduce: str

    def __call__(self, *operands: Tensor) -> Tensor:
        return call_program(self, *operands)

    def explain(self, *operands: Tensor) -> str:
        """Return which backends can run the program on these operands, and why the others cannot."""
        reason = self.refusal(*operands)
        return str(trnsci.explain(self, *operands)) if reason is None else f"no kernel: {reason}"

    def refusal(self, *operands: Tensor) -> str | None:
        """Return why no kernel runs this program, or ``None``; sizes are judged by the backends' own limits."""
        if len(self.equations) == 1:
            return None
        return None if find_link(self.equations, [tuple(x.shape) for x in operands]) else NO_LINK


pass_through(FusedProgram)


def fuse(
    *equations: str,
    epilogue: Callable[..., object] | None = None,
    extras: Sequence[str] = (),
    reduce: str | None = None,
) -> FusedProgram:
    """Describe a program whose intermediates never reach memory: HBM in a kernel, or more than a block on PyTorch.

    Either one contraction of two operands with a function of its result and a sum, or a chain of contractions in which
    the result of each is the first operand of the next.

    Args:
        equations: explicit equations such as ``"ik,jk->ij"``; several make a chain.
        epilogue: an elementwise function of the contraction and of the extra operands, written with arithmetic and
            functions of torch. It is called once, to write it down.
        extras: labels of each extra operand, among those of the result: ``("i", "ij")``.
        reduce: what to keep of the result, ``"ij->i"``; everything by default.

    Returns:
        A program to call with the operands, extra ones last.

    Raises:
        ArgumentError: an equation, the epilogue or the reduction cannot be read; functions a kernel lacks are named.

    Example:
        >>> squares = fuse("ik,jk->ij", epilogue=lambda t, d: t * t / d, extras=("j",), reduce="ij->i")
        >>> squares(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
        tensor([36., 36.])
    """
    check.refuse(not equations, "fuse", "equations", (), "at least one")
    extras = check.sequence("fuse", "extras", extras)
    for text in (*equations, *extras, *(() if reduce is None else (reduce,))):
        check.kind("fuse", "equations, extras or reduce", text, str, "texts of labels")
    texts = tuple(text.replace(" ", "") for text in equations)
    for text in texts:
        left, arrow, _ = text.partition("->")
        if not arrow or "." in text or left.count(",") != 1:
            raise ArgumentError("fuse", "equation", text, "two operands and an explicit output: 'ik,jk->ij'")
    for before, after in itertools.pairwise(texts):
        output, taken = before.partition("->")[2], after.partition(",")[0]
        if len(output) != len(taken):
            raise ArgumentError(
                "fuse", "number of axes", {f"result of {before}": len(output), f"first operand of {after}": len(taken)}
            )
    result = texts[-1].partition("->")[2]
    if len(texts) > 1 and (epilogue is not None or reduce is not None or extras):
        raise ArgumentError("fuse", "epilogue", epilogue, "None in a chain of contractions")
    if epilogue is None and extras:
        raise ArgumentError("fuse", "extras", tuple(extras), "none without an epilogue")
    check.refuse(len(extras) > MAX_EXTRAS, "fuse", "extras", len(extras), f"at most {MAX_EXTRAS}")
    for labels in extras:
        if not set(labels) <= set(result) or len(set(labels)) != len(labels):
            raise ArgumentError("fuse", "extras", labels, f"distinct labels of the result, {result!r}")
    code = () if epilogue is None else written_down(epilogue, 1 + len(extras))
    return FusedProgram(texts, code, tuple(extras), _kept_labels(reduce, result))


def _kept_labels(reduce: str | None, result: str) -> str:
    if reduce is None:
        return result
    source, arrow, kept = reduce.replace(" ", "").partition("->")
    if not arrow or source != result or not set(kept) <= set(source) or len(set(kept)) != len(kept):
        raise ArgumentError("fuse", "reduce", reduce, f"'{result}->' and labels to keep")
    return kept


@array_function
def call_program(program: Any, *operands: Tensor) -> Tensor:
    """Run a described program; on sharded arrays too."""
    count = len(program.equations) + 1 + len(program.extras)
    check.equal("fuse", "number of operands", program=count, call=len(operands))
    named = {f"operand {index}": x for index, x in enumerate(operands)}
    check.floating("fuse", **named)
    check.same_device("fuse", **named)
    if len(program.equations) > 1:
        return run_chain(program.equations, operands)
    a, b, *extras = operands
    form = _form(program.equations[0], tuple(a.shape), tuple(b.shape))
    given = [form.extra(x, labels) for x, labels in zip(extras, program.extras, strict=True)]
    groups = form.groups_of(program.reduce)
    text = _write_code(program.code)
    result = run(Fuse(form.left.of(a), form.right.of(b), given, text, groups))
    return form.finish(result, groups, program.reduce)


@functools.lru_cache(maxsize=256)
def _form(equation: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> _Form:
    return _Form(parse("fuse", equation, [a_shape, b_shape]), a_shape, b_shape)


@functools.lru_cache(maxsize=256)
def _write_code(code: tuple[Instruction, ...]) -> str:
    return json.dumps([list(instruction) for instruction in code])


class _Layout(NamedTuple):
    """How an operand of labelled axes becomes one of grouped axes."""

    wanted: tuple[int, ...]  # its shape
    order: tuple[int, ...] | None  # of its axes, where that is another
    missing: tuple[int, ...]  # axes that its groups have and it has not
    full: tuple[int, ...]  # its shape with them
    shape: list[int]  # of the grouped axes

    def of(self, x: Tensor) -> Tensor:
        if self.order is not None:
            x = x.permute(self.order)
        for axis in self.missing:
            x = x.unsqueeze(axis)
        return (x.expand(self.full) if self.missing else x).reshape(self.shape)


class _Form:
    """A contraction of two operands as one batched product, and how to get back to its labels."""

    def __init__(self, equation: Equation, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
        self.sizes = dict(equation.sizes)
        self.a, self.b = equation.inputs
        for labels, shape in ((self.a, a_shape), (self.b, b_shape)):
            sizes = tuple(self.sizes[label] for label in labels)
            if len(set(labels)) != len(labels) or shape != sizes:
                raise ArgumentError("fuse", f"operand {labels!r}", shape, f"distinct labels of sizes {sizes}")
        output = equation.output
        self.batch = "".join(x for x in output if x in self.a and x in self.b)
        self.m = "".join(x for x in output if x in self.a and x not in self.b)
        self.n = "".join(x for x in output if x in self.b and x not in self.a)
        self.k = "".join(x for x in self.a if x in self.b and x not in output)
        lost = [x for x in self.a + self.b if x not in self.batch + self.m + self.n + self.k]
        if lost:
            raise ArgumentError("fuse", "label", lost[0], "labels that are contracted or kept", hint="Sum it first")
        self.groups = {"b": self.batch, "m": self.m, "n": self.n}
        self.left, self.right = (self._layout(*side) for side in ((self.a, "bmk"), (self.b, "bkn")))
        self._extras: dict[str, _Layout] = {}

    def _layout(self, labels: str, groups: str = "bmn") -> _Layout:
        """Return how an operand becomes one axis per group; groups it has no label of have length 1."""
        named = self.groups | {"k": self.k}
        parts = [named[name] if set(named[name]) & set(labels) else "" for name in groups]
        full = "".join(parts)
        order = tuple(labels.index(label) for label in full if label in labels)
        return _Layout(
            wanted=tuple(self.sizes[label] for label in labels),
            order=None if order == tuple(range(len(order))) else order,
            missing=tuple(axis for axis, label in enumerate(full) if label not in labels),
            full=tuple(self.sizes[label] for label in full),
            shape=[self.size(part) for part in parts],
        )

    def size(self, labels: str) -> int:
        return math.prod(self.sizes[label] for label in labels)

    def extra(self, x: Tensor, labels: str) -> Tensor:
        """Return an extra operand as [B or 1, M or 1, N or 1]."""
        known = self._extras.get(labels)
        if known is None:
            known = self._extras[labels] = self._layout(labels)
        if x.shape != known.wanted:
            got, expected = tuple(x.shape), str(known.wanted)
            raise ArgumentError("fuse", f"shape of extra {labels!r}", got, expected)
        return known.of(x)

    def groups_of(self, kept: str) -> str:
        """Return the groups a kernel must keep so that ``kept`` is among their labels."""
        wanted = "".join(name for name, labels in self.groups.items() if set(labels) & set(kept))
        # Sums over the batch of a part that is kept are left to torch.
        return {"m": "bm", "n": "bn", "mn": "bmn"}.get(wanted, wanted)

    def finish(self, result: Tensor, groups: str, kept: str) -> Tensor:
        labels = "".join([self.groups[name] for name in groups])
        result = result.reshape([self.sizes[label] for label in labels])
        return result if labels == kept else einsum(f"{labels}->{kept}", result)


@op("trntensor::fuse", calls="torch.mm and a compiled epilogue")
class Fuse(NamedTuple):
    """``sum of f(a @ b, extras)`` over the axes of [B, M, N] that ``keep`` lacks; ``code`` is f, written down."""

    a: Tensor  # [B, M, K]
    b: Tensor  # [B, K, N]
    extras: list[Tensor]  # [B or 1, M or 1, N or 1]
    code: str
    keep: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        sizes = {"b": self.a.shape[0], "m": self.a.shape[1], "n": self.b.shape[2]}
        return tuple(size if name in self.keep else 1 for name, size in sizes.items())

    def fake(self) -> Tensor:
        return self.a.new_empty(self.shape)

    def cost(self) -> Cost:
        (B, M, K), N, size = self.a.shape, self.b.shape[2], self.a.dtype.itemsize
        steps = max(0, len(json.loads(self.code)) - 1 - len(self.extras))
        flops = B * M * N * ((8 if self.a.is_complex() else 2) * K + steps)
        read = size * (self.a.numel() + self.b.numel() + sum(x.numel() for x in self.extras))
        return Cost(flops, read, size * math.prod(self.shape), size * min(M * N, _BLOCK_ELEMENTS))

    def pytorch(self) -> Tensor:
        read, keep = _instructions(self.code), self.keep
        result = self.a.new_zeros(self.shape)
        for i, rows in _blocks(self.a.shape[0], self.a.shape[1], self.b.shape[2]):
            where = (i if "b" in keep else 0, rows if "m" in keep else slice(None))
            result[where] += _block(self.a, self.b, self.extras, read, keep=keep, i=i, rows=rows)
        return result

    @saves("a", "b", "extras")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Any]:
        # Block by block: what a block needs is computed again.
        keep, read, again = self.keep, _instructions(self.code), torch.is_grad_enabled()
        inputs = [self.a, self.b, *self.extras]
        totals = [torch.zeros_like(x) for x in inputs]
        with torch.enable_grad():
            fresh = inputs if again else [x.detach().requires_grad_() for x in inputs]
            fresh = [x if x.requires_grad else x.detach().requires_grad_() for x in fresh]
            for i, rows in _blocks(self.a.shape[0], self.a.shape[1], self.b.shape[2]):
                block = _block(fresh[0], fresh[1], fresh[2:], read, keep=keep, i=i, rows=rows)
                seed = grad[i if "b" in keep else 0, rows if "m" in keep else slice(None)].expand(block.shape)
                options = {"allow_unused": True, "create_graph": again, "materialize_grads": True}
                parts = torch.autograd.grad(block, fresh, seed, **options)
                totals = [total + part for total, part in zip(totals, parts, strict=True)]
        return {"a": totals[0], "b": totals[1], "extras": totals[2:]}

    def cuda(self) -> Tensor:
        from trntensor.cuda import fuse

        return fuse.run_fused(self.a, self.b, self.extras, _instructions(self.code), self.keep)

    def compiles(self) -> tuple[Hashable, float]:
        return ("trntensor.cuda.fuse", self.code, self.keep, self.a.dtype), 5.0

    def workspace(self, implementation: str) -> int:
        if implementation != "cuda":
            return self.cost().workspace
        from trntensor.cuda import fuse

        whole = self.a.shape[0] * self.a.shape[1] * self.b.shape[2]
        return self.a.dtype.itemsize * min(whole, max(fuse.BLOCK, self.b.shape[2]))

    def limits(self, implementation: str) -> str | None:
        if implementation == "cuda":
            if self.a.numel() == 0 or self.b.numel() == 0:
                return "there is nothing to multiply"
            if self.a.dtype not in (torch.float32, torch.float64):
                return f"takes float32 and float64, not {str(self.a.dtype).removeprefix('torch.')}"
            return cuda.why_no_triton(self.a.device)
        if implementation != "nki":
            return None
        if self.a.dtype != torch.float32:
            name = str(self.a.dtype).removeprefix("torch.")
            return f"computes in fp32, which is not what {name} asks for; takes float32"
        K = self.a.shape[2]
        held = 4 * K_TILE * math.ceil(K / K_TILE) + 4 * N_TILE * (len(json.loads(self.code)) + 4)
        if held > 160 * 1024:
            return f"needs {held} bytes of SBUF in each partition for K={K} and its epilogue, at most {160 * 1024}"
        return None

    def nki(self) -> Tensor:
        if self.a.numel() == 0 or self.b.numel() == 0:
            return self.pytorch()
        slots = [*(x.contiguous() for x in self.extras), *[None] * (MAX_EXTRAS - len(self.extras))]
        code = tuple(map(tuple, _instructions(self.code)))
        operands = (self.a.mT.contiguous(), self.b.contiguous(), *slots)
        result: Tensor = launch(kernels.fuse, *operands, code=code, keep=self.keep)
        # long sums come in parts
        over = [dim for dim, name in enumerate("bmn") if name not in self.keep and result.shape[dim] > 1]
        return (result.sum(over) if over else result).reshape(self.shape)


def _blocks(B: int, M: int, N: int) -> Iterator[tuple[int, slice]]:
    rows = max(1, _BLOCK_ELEMENTS // max(1, N))
    for i in range(B):
        for start in range(0, M, rows):
            yield i, slice(start, min(M, start + rows))


def _block(
    a: Tensor, b: Tensor, extras: Sequence[Tensor], code: Sequence[Instruction], *, keep: str, i: int, rows: slice
) -> Tensor:
    """Compute one block of rows of one product, with f applied and summed; [1, m or 1, n or 1]."""
    block = torch.mm(a[i, rows], b[i])
    if code:
        parts = [x[i if x.shape[0] > 1 else 0, rows if x.shape[1] > 1 else slice(None)] for x in extras]
        block = evaluate(code, [block, *parts]).expand(block.shape)
    if "m" not in keep:
        block = block.sum(0, keepdim=True)
    if "n" not in keep:
        block = block.sum(1, keepdim=True)
    return block


@functools.lru_cache(maxsize=256)
def _instructions(code: str) -> tuple[Instruction, ...]:
    return tuple(Instruction(*row) for row in json.loads(code))
