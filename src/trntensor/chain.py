"""Chains of contractions: two of the right form are one transformation, others run in pieces on PyTorch."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import trnsci
from trnsci import UnsupportedError
from trntensor.ao_to_mo_transform import transform_pair
from trntensor.einsum import einsum
from trntensor.equation import parse

NO_LINK = (
    "a kernel spans two contractions of the form e[m, n, x] left[m, i], then [i, n, x] right[n, a], with groups of "
    "indices for each letter; this chain is another"
)


def run_chain(equations: tuple[str, ...], operands: Sequence[Tensor]) -> Tensor:
    """Run the links: as one transformation where they are one, else in pieces on PyTorch."""
    shapes = [tuple(x.shape) for x in operands]
    link = find_link(equations, shapes)
    if link is not None:
        return link.run(operands)
    library = trnsci.get_backend("trntensor")
    if library not in ("auto", "pytorch"):
        raise UnsupportedError("fuse", [(library, NO_LINK)], hint="Run it on backend pytorch")
    return _blocked_chain(equations, operands)


@dataclass(frozen=True, slots=True)
class Link:
    """Two contractions as the three groups of one transformation, and the order of the result."""

    e_index: int
    e: str
    left: str
    right: str
    groups: tuple[str, str, str, str, str]
    sizes: tuple[tuple[str, int], ...]
    output: str

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        """Transform, and put the axes in order."""
        k1, k2, x, i, a = self.groups
        e, left, right = operands[self.e_index], operands[1 - self.e_index], operands[2]
        sizes = dict(self.sizes)

        def group_axes(t: Tensor, labels: str, groups: Sequence[str]) -> Tensor:
            order = [labels.index(label) for group in groups for label in group]
            return t.permute(order).reshape([math.prod(sizes[label] for label in group) for group in groups])

        product = transform_pair(
            group_axes(e, self.e, (k1, k2, x)),
            group_axes(left, self.left, (k1, i)),
            group_axes(right, self.right, (k2, a)),
        )
        natural = i + a + x
        product = product.reshape([sizes[label] for label in natural])
        order = [natural.index(label) for label in self.output]
        return product.permute(order).contiguous()


def find_link(equations: tuple[str, ...], shapes: Sequence[tuple[int, ...]]) -> Link | None:
    """Return the chain as one transformation, or ``None``."""
    if len(equations) != 2:
        return None
    first = parse("fuse", equations[0], shapes[:2])
    middle = dict(first.sizes)
    second = parse("fuse", equations[1], [tuple(middle[x] for x in first.output), shapes[2]])
    # One alphabet for both: labels of the second take the names the first gave, its own a new one each.
    names = dict(zip(second.inputs[0], first.output, strict=True))
    spare = iter(chr(code) for code in range(0x1000, 0x2000))
    for label in second.inputs[1] + second.output:
        names.setdefault(label, next(spare))
    right = "".join(names[x] for x in second.inputs[1])
    output = "".join(names[x] for x in second.output)
    sizes = middle | {names[label]: size for label, size in second.sizes}
    k1 = "".join(x for x in first.inputs[0] if x in first.inputs[1] and x not in first.output)
    k2 = "".join(x for x in first.output if x in right and x not in output)
    a = "".join(x for x in right if x not in k2)
    for index in (0, 1):
        e, left = first.inputs[index], first.inputs[1 - index]
        i = "".join(x for x in left if x not in k1)
        x = "".join(label for label in e if label not in k1 + k2)
        fits = set(k2) <= set(e) and not set(i) & set(e) and set(first.output) == set(k2 + i + x)
        fits = fits and set(output) == set(i + a + x) and not set(a) & set(first.output)
        distinct = all(len(set(t)) == len(t) for t in (e, left, right, output))
        given = (shapes[index], shapes[1 - index], shapes[2])
        whole = all(tuple(sizes[label] for label in t) == s for t, s in zip((e, left, right), given, strict=True))
        if fits and distinct and whole and k1 and k2:
            return Link(index, e, left, right, (k1, k2, x, i, a), tuple(sizes.items()), output)
    return None


def _blocked_chain(equations: tuple[str, ...], operands: Sequence[Tensor]) -> Tensor:
    """Cut a label that runs from the first operands to the result, so that intermediates exist one piece at a time."""
    traced = _survivors(equations)
    first_labels = equations[0].partition("->")[0].split(",")
    sizes = {
        label: operands[index].shape[labels.index(label)]
        for index, labels in enumerate(first_labels)
        for label in labels
    }
    candidates = [label for label in traced if sizes.get(label, 1) > 1]
    if not candidates:
        return _links(equations, operands)
    label = max(candidates, key=lambda x: sizes[x])
    pieces = min(sizes[label], 8)
    bounds = [sizes[label] * n // pieces for n in range(pieces + 1)]
    axis = equations[-1].partition("->")[2].index(traced[label])
    parts = []
    for start, stop in itertools.pairwise(bounds):
        cut = [
            x.narrow(first_labels[index].index(label), start, stop - start)
            if index < 2 and label in first_labels[index]
            else x
            for index, x in enumerate(operands)
        ]
        parts.append(_links(equations, cut))
    return torch.cat(parts, axis)


def _links(equations: tuple[str, ...], operands: Sequence[Tensor]) -> Tensor:
    product = einsum(equations[0], operands[0], operands[1])
    for equation, x in zip(equations[1:], operands[2:], strict=True):
        product = einsum(equation, product, x)
    return product


def _survivors(equations: tuple[str, ...]) -> dict[str, str]:
    """Return labels of the first equation that later operands leave alone, and their names in the result."""
    now = {label: label for label in equations[0].partition("->")[2]}
    for before, after in itertools.pairwise(equations):
        labels = before.partition("->")[2]
        terms, _, output = after.partition("->")
        taken, other = terms.split(",")
        renamed = dict(zip(labels, taken, strict=True))
        now = {
            start: renamed[name]
            for start, name in now.items()
            if name in renamed and renamed[name] in output and renamed[name] not in other
        }
    return now
