"""trntensor: NumPy's einsum in extended precision as oracle, within the bound the plan of the same call reports."""

import numpy as np
import torch

import trnsci
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
    sizes = dict(sorted(zip(inputs.replace(",", ""), shape, strict=True), key=lambda pair: pair[1] != 1))
    return np.zeros([sizes[x] for x in output], np.result_type(*operands))


def path(draw: Draw, count: int) -> list[tuple[int, ...]]:
    """Any order of contractions, of two operands or of all."""
    steps = [(0,)] if count == 1 else []
    while count > 1:
        taken = draw.among(2, 2, count)
        steps.append(tuple(int(i) for i in draw.rng.permutation(count)[:taken]))
        count -= taken - 1
    return steps


def accuracy(draw: Draw) -> dict:
    """How precisely: by a policy, by a target, or as the operands are."""
    return draw.among(
        *[{}] * 4,
        {"precision": draw.among("fp32", "compensated", "fp64", "fast")},
        {"target_error": draw.among(1e-2, 1e-5, 1e-9, 1e-12)},
    )


@spec("trntensor.einsum", "trntensor.plan", promise="`plan.error_bound` of the contraction of magnitudes", when=FINITE)
def einsum(draw: Draw, name: str) -> Trial:
    dtype = draw.dtype(*DTYPES, *HALF)
    subscripts, sizes = equation(draw, draw.among(1, 2, 2, 3))
    inputs = subscripts.split("->")[0].split(",")
    # an axis of one element broadcasts
    thin = [{label for label in labels if sizes[label] > 1 and draw.chance(0.05)} for labels in inputs]
    shapes = [tuple(1 if x in ones else sizes[x] for x in labels) for labels, ones in zip(inputs, thin, strict=True)]
    operands = [draw.tensor(shape, dtype) for shape in shapes]
    options = accuracy(draw)
    options["optimize"] = draw.among("auto", "auto", "greedy", "optimal", False, path(draw, len(operands)))
    draw.log.append(f"{subscripts} {options}")
    try:
        planned = trntensor.plan(subscripts, *operands, **options)
        if draw.chance(0.2):
            options["memory_limit"] = max(1, planned.peak_bytes // draw.among(1, 2, 4))
            planned = trntensor.plan(subscripts, *operands, **options)
    except (trnsci.CapacityError, trnsci.ArgumentError):
        # no order fits the memory, or no policy meets the target
        raise Outside from None
    alpha, beta = (draw.number(dtype), draw.number(dtype)) if name.endswith("einsum") else (1.0, 0.0)
    values = [wide(x) for x in operands]
    product = contracted(subscripts, values)
    size = abs(alpha) * contracted(subscripts, [np.abs(x) for x in values])
    exact = alpha * product if alpha != 0 else 0 * product
    c = draw.tensor(product.shape, dtype) if beta != 0 else None
    if c is not None:
        exact, size = exact + beta * wide(c), size + abs(beta) * np.abs(wide(c))
    # steps of three operands meet in any order; a policy asked for has the range of its arithmetic
    least = torch.float32 if planned.precision in ("fast", "fp32") and dtype not in HALF else dtype
    largest = np.prod([float(np.max(np.abs(x), initial=0.0)) for x in values]) * max(1, np.prod(list(sizes.values())))
    within_range(least, size, np.array(largest), *values)
    smallest = np.prod([float(np.min(np.abs(x)[np.abs(x) > 0], initial=np.inf)) for x in values])
    if smallest < torch.finfo(least).tiny * 1e3:
        raise Outside
    relative = options.get("target_error", planned.error_bound) + 4 * unit(dtype) + 2.0**-52
    bound = narrow(relative * size + torch.finfo(least).smallest_normal).real
    smooth = relative < 1e-10
    if name.endswith("plan"):
        held = [i for i in range(len(operands)) if draw.chance(0.3)]
        given = [x if i in held or draw.chance(0.5) else tuple(x.shape) for i, x in enumerate(operands)]

        def run(*others):
            made = trntensor.plan(subscripts, *given, dtype=dtype, constants=held, **options)
            return made(*others)

        others = tuple(x for i, x in enumerate(operands) if i not in held)
        cannot = {"arrays": False, "compiles": False, "differentiable": smooth and not held}
        return Trial(run, others, {}, lambda: narrow(exact), lambda _: bound, **cannot)
    kwargs = options | ({"alpha": alpha} if c is None else {"alpha": alpha, "beta": beta, "c": c})
    args = (subscripts, *operands)
    if draw.chance(0.15):
        lists = [[LABELS.index(x) for x in labels] for labels in (*inputs, subscripts.split("->")[1])]
        args = (*(x for pair in zip(operands, lists, strict=False) for x in pair), lists[-1])
    return Trial(trntensor.einsum, args, kwargs, lambda: narrow(exact), lambda _: bound, differentiable=smooth)


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
        pairs = draw.among(2, ([1, 2], [0, 1]), ([-1, 1], (1, -3)))
        kwargs = {} if pairs == 2 else {draw.among("axes", "dims"): pairs}
        return Trial(trntensor.tensordot, (a, b), kwargs, lambda: narrow(exact), lambda _: bound)
    options = {"precision": draw.among(None, None, "fp32", "compensated", "fp64", "fast")}
    options["optimize"] = draw.among("auto", "greedy", False, [(0, 1)])
    planned = trntensor.plan("mkt,ktn->mn", a, b, **options)
    if planned.precision in ("fp32", "fast"):
        within_range(torch.float32, size, wide(a), wide(b))
        bound = bound + narrow(planned.error_bound * size + 1e-30)

    def run(a, b):
        return trntensor.multi_einsum([("mkt,ktn->mn", a, b), ("mkt,ktn->nm", a, b)], **options)

    return Trial(
        *(run, (a, b), {}, lambda: (narrow(exact), narrow(exact.T)), lambda _: (bound, bound.T)),
        arrays=False,
        compiles=False,
        differentiable=planned.error_bound < 1e-10,
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
    operator = draw.among("identity", "identity", "neg", "abs", "relu", "ceil")
    given = OPERATORS[operator](wide(a))
    value, size = how(given, axis=axes), (np.sum if fold == "add" else how)(np.abs(given), axis=axes)
    if fold in ("maximum", "minimum"):
        size = np.max(np.abs(given), axis=axes, initial=0.0)
    value, size = (np.einsum(f"{rest}->{kept}", x) for x in (value, size))
    c = draw.tensor(value.shape, dtype, kind="gaussian") if beta != 0 else None
    exact = (alpha * value if alpha != 0 else 0 * value) + (0 if c is None else beta * wide(c))
    size = abs(alpha) * size + (0 if c is None else abs(beta) * np.abs(wide(c)))
    within_range(dtype, size, value)
    terms = int(np.prod([shape[i] for i in axes])) + 2
    bound = summed(terms, size, exact, dtype)
    args, kwargs = (f"ijk->{kept}", a), {"op": fold, "alpha": alpha} | ({} if c is None else {"beta": beta, "c": c})
    kwargs["operator"] = operator
    smooth = fold == "add" and operator in ("identity", "neg")
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
    square, cross = np.sum(t * t / gap), np.sum(t * t.transpose(0, 1, 3, 2) / gap)
    bound = narrow(6 * (3 * naux + nvir + nocc**2 + 12) * unit(dtype) * 1.01 * np.sum(size * size / np.abs(gap)))
    parts, room = draw.chance(0.3), draw.among({}, {}, {"device": "cpu"}, {"device": "cpu", "memory": 1 << 24})
    exact = tuple(map(narrow, (2 * square - cross, square, square - cross)[: 3 if parts else 1]))
    args, kwargs = (b, eps_occ, eps_vir), {"parts": parts, **room}
    cannot = {"differentiable": not room, "compiles": not room}
    return Trial(trntensor.mp2_energy, args, kwargs, lambda: exact, lambda e: (bound,) * len(e), **cannot)


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

    precision, alpha, beta = draw.among(None, None, "fp64", "compensated"), draw.number(dtype), draw.number(dtype)
    c = draw.tensor((m, n), dtype, change=lambda v: thin(v, cuts[0], cuts[2]))

    def run(a, b, c):
        x, y = trntensor.block_sparse(a, cuts[:2]), trntensor.block_sparse(b, cuts[1:])
        addend = None if beta == 0 else trntensor.block_sparse(c, cuts[::2])
        made = trntensor.block_einsum("ij,jk->ik", x, y, alpha=alpha, beta=beta, c=addend, precision=precision)
        # without a block there is no dtype
        return made.dense() if made.blocks else torch.zeros(m, n, dtype=dtype)

    exact, size = alpha * (wide(a) @ wide(b)), abs(alpha) * (np.abs(wide(a)) @ np.abs(wide(b)))
    exact, size = exact + beta * wide(c), size + abs(beta) * np.abs(wide(c))
    within_range(dtype, size, *(size / abs(alpha) if alpha else ()))
    bound = summed(k + 2, size, exact, dtype)
    return Trial(run, (a, b, c), {}, lambda: narrow(exact), lambda _: bound, **options)


@spec(
    "trntensor.tensor_train", "trntensor.tucker", "trntensor.cp",
    promise="the error it reports, exact for full ranks", when="finite data",
)  # fmt: skip
def decomposed(draw: Draw, name: str) -> Trial:
    stem, dtype = name.split(".")[1], draw.dtype(*REAL, *REAL, *COMPLEX)
    shape = tuple(draw.size(2, 8) for _ in range(draw.among(2, 3, 3)))
    if min(shape) < 2:
        raise Outside
    kinds = ("gaussian", "constant", "ramp", "alternating", "spike", "graded", "scaled")
    positive = stem == "cp" and not dtype.is_complex and draw.chance(0.3)
    # squares leave the range
    scale = torch.finfo(dtype).max ** draw.among(0.0, 0.0, 0.8, -0.8)
    x = draw.tensor(
        shape, dtype, kind=draw.among(*kinds), change=lambda v: scale * np.tanh(v.real) ** 2 if positive else scale * v
    )
    # entries of a core are as large as the norm
    if not float(np.abs(wide(x)).max()) <= torch.finfo(dtype).max / x.numel():
        raise Outside
    ranks, seen, stop = [draw.among(1, 2, 9) for _ in shape], [], draw.among(1, 50)
    sweeps = {"max_iter": draw.among(1, 20), "tol": draw.among(1e-8, 1e-3, 0.0)}
    sweeps |= draw.among({}, {"callback": lambda sweep, error: seen.append(error) or sweep + 1 < stop})
    options = {"tensor_train": draw.among({"error": draw.among(0.0, 0.1, 1e-3)}, {"rank": 2}, {"rank": ranks[1:]}, {})}
    options["tucker"] = {"ranks": draw.among(1, 2, ranks), "method": draw.among("hosvd", "hooi"), **sweeps}
    options["cp"] = {
        "rank": draw.among(1, 2, 5),
        "nonnegative": positive,
        "init": draw.among("svd", "random"),
        **sweeps,
    }
    options["cp"]["seed"] = draw.among(0, 7)
    largest = max(float(np.abs(wide(x)).max()), 1e-300)
    total = float(np.linalg.norm(narrow(wide(x)).ravel() / largest))
    draw.log.append(str(options[stem]))

    def check(result, kernel):
        rest = narrow((wide(result.reconstruct()) - wide(x)) / largest)
        error = float(np.linalg.norm(rest.ravel())) / max(total, 1e-300)
        slack = 200 * unit(dtype) * np.sqrt(np.prod(shape))
        reported = result.convergence.error
        assert error <= 1.001 * reported + slack, (error, reported)
        wanted = options[stem].get("error")
        assert wanted is None or error <= wanted + slack
        if stem == "tucker":
            given = options[stem]["ranks"]
            assert error <= slack or any(
                r < n for r, n in zip([given] * 9 if given in (1, 2) else given, shape, strict=False)
            )
            for factor in map(wide, result.factors):
                assert np.abs(factor.conj().T @ factor - np.eye(factor.shape[1])).max() <= slack
        if stem == "cp":
            assert not positive or all(bool((part >= 0).all()) for part in (result.weights, *result.factors))
        assert stem == "tensor_train" or result.convergence.iterations <= min(sweeps["max_iter"], stop if seen else 99)

    return Trial(
        *(public(name), (x,), options[stem]), check=check,
        kernels="maybe", simulated=0.05, differentiable=False, arrays=False, compiles=False,
    )  # fmt: skip
