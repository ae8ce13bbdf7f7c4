"""Laws of one uniform: the loop that draws and applies them at once against the formula, and against mpmath."""

import mpmath
import pytest
import torch

from trnrand import Generator, bits, inverse
from trnsci.testing import BACKENDS

on_backends = pytest.mark.parametrize("backend", BACKENDS, ids=str)

# law: its arguments, and its formula of u in (0, 1)
LAWS = {
    "exponential": ({"scale": 2.5}, lambda u: -2.5 * mpmath.log(u)),
    "laplace": (
        {"loc": 0.3, "scale": 2.0},
        lambda u: 0.3 + 2 * (1 if u < 0.5 else -1) * mpmath.log(2 * min(u, 1 - u)),
    ),
    "cauchy": ({"loc": 0.1, "scale": 3.0}, lambda u: 0.1 + 3 * mpmath.tan(mpmath.pi * (u - 0.5))),
    "gumbel": ({"loc": 0.1, "scale": 3.0}, lambda u: 0.1 - 3 * mpmath.log(-mpmath.log(u))),
    "logistic": ({"loc": 0.1, "scale": 3.0}, lambda u: 0.1 + 3 * mpmath.log(u / (1 - u))),
    "weibull": ({"shape": 1.7, "scale": 2.0}, lambda u: 2 * (-mpmath.log(u)) ** (1 / mpmath.mpf(1.7))),
    "pareto": ({"shape": 2.5, "scale": 2.0}, lambda u: 2 * u ** (-1 / mpmath.mpf(2.5))),
}
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def uniforms(seed, count):
    """The middles of 2**52 equal parts, exactly, from the stream's words."""
    low, high = bits(seed, 0, 2 * count).view(-1, 2).to(torch.int64).unbind(-1)
    return [(mpmath.mpf(v) + 0.5) / 2**52 for v in (high << 20 | low >> 12).tolist()]


@pytest.mark.grid(1)
@pytest.mark.parametrize("law", LAWS)
def test_within_the_stated_bound_of_the_formula(law, loops):
    arguments, formula = LAWS[law]
    made = getattr(Generator(11), law)(500, dtype=torch.float64, **arguments).tolist()
    size = max(arguments.values())
    with mpmath.workdps(40):
        for u, x in zip(uniforms(11, 500), made, strict=True):
            exact = formula(u)
            # the bound of docs/trnrand/inverse.md
            assert abs(x - exact) <= 2.0**-49 * (size + abs(exact) * (1 + abs(mpmath.log(u))))


@pytest.mark.grid(2)
@on_backends
@pytest.mark.parametrize("engine", ["philox4x32", "threefry4x32"])
@pytest.mark.parametrize("law", [*LAWS, "geometric", "bernoulli"])
def test_every_way_gives_the_same_bits(law, engine, backend, pure):
    arguments = LAWS[law][0] if law in LAWS else {"p": 0.03}
    kinds = DTYPES if law in LAWS else (*DTYPES, torch.int64, torch.int32)

    def draw(dtype, out=None, **other):
        g = Generator(5, engine=engine).advance(3)
        return getattr(g, law)(259, dtype=dtype, out=out, **{**arguments, **other})

    with backend:
        made = draw(torch.float64)
    assert torch.equal(made, pure(lambda: draw(torch.float64)))
    for dtype in kinds if not backend.runs_kernels else ():
        expected = pure(lambda dtype=dtype: draw(dtype))
        assert torch.equal(draw(dtype), expected)
        assert torch.equal(draw(dtype, torch.empty(259, dtype=dtype)), expected)
        # a parameter that is a tensor goes another way
        name, value = next(iter(arguments.items()))
        assert torch.equal(draw(dtype, **{name: torch.tensor(value, dtype=torch.float64)}), expected)
    assert set(inverse.FORMULAS) == {*LAWS, "geometric", "bernoulli"}


def test_threads_do_not_change_the_numbers():
    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            made.append(Generator(3).advance(1).cauchy(200_001))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*made)
