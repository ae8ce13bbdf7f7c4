"""trntensor: NumPy's einsum in extended precision as oracle, within the bound the plan of the same call reports."""

import numpy as np
import torch

import trntensor
from tests.campaign.draw import COMPLEX, HALF, REAL, Draw
from tests.campaign.oracles import narrow, summed, unit, wide, within_range
from tests.campaign.trial import EXEMPT, Outside, Trial, public, spec

EXEMPT.update(
    {
        "trntensor.get_backend": "a setting",
        "trntensor.set_backend": "a setting",
        "trntensor.to_xla": "moves to a device",
        "trntensor.from_xla": "moves from a device",
    }
)
DTYPES = (*REAL, *REAL, *COMPLEX)
FINITE = "sums of magnitudes inside the dtype's range"
LABELS = "ijklmn"


def equation(draw: Draw, count: int, *, repeated: bool = True, most: int = 2000) -> tuple[str, dict[str, int]]:
    """A random expression and the sizes of its labels."""
    sizes = {label: draw.among(0, 1, 2, 3, 5, 7, 8, 13, 33) for label in LABELS}
    sizes = {label: min(size, draw.largest) for label, size in sizes.items()}
    terms = []
    for _ in range(count):
        labels = list(draw.rng.permutation(list(LABELS))[: draw.among(0, 1, 2, 2, 3)])
        if repeated and labels and draw.chance(0.1):
            labels.append(labels[0])
        terms.append("".join(labels))
    used = sorted(set("".join(terms)))
    kept = [label for label in draw.rng.permutation(used) if draw.chance(0.5)] if used else []
    if np.prod([sizes[label] for label in used], dtype=float) > most * 100:
        raise Outside
    return ",".join(terms) + "->" + "".join(kept), sizes


def contracted(subscripts: str, operands: list[np.ndarray]) -> np.ndarray:
    """In extended precision. NumPy's einsum writes beyond its memory where an operand with a diagonal is empty."""
    if all(operand.size for operand in operands):
        return np.einsum(subscripts, *operands)
    inputs, output = subscripts.split("->")
    shape = [n for operand in operands for n in operand.shape]
    sizes = dict(zip(inputs.replace(",", ""), shape, strict=True))
    return np.zeros([sizes[x] for x in output], np.result_type(*operands))


@spec("trntensor.einsum", "trntensor.plan", promise="`plan.error_bound` of the contraction of magnitudes", when=FINITE)
def einsum(draw: Draw, name: str) -> Trial:
    dtype = draw.dtype(*DTYPES, *HALF)
    subscripts, sizes = equation(draw, draw.among(1, 2, 2, 3))
    inputs = subscripts.split("->")[0].split(",")
    operands = [draw.tensor(tuple(sizes[x] for x in labels), dtype) for labels in inputs]
    draw.log.append(subscripts)
    planned = trntensor.plan(subscripts, *operands)
    alpha, beta = (draw.number(dtype), draw.number(dtype)) if name.endswith("einsum") else (1.0, 0.0)
    values = [wide(x) for x in operands]
    product = contracted(subscripts, values)
    size = abs(alpha) * contracted(subscripts, [np.abs(x) for x in values])
    exact = alpha * product if alpha != 0 else 0 * product
    c = draw.tensor(product.shape, dtype) if beta != 0 else None
    if c is not None:
        exact, size = exact + beta * wide(c), size + abs(beta) * np.abs(wide(c))
    # steps of three operands meet in any order
    largest = np.prod([float(np.max(np.abs(x), initial=0.0)) for x in values]) * max(1, np.prod(list(sizes.values())))
    within_range(dtype, size, np.array(largest))
    smallest = np.prod([float(np.min(np.abs(x)[np.abs(x) > 0], initial=np.inf)) for x in values])
    if smallest < torch.finfo(dtype).tiny * 1e3:
        raise Outside
    bound = narrow((planned.error_bound + 4 * unit(dtype) + 2.0**-52) * size + torch.finfo(dtype).smallest_normal).real
    if name.endswith("plan"):
        run, args, kwargs = (lambda *xs: trntensor.plan(subscripts, *xs)(*xs)), tuple(operands), {}
        return Trial(run, args, kwargs, lambda: narrow(exact), lambda _: bound, arrays=False, compiles=False)
    kwargs = {"alpha": alpha} if c is None else {"alpha": alpha, "beta": beta, "c": c}
    return Trial(trntensor.einsum, (subscripts, *operands), kwargs, lambda: narrow(exact), lambda _: bound)


@spec("trntensor.multi_einsum", "trntensor.tensordot", "trntensor.transpose", promise="that of einsum", when=FINITE)
def relatives(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*DTYPES)
    m, k, n = draw.size(0, 33), draw.size(0, 33), draw.size(0, 33)
    a, b = draw.tensor((m, k, 2), dtype), draw.tensor((k, 2, n), dtype)
    exact = np.tensordot(wide(a), wide(b), 2)
    size = np.tensordot(np.abs(wide(a)), np.abs(wide(b)), 2)
    within_range(dtype, size)
    bound = summed(2 * k + 2, size, exact, dtype)
    if stem == "transpose":
        axes = tuple(int(x) for x in draw.rng.permutation(3))
        return Trial(
            *(trntensor.transpose, (a, axes), {}, lambda: narrow(wide(a).transpose(axes))),
            *(lambda e: np.zeros(e.shape),), kernels="maybe",
        )  # fmt: skip
    if stem == "tensordot":
        return Trial(trntensor.tensordot, (a, b, 2), {}, lambda: narrow(exact), lambda _: bound)

    def run(a, b):
        return trntensor.multi_einsum([("mkt,ktn->mn", a, b), ("mkt,ktn->nm", a, b)])

    return Trial(
        *(run, (a, b), {}, lambda: (narrow(exact), narrow(exact.T)), lambda _: (bound, bound.T)),
        arrays=False,
        compiles=False,
    )


OPERATORS = {
    "identity": lambda x: x, "neg": lambda x: -x, "abs": np.abs, "conj": np.conj, "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp, "tanh": np.tanh, "sin": np.sin, "ceil": np.ceil, "floor": np.floor,
}  # fmt: skip
COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@spec(
    *(f"trntensor.{stem}" for stem in ("elementwise", "elementwise_binary", "elementwise_trinary", "permute")),
    promise="a rounding for each operation, four for functions", when="results inside the dtype's range",
)  # fmt: skip
def elementwise(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*REAL)
    count = {"permute": 1, "elementwise_binary": 2, "elementwise_trinary": 3}.get(stem, draw.among(1, 2, 3))
    sizes = {label: draw.size(0, 33) for label in "ijk"}
    output = "".join(draw.rng.permutation(list("ijk")))
    labels = ["".join(draw.rng.permutation(list("ijk"))[: draw.among(3, 3, 2, 1)]) for _ in range(count)]
    # every label of the result is some operand's
    labels[int(draw.rng.integers(count))] = "".join(draw.rng.permutation(list("ijk")))
    operands = [
        draw.tensor(tuple(sizes[x] for x in term), dtype, kind=draw.among("gaussian", "ramp", "integers"))
        for term in labels
    ]
    operators = [draw.among(*OPERATORS) for _ in range(count)]
    scalars = [float(draw.number(torch.float64)) for _ in range(count)]
    combine = [draw.among("add", "multiply", "maximum", "minimum") for _ in range(count - 1)]
    exact = size = None
    for i, (term, x) in enumerate(zip(labels, operands, strict=True)):
        value = scalars[i] * OPERATORS[operators[i]](wide(x))
        value = np.einsum(f"{term}->{''.join(x for x in output if x in term)}", value)
        value = value.reshape([sizes[x] if x in term else 1 for x in output])
        value = np.broadcast_to(value, [sizes[x] for x in output])
        if exact is None:
            exact, size = value, np.abs(value)
        else:
            exact = COMBINE[combine[i - 1]](exact, value)
            size = size * np.abs(value) if combine[i - 1] == "multiply" else size + np.abs(value)
    within_range(dtype, size)
    bound = narrow((6 * count + 2) * (unit(dtype) + 2.0**-53) * size + torch.finfo(dtype).smallest_normal)
    subscripts = ",".join(labels) + "->" + output
    draw.log.append(f"{subscripts} {operators} {scalars} {combine}")
    kwargs: dict = {"operators": operators}
    if stem == "permute":
        kwargs = {"operator": operators[0], "alpha": scalars[0]}
    elif stem == "elementwise":
        kwargs |= {"scalars": scalars} | ({"combine": combine} if combine else {})
    elif stem == "elementwise_binary":
        kwargs |= {"alpha": scalars[0], "gamma": scalars[1], "combine": combine[0]}
    else:
        kwargs |= {"alpha": scalars[0], "beta": scalars[1], "gamma": scalars[2], "combine": combine}
    smooth = not {"relu", "abs", "ceil", "floor"} & set(operators) and not {"maximum", "minimum"} & set(combine)
    args = (subscripts, *operands)
    return Trial(
        *(public(name), args, kwargs, lambda: narrow(exact), lambda _: bound), kernels="maybe", differentiable=smooth
    )


@spec("trntensor.reduce", promise="`g(n + 2)` of the sum of magnitudes; extremes exact", when=FINITE)
def reduce(draw: Draw) -> Trial:
    dtype, fold = draw.dtype(*REAL), draw.among("add", "add", "multiply", "maximum", "minimum")
    shape = (draw.size(0, 33), draw.size(0, 17), draw.size(0, 9))
    kept = draw.among("", "i", "j", "ik", "ki", "ijk")
    alpha, beta = draw.number(dtype), draw.number(dtype)
    a = draw.tensor(shape, dtype, kind=draw.among("gaussian", "ramp", "alternating") if fold == "multiply" else None)
    axes = tuple(i for i, label in enumerate("ijk") if label not in kept)
    if fold in ("maximum", "minimum") and 0 in [shape[i] for i in axes]:
        raise Outside
    how = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}[fold]
    rest = "".join(x for x in "ijk" if x in kept)
    value, size = how(wide(a), axis=axes), (np.sum if fold == "add" else how)(np.abs(wide(a)), axis=axes)
    if fold in ("maximum", "minimum"):
        size = np.max(np.abs(wide(a)), axis=axes, initial=0.0)
    value, size = (np.einsum(f"{rest}->{kept}", x) for x in (value, size))
    c = draw.tensor(value.shape, dtype, kind="gaussian") if beta != 0 else None
    exact = (alpha * value if alpha != 0 else 0 * value) + (0 if c is None else beta * wide(c))
    size = abs(alpha) * size + (0 if c is None else abs(beta) * np.abs(wide(c)))
    within_range(dtype, size, value)
    terms = int(np.prod([shape[i] for i in axes])) + 2
    bound = summed(terms, size, exact, dtype)
    args, kwargs = (f"ijk->{kept}", a), {"op": fold, "alpha": alpha} | ({} if c is None else {"beta": beta, "c": c})
    smooth = fold == "add"
    return Trial(
        trntensor.reduce, args, kwargs, lambda: narrow(exact), lambda _: bound, kernels="maybe", differentiable=smooth
    )


@spec("trntensor.fuse", promise="`g(K + 2)`, a rounding for each operation, `g(n)` for the sum", when=FINITE)
def fuse(draw: Draw) -> Trial:
    dtype, m, k, n = draw.dtype(*REAL), draw.size(1, 65), draw.size(1, 65), draw.size(1, 65)
    kinds = ("gaussian", "constant", "ramp", "integers")
    a, b = draw.tensor((m, k), dtype, kind=draw.among(*kinds)), draw.tensor((n, k), dtype, kind=draw.among(*kinds))
    d = draw.tensor((n,), dtype, change=lambda v: 1 + np.abs(np.tanh(v)))
    product = wide(a) @ wide(b).T
    size = np.abs(wide(a)) @ np.abs(wide(b)).T
    kept = draw.among(None, "ij->i", "ij->")
    exact, bound = product * product / wide(d), (2 * (k + 2) + 6) * unit(dtype) * size * size / wide(d)
    axes = {None: (), "ij->i": (1,), "ij->": (0, 1)}[kept]
    count = int(np.prod([exact.shape[i] for i in axes])) if axes else 0
    bound = (bound + count * unit(dtype) * size * size / wide(d)).sum(axis=axes) * 1.01 + torch.finfo(
        dtype
    ).smallest_normal
    exact = exact.sum(axis=axes)
    program = trntensor.fuse("ik,jk->ij", epilogue=lambda t, d: t * t / d, extras=("j",), reduce=kept)
    return Trial(
        *(program, (a, b, d), {}, lambda: narrow(exact), lambda _: narrow(bound)),
        kernels="maybe",
        arrays=False,
        compiles=False,
    )


@spec("trntensor.ao_to_mo_transform", promise="`g(2 nao + 4)` of magnitudes, twice for four indices", when=FINITE)
def transformed(draw: Draw) -> Trial:
    dtype, nao, nocc, nvir, naux = (
        draw.dtype(*REAL),
        draw.size(1, 17),
        draw.size(1, 5),
        draw.size(1, 9),
        draw.size(1, 17),
    )
    four = draw.chance(0.3)
    eri = draw.tensor((nao,) * 4 if four and nao < 9 else (nao, nao, naux), dtype, kind="gaussian")
    occupied, virtual = draw.tensor((nao, nocc), dtype, kind="gaussian"), draw.tensor((nao, nvir), dtype, kind="ramp")

    def made(e, o, v):
        if e.ndim == 3:
            return np.einsum("mi,na,mnp->iap", o, v, e, optimize=True)
        return np.einsum("mi,na,rj,sb,mnrs->iajb", o, v, o, v, e, optimize=True)

    values = [wide(x) for x in (eri, occupied, virtual)]
    exact, size = made(*values), made(*map(np.abs, values))
    bound = narrow((2 if eri.ndim == 4 else 1) * (2 * nao + 4) * unit(dtype) * 1.01 * size)
    return Trial(
        *(trntensor.ao_to_mo_transform, (eri, occupied, virtual), {}, lambda: narrow(exact), lambda _: bound),
        kernels="maybe",
    )


@spec(
    "trntensor.mp2_energy",
    promise="`6 g(3 naux + nvir + nocc^2 + 12)` of the sum of magnitudes, every backend and dtype",
)
def energy(draw: Draw) -> Trial:
    dtype, nocc, nvir, naux = draw.dtype(*REAL), draw.size(1, 5), draw.size(1, 17), draw.size(1, 33)
    b = draw.tensor((nocc, nvir, naux), dtype, kind=draw.among("gaussian", "constant", "ramp", "alternating", "spike"))
    eps_occ = draw.tensor((nocc,), dtype, change=lambda v: -0.5 - 3 * np.abs(np.tanh(v)))
    eps_vir = draw.tensor((nvir,), dtype, change=lambda v: 0.2 + 5 * np.abs(np.tanh(v)))
    t = np.einsum("iap,jbp->ijab", wide(b), wide(b))
    size = np.einsum("iap,jbp->ijab", np.abs(wide(b)), np.abs(wide(b)))
    o, v = wide(eps_occ), wide(eps_vir)
    gap = o[:, None, None, None] + o[None, :, None, None] - v[None, None, :, None] - v[None, None, None, :]
    exact = np.sum(t * (2 * t - t.transpose(0, 1, 3, 2)) / gap)
    bound = narrow(6 * (3 * naux + nvir + nocc**2 + 12) * unit(dtype) * 1.01 * np.sum(size * size / np.abs(gap)))
    return Trial(trntensor.mp2_energy, (b, eps_occ, eps_vir), {}, lambda: narrow(exact), lambda _: bound, simulated=0.3)


@spec(
    "trntensor.block_sparse",
    "trntensor.block_einsum",
    promise="that of einsum on whole tensors; blocks exact",
    when=FINITE,
)
def blocks(draw: Draw, name: str) -> Trial:
    dtype = draw.dtype(*DTYPES)
    cuts = [tuple(draw.among(1, 2, 5, 8) for _ in range(draw.among(1, 2, 3))) for _ in range(3)]
    m, k, n = (sum(cut) for cut in cuts)
    rng = np.random.default_rng(draw.seedling())

    def thin(v, rows, columns):
        kept = rng.random((len(rows), len(columns))) < 0.6
        return v * np.repeat(np.repeat(kept, rows, 0), columns, 1)

    a = draw.tensor((m, k), dtype, change=lambda v: thin(v, cuts[0], cuts[1]))
    b = draw.tensor((k, n), dtype, change=lambda v: thin(v, cuts[1], cuts[2]))
    options = {"kernels": "maybe", "arrays": False, "compiles": False, "differentiable": False}
    if name.endswith("block_sparse"):

        def run(a):
            made = trntensor.block_sparse(a, cuts[:2])
            return made.dense() if made.blocks else torch.zeros(m, k, dtype=dtype)

        return Trial(run, (a,), {}, lambda: narrow(wide(a)), lambda e: np.zeros(e.shape), **options)

    def run(a, b):
        x, y = trntensor.block_sparse(a, cuts[:2]), trntensor.block_sparse(b, cuts[1:])
        made = trntensor.block_einsum("ij,jk->ik", x, y)
        # without a block there is no dtype
        return made.dense() if made.blocks else torch.zeros(m, n, dtype=dtype)

    exact, size = wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b))
    within_range(dtype, size)
    bound = summed(k, size, exact, dtype)
    return Trial(run, (a, b), {}, lambda: narrow(exact), lambda _: bound, **options)


@spec(
    "trntensor.tensor_train", "trntensor.tucker", "trntensor.cp",
    promise="the error it reports, exact for full ranks", when="finite data",
)  # fmt: skip
def decomposed(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*REAL)
    shape = tuple(draw.size(2, 8) for _ in range(3))
    if min(shape) < 2:
        raise Outside
    kinds = ("gaussian", "constant", "ramp", "alternating", "spike", "graded", "scaled")
    x = draw.tensor(shape, dtype, kind=draw.among(*kinds))
    options = {"tensor_train": {"error": draw.among(None, 0.1, 1e-3)}, "tucker": {"ranks": draw.among(1, 2)}}
    options["cp"] = {"rank": draw.among(1, 2), "max_iter": 20}
    total = float(np.linalg.norm(narrow(wide(x)).ravel() / max(float(np.abs(wide(x)).max()), 1e-300)))
    largest = max(float(np.abs(wide(x)).max()), 1e-300)

    def check(result, kernel):
        rest = narrow((wide(result.reconstruct()) - wide(x)) / largest)
        error = float(np.linalg.norm(rest.ravel())) / max(total, 1e-300)
        slack = 200 * unit(dtype) * np.sqrt(np.prod(shape))
        reported = result.convergence.error
        assert error <= 1.001 * reported + slack, (error, reported)
        wanted = options["tensor_train"].get("error") if stem == "tensor_train" else None
        assert wanted is None or error <= wanted + slack

    return Trial(
        *(public(name), (x,), options[stem]), check=check,
        kernels="maybe", simulated=0.05, differentiable=False, arrays=False, compiles=False,
    )  # fmt: skip
