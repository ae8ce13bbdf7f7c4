"""Block-sparse tensors: axes cut into sections, blocks stored where they are not zero, contracted as grouped products.

cuTENSOR's ``cutensorBlockSparseContract``. Symmetries of particle number, spin or momentum give tensors of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trnblas import grouped_gemm
from trnsci import ArgumentError, check
from trnsci.precision import Precision
from trntensor.einsum import einsum
from trntensor.equation import parse

Position = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockSparse:
    """A tensor by its blocks.

    Attributes:
        sections: lengths of the sections of every axis.
        blocks: by position (a section index per axis), tensors of the shape the sections give. What is not there is 0.
    """

    sections: tuple[tuple[int, ...], ...]
    blocks: Mapping[Position, Tensor]

    def __post_init__(self) -> None:
        for position, block in self.blocks.items():
            if type(block) is not Tensor:
                check.tensor("BlockSparse", **{f"block {position}": block})
            inside = len(position) == len(self.sections) and all(
                0 <= part < len(lengths) for part, lengths in zip(position, self.sections, strict=True)
            )
            if not inside:
                counts = tuple(len(lengths) for lengths in self.sections)
                raise ArgumentError("BlockSparse", "position", position, f"a section of each axis, below {counts}")
            shape = tuple(lengths[part] for part, lengths in zip(position, self.sections, strict=True))
            if tuple(block.shape) != shape:
                raise ArgumentError("BlockSparse", f"shape of block {position}", tuple(block.shape), str(shape))
        if self.blocks:
            check.floating("BlockSparse", **{f"block {position}": block for position, block in self.blocks.items()})

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole tensor."""
        return tuple(sum(lengths) for lengths in self.sections)

    def dense(self) -> Tensor:
        """Return the whole tensor, zeros included; at least one block must give the dtype."""
        check.refuse(not self.blocks, "BlockSparse.dense", "blocks", {}, "at least one")
        whole = next(iter(self.blocks.values())).new_zeros(self.shape)
        starts = [[sum(lengths[:part]) for part in range(len(lengths))] for lengths in self.sections]
        for position, block in self.blocks.items():
            where = tuple(
                slice(start[part], start[part] + lengths[part])
                for part, start, lengths in zip(position, starts, self.sections, strict=True)
            )
            whole[where] = block
        return whole


def block_sparse(x: Tensor, sections: Sequence[Sequence[int]]) -> BlockSparse:
    """Cut a tensor into blocks and keep those that are not zero.

    Args:
        x: the tensor.
        sections: lengths of the sections of every axis; they add up to its size.

    Example:
        >>> block_sparse(torch.eye(4), [(2, 2), (2, 2)]).blocks.keys()
        dict_keys([(0, 0), (1, 1)])
    """
    check.tensor("block_sparse", x=x)
    rows = [
        check.sequence("block_sparse", "sections", row) for row in check.sequence("block_sparse", "sections", sections)
    ]
    kept = tuple(tuple(check.integer("block_sparse", "sections", size, 0, 2**63 - 1) for size in row) for row in rows)
    totals = tuple(sum(lengths) for lengths in kept)
    check.refuse(totals != tuple(x.shape), "block_sparse", "sections", totals, f"sums {tuple(x.shape)}")
    pieces: list[tuple[Position, Tensor]] = [((), x)]
    for axis, lengths in enumerate(kept):
        pieces = [
            ((*position, part), cut)
            for position, piece in pieces
            for part, cut in enumerate(piece.split(lengths, axis))
        ]
    return BlockSparse(kept, {position: piece for position, piece in pieces if bool((piece != 0).any())})


@check.hands_on("grouped_gemm")
def block_einsum(
    subscripts: str,
    a: BlockSparse,
    b: BlockSparse,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: BlockSparse | None = None,
    precision: Precision | None = None,
) -> BlockSparse:
    """Contract two block-sparse tensors: ``alpha * contraction + beta * c``.

    Only pairs of stored blocks that meet are multiplied. What adds up to one block of the result is one product of
    longer sums, and all products are one program, `trnblas.grouped_gemm`.

    Args:
        subscripts: an expression of two operands, ``"ijk,kl->ijl"``; labels of one operand are distinct.
        a: the first operand.
        b: the second; shared labels have the same sections.
        alpha: factor of the contraction.
        beta: factor of ``c``.
        c: the addend, of the result's sections.
        precision: as for `einsum`.

    Returns:
        The blocks that some pair of blocks, or ``c``, reaches. Errors are bounded as for `einsum` on whole tensors.

    Example:
        >>> x = block_sparse(torch.eye(4), [(2, 2), (2, 2)])
        >>> len(block_einsum("ij,jk->ik", x, x).blocks)
        2
    """
    for name, x in (("a", a), ("b", b), ("c", a if c is None else c)):
        check.kind("block_einsum", name, x, BlockSparse, "a BlockSparse, as block_sparse makes it")
    alpha, beta = (check.number("block_einsum", *each) for each in (("alpha", alpha), ("beta", beta)))
    equation = parse("block_einsum", subscripts, [a.shape, b.shape])
    if len(equation.inputs) != 2 or any(len(set(labels)) != len(labels) for labels in equation.inputs):
        raise ArgumentError("block_einsum", "subscripts", subscripts, "two operands of distinct labels")
    sections = _sections(equation.inputs, (a, b))
    output = equation.output
    blocks = {
        position: alpha * block if alpha != 1 else block
        for position, block in _products(equation.inputs, output, a, b, sections=sections, precision=precision).items()
    }
    kept = tuple(sections[label] for label in output)
    if c is None and beta != 0:
        raise ArgumentError("block_einsum", "c", None, f"a tensor, because beta is {beta}")
    if c is not None:
        check.equal("block_einsum", "sections", c=c.sections, contraction=kept)
        for position, block in c.blocks.items() if beta != 0 else ():
            blocks[position] = blocks[position] + beta * block if position in blocks else beta * block
    return BlockSparse(kept, blocks)


def _sections(inputs: Sequence[str], operands: Sequence[BlockSparse]) -> dict[str, tuple[int, ...]]:
    sections: dict[str, tuple[int, ...]] = {}
    for labels, operand in zip(inputs, operands, strict=True):
        for label, lengths in zip(labels, operand.sections, strict=True):
            if sections.setdefault(label, lengths) != lengths:
                raise ArgumentError("block_einsum", f"sections of {label}", {"a": sections[label], "b": lengths})
    return sections


def _products(
    inputs: Sequence[str],
    output: str,
    a: BlockSparse,
    b: BlockSparse,
    *,
    sections: Mapping[str, tuple[int, ...]],
    precision: Precision | None,
) -> dict[Position, Tensor]:
    """Return the blocks of the contraction, by position."""
    first, second = inputs
    shared = [label for label in first if label in second]
    # Blocks of b by the sections they share with a.
    partners: dict[Position, list[tuple[dict[str, int], Tensor]]] = {}
    for position, block in b.blocks.items():
        at = dict(zip(second, position, strict=True))
        partners.setdefault(tuple(at[label] for label in shared), []).append((at, block))
    meetings: dict[Position, list[tuple[Tensor, Tensor]]] = {}
    for position, block in a.blocks.items():
        at = dict(zip(first, position, strict=True))
        for other_at, other in partners.get(tuple(at[label] for label in shared), []):
            both = at | other_at
            meetings.setdefault(tuple(both[label] for label in output), []).append((block, other))
    batch = [label for label in shared if label in output]
    if batch or not set(first + second) - set(shared) <= set(output):
        # A label kept of both, or summed in one alone: each meeting is a contraction of its own.
        text = f"{first},{second}->{output}"
        terms = {
            position: [einsum(text, *pair, precision=precision) for pair in pairs]
            for position, pairs in meetings.items()
        }
        return {position: sum(parts[1:], parts[0]) for position, parts in terms.items()}
    return _grouped(first, second, output, shared, meetings=meetings, sections=sections, precision=precision)


def _grouped(
    first: str,
    second: str,
    output: str,
    shared: Sequence[str],
    *,
    meetings: Mapping[Position, Sequence[tuple[Tensor, Tensor]]],
    sections: Mapping[str, tuple[int, ...]],
    precision: Precision | None,
) -> dict[Position, Tensor]:
    rows, columns = ([label for label in labels if label not in shared] for labels in (first, second))
    # a block meets many others: its matrix is made once
    met = [pair for pairs in meetings.values() for pair in pairs]
    left = {id(x): _matrix(x, first, rows, shared) for x in {id(x): x for x, _ in met}.values()}
    right = {id(y): _matrix(y, second, shared, columns) for y in {id(y): y for _, y in met}.values()}
    lefts = [_joined([left[id(x)] for x, _ in pairs], 1) for pairs in meetings.values()]
    rights = [_joined([right[id(y)] for _, y in pairs], 0) for pairs in meetings.values()]
    natural = [*rows, *columns]
    order = [natural.index(label) for label in output]
    blocks: dict[Position, Tensor] = {}
    for position, product in zip(meetings, grouped_gemm(1.0, lefts, rights, precision=precision), strict=True):
        at = dict(zip(output, position, strict=True))
        block = product.reshape([sections[label][at[label]] for label in natural])
        blocks[position] = block if natural == list(output) else block.permute(order).contiguous()
    return blocks


def _matrix(block: Tensor, labels: str, rows: Sequence[str], columns: Sequence[str]) -> Tensor:
    ordered = block.permute([labels.index(label) for label in (*rows, *columns)])
    return ordered.reshape(math.prod(ordered.shape[: len(rows)]), math.prod(ordered.shape[len(rows) :]))


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
