"""Block-sparse tensors: axes cut into sections, blocks stored where they are not zero, contracted as grouped products.

cuTENSOR's ``cutensorBlockSparseContract``. Symmetries of particle number, spin or momentum give tensors of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas import grouped_gemm
from trnsci import ArgumentError, check, libraries
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
        if self.blocks:
            check.floating("BlockSparse", **{f"block {position}": block for position, block in self.blocks.items()})
        counts = tuple(map(len, self.sections))
        for position, block in self.blocks.items():
            if len(position) != len(counts) or not all(0 <= part < n for part, n in zip(position, counts, strict=True)):
                raise ArgumentError("BlockSparse", "position", position, f"a section of each axis, below {counts}")
            shape = tuple([lengths[part] for part, lengths in zip(position, self.sections, strict=True)])
            if block.shape != shape:
                raise ArgumentError("BlockSparse", f"shape of block {position}", tuple(block.shape), str(shape))

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


def _cut_in_halves(array: Tensor, density: float) -> BlockSparse:
    """Return ones in sections of half the size of every axis."""
    sections = [[size - size // 2, size // 2] if size > 1 else [size] for size in array.shape]
    return block_sparse(torch.ones(array.shape, dtype=array.dtype, device="cpu"), sections)


libraries.operand("BlockSparse", make=_cut_in_halves)


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

    Only pairs of stored blocks that meet are multiplied. Blocks that meet the same partners are stacked and what adds
    up to one block of the result is one longer sum: few, large products, all one program, `trnblas.grouped_gemm`.

    Args:
        subscripts: an expression of two operands, ``"ijk,kl->ijl"``; labels of one operand are distinct.
        a: the first operand.
        b: the second; shared labels have the same sections.
        alpha: factor of the contraction.
        beta: factor of ``c``.
        c: the addend, of the result's sections.
        precision: as for `einsum`.

    Returns:
        The blocks that some pair of blocks, or ``c``, reaches, as views of these products. Errors are bounded as for
        `einsum` on whole tensors.

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
    blocks = _products(equation.inputs, output, a, b, sections=sections, precision=precision)
    if alpha != 1:
        blocks = {position: alpha * block for position, block in blocks.items()}
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
    shared = "".join(label for label in inputs[0] if label in inputs[1])
    rows, columns = ("".join(label for label in labels if label not in shared) for labels in inputs)
    if set(rows + columns) != set(output):
        # A label kept of both, or summed in one alone: each meeting is a contraction of its own.
        return _one_by_one(inputs, output, shared, a, b, precision=precision)
    partners: dict[Position, dict[int, _Bands]] = {}
    for right in _bands(b, inputs[1], columns, shared):
        for part in right.parts:
            partners.setdefault(part, {})[id(right)] = right
    pairs: list[tuple[_Bands, _Bands]] = []
    for left in _bands(a, inputs[0], rows, shared):
        meeting = {key: right for part in left.parts for key, right in partners.get(part, {}).items()}
        pairs += [(left, right) for right in meeting.values()]
    lefts, rights = [], []
    for left, right in pairs:
        met = [part for part in left.parts if part in right.parts]
        lefts.append(torch.cat([left.parts[part] for part in met], 1))
        rights.append(torch.cat([right.parts[part] for part in met], 1))
    natural = rows + columns
    order = [natural.index(label) for label in output]
    blocks: dict[Position, Tensor] = {}
    products = grouped_gemm(1.0, lefts, rights, trans_b=True, precision=precision)
    for (left, right), product in zip(pairs, products, strict=True):
        for row, band in zip(left.positions, product.split(left.heights), strict=True):
            for column, matrix in zip(right.positions, band.split(right.heights, 1), strict=True):
                at = row + column
                block = matrix.reshape([sections[label][part] for label, part in zip(natural, at, strict=True)])
                blocks[tuple([at[axis] for axis in order])] = block if natural == output else block.permute(order)
    return blocks


class _Bands(NamedTuple):
    """Rows of blocks that store the same shared sections, one below the other: they meet the same partners."""

    positions: list[Position]
    heights: list[int]
    parts: dict[Position, Tensor]


def _bands(x: BlockSparse, labels: str, kept: str, shared: str) -> list[_Bands]:
    """Return the blocks as matrices of kept rows and shared columns, stacked where they can be one factor."""
    axes = [labels.index(label) for label in kept + shared]
    matrices: dict[Position, dict[Position, Tensor]] = {}
    for position, block in x.blocks.items():
        at = tuple([position[axis] for axis in axes])
        sizes = [block.shape[axis] for axis in axes]
        matrix = block.permute(axes).reshape(math.prod(sizes[: len(kept)]), math.prod(sizes[len(kept) :]))
        matrices.setdefault(at[: len(kept)], {})[at[len(kept) :]] = matrix
    alike: dict[tuple[Position, ...], list[Position]] = {}
    for row, band in matrices.items():
        alike.setdefault(tuple(sorted(band)), []).append(row)
    return [
        _Bands(
            rows,
            [matrices[row][stored[0]].shape[0] for row in rows],
            {part: torch.cat([matrices[row][part] for row in rows]) for part in stored},
        )
        for stored, rows in alike.items()
    ]


def _one_by_one(
    inputs: Sequence[str], output: str, shared: str, a: BlockSparse, b: BlockSparse, *, precision: Precision | None
) -> dict[Position, Tensor]:
    text = f"{','.join(inputs)}->{output}"
    partners: dict[Position, list[tuple[dict[str, int], Tensor]]] = {}
    for position, block in b.blocks.items():
        at = dict(zip(inputs[1], position, strict=True))
        partners.setdefault(tuple(at[label] for label in shared), []).append((at, block))
    blocks: dict[Position, Tensor] = {}
    for position, block in a.blocks.items():
        at = dict(zip(inputs[0], position, strict=True))
        for other_at, other in partners.get(tuple(at[label] for label in shared), []):
            where = tuple((at | other_at)[label] for label in output)
            term = einsum(text, block, other, precision=precision)
            blocks[where] = blocks[where] + term if where in blocks else term
    return blocks
