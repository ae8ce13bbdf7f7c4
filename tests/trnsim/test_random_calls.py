"""Whatever a kernel passes to the API, what it gets is a result or an error of this suite."""

import pytest

from tests.together import together
from tests.trnsim import random_calls

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_raise_errors_of_the_suite_only(seed):
    ran, refused = random_calls.run(seed, 1500)
    assert ran > 150
    assert refused > 150


@pytest.mark.slow
@together("seed", range(100, 110))
def test_a_hundred_thousand_random_calls_raise_errors_of_the_suite_only(seed):
    random_calls.run(seed, 10_000)
