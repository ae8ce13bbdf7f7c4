"""Operands and options that cannot be right: an error of the library, whatever was passed, and nothing is drawn."""

import pytest
import torch

import trnrand
from tests.together import together
from tests.trnrand.distributions import ALL
from trnrand import Generator, Halton, LatinHypercube, Sobol, Stream
from trnsci.errors import TrnError, UnsupportedError

ODD = {
    "None": lambda: None,
    "str": lambda: "x",
    "list": lambda: [1.0, "x"],
    "dict": dict,
    "object": object,
    "complex": lambda: 1j,
    "nan": lambda: float("nan"),
    "huge": lambda: 10**400,
    "complex tensor": lambda: torch.tensor([1j, 2j]),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "mkldnn": lambda: torch.ones(3).to_mkldnn(),
    "NaN inside": lambda: torch.tensor([1.0, float("nan")]),
}
VECTOR, WORDS = torch.ones(3), torch.zeros(4, dtype=torch.int64)
CALLS = {
    "dirichlet": lambda g, x: g.dirichlet(alpha=x),
    "categorical": lambda g, x: g.categorical(3, probs=x),
    "multinomial, probs": lambda g, x: g.multinomial(n=3, probs=x),
    "multinomial, n": lambda g, x: g.multinomial(n=x, probs=VECTOR),
    "permutation": lambda g, x: g.permutation(x),
    "shuffle": lambda g, x: g.shuffle(x),
    "choice": lambda g, x: g.choice(x, 2),
    "choice, p": lambda g, x: g.choice(3, 2, p=x),
    "choice, replace": lambda g, x: g.choice(3, 2, replace=x),
    "multivariate_normal, mean": lambda g, x: g.multivariate_normal(mean=x, covariance=torch.eye(3)),
    "multivariate_normal, covariance": lambda g, x: g.multivariate_normal(mean=VECTOR, covariance=x),
    "unit_vector": lambda g, x: g.unit_vector(3, dim=x),
    "orthogonal": lambda g, x: g.orthogonal(n=x),
    "sketch": lambda g, x: trnrand.sketch(x, 4, generator=g),
    "sketch, size": lambda g, x: trnrand.sketch(torch.eye(4), x, generator=g),
    "philox4x32": lambda g, x: trnrand.philox4x32(x, WORDS[:2]),
    "threefry4x32, key": lambda g, x: trnrand.threefry4x32(WORDS, x),
    "bits": lambda g, x: trnrand.bits(x, 0, 3),
    "bits, n": lambda g, x: trnrand.bits(1, 0, x),
    "bits, device": lambda g, x: trnrand.bits(1, 0, 3, device=x),
    "Stream": lambda g, x: Stream(x),
    "Stream, engine": lambda g, x: Stream(1, x),
    "split": lambda g, x: Stream(1).split(x),
    "fold_in": lambda g, x: Stream(1).fold_in(x),
    "jump": lambda g, x: Stream(1).jump(x),
    "at": lambda g, x: Stream(1).at(x),
    "Generator": lambda g, x: Generator(x),
    "Generator, engine": lambda g, x: Generator(1, engine=x),
    "advance": lambda g, x: g.advance(x),
    "spawn": lambda g, x: g.spawn(x),
    "partition": lambda g, x: g.partition(x, 2),
    "set_state": lambda g, x: g.set_state(x),
    "Sobol": lambda g, x: Sobol(x),
    "Sobol, scramble": lambda g, x: Sobol(2, scramble=x),
    "Sobol, generator": lambda g, x: Sobol(2, scramble=True, generator=x),
    "Sobol.random": lambda g, x: Sobol(2).random(x),
    "Sobol.random, dtype": lambda g, x: Sobol(2).random(3, dtype=x),
    "Sobol.random, device": lambda g, x: Sobol(2).random(3, device=x),
    "Sobol.random, out": lambda g, x: Sobol(2).random(3, out=x),
    "Sobol.bits": lambda g, x: Sobol(2).bits(x),
    "fast_forward": lambda g, x: Sobol(2).fast_forward(x),
    "Halton": lambda g, x: Halton(x),
    "Halton, scramble": lambda g, x: Halton(2, scramble=x),
    "LatinHypercube": lambda g, x: LatinHypercube(2, x),
}
# what is no mistake there
RIGHT = {
    ("Sobol, generator", "None"),
    ("Sobol, scramble", "None"),
    ("Halton, scramble", "None"),
    ("choice, p", "None"),
    ("permutation", "complex tensor"),
    ("shuffle", "complex tensor"),
    ("choice", "complex tensor"),
    ("permutation", "NaN inside"),
    ("shuffle", "NaN inside"),
    ("choice", "NaN inside"),
    ("Generator", "None"),
    ("jump", "huge"),
    *((f"Sobol.random, {option}", "None") for option in ("dtype", "device", "out")),
}


def refused(call, value, right=False):
    generator = Generator(1)
    try:
        call(generator, value)
    except TrnError:
        assert generator.position == 0
    else:
        assert right


@together("name", CALLS)
def test_what_cannot_be_right_is_refused(name):
    for kind, value in ODD.items():
        refused(CALLS[name], value(), (name, kind) in RIGHT)


@together("name", ALL)
def test_parameters_and_options_of_distributions(name):
    given = ALL[name][0]
    for parameter in given:
        for kind, value in ODD.items():
            for size in ((), (3,)):
                refused(
                    lambda g, x, p=parameter, size=size: getattr(g, name)(*size, **{**given, p: x}),
                    value(),
                    # an end that is infinite
                    kind == "huge" and parameter == "high",
                )
    options = {
        "dtype": ["float32", torch.complex64, torch.float8_e4m3fn, 3, int],
        "device": ["nowhere", 3.5, "xpu", 10**30],
        "out": [3, "x", torch.empty(3).to_sparse(), torch.empty(3).to(torch.float8_e4m3fn)],
        "generator": [3, torch.Generator(), "x", Generator],
    }
    for option, values in options.items():
        for value in values:
            with pytest.raises(TrnError):
                getattr(trnrand, name)(3, **given, **{option: value})
    for size in (("x",), (None,), (-1,), (1.5,), (10**30,), ([2, "a"],), (2**40, 2**40), (True,)):
        refused(lambda g, x: getattr(g, name)(*x, **given), size)


@together("name", ALL)
def test_shapes_alone(name):
    made = getattr(Generator(1), name)(2, 3, device="meta", **ALL[name][0])
    assert (made.is_meta, made.shape) == (True, (2, 3))


UNDER_VMAP = {
    "normal": lambda x: trnrand.normal(loc=x),
    "uniform": lambda x: trnrand.uniform(high=x),
    "gamma": lambda x: trnrand.gamma(shape=x),
    "exponential": lambda x: trnrand.exponential(scale=x),
    "poisson": lambda x: trnrand.poisson(rate=x),
    "binomial": lambda x: trnrand.binomial(n=3, p=x),
    "randint": lambda x: trnrand.randint(3, high=5) + x,
    "permutation": lambda x: trnrand.permutation(4) + x,
    "categorical": lambda x: trnrand.categorical(probs=torch.stack([x, 1 - x])),
    "dirichlet": lambda x: trnrand.dirichlet(alpha=torch.stack([x, x])),
    "sketch": lambda x: trnrand.sketch(x.reshape(1, 1), 2),
    "orthogonal": lambda x: trnrand.orthogonal(n=2) + x,
}


@together("name", UNDER_VMAP)
def test_a_draw_under_vmap_is_refused_by_name(name):
    state = trnrand.get_state()
    with pytest.raises(UnsupportedError, match=f"^{name}: .*vmap"):
        torch.func.vmap(UNDER_VMAP[name], randomness="different")(torch.tensor([0.25, 0.5]))
    assert torch.equal(trnrand.get_state(), state)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, g: trnrand.normal(5, scale=x, generator=g),
        lambda x, g: trnrand.gamma(5, shape=x, generator=g),
        lambda x, g: trnrand.weibull(5, shape=x, generator=g),
        lambda x, g: trnrand.beta(5, a=x, b=2.0, generator=g),
    ],
)
def test_gradients_of_torch_func_are_those_of_autograd(draw):
    x = torch.tensor(0.75, dtype=torch.float64, requires_grad=True)
    draw(x, trnrand.Generator(3)).square().sum().backward()
    made = torch.func.grad(lambda y: draw(y, trnrand.Generator(3)).square().sum())(x.detach())
    assert torch.equal(made, x.grad)
