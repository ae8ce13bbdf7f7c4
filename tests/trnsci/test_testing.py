import inspect
import itertools
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import trnsci
from tests.together import together
from trnsci import neuron
from trnsci.testing import (
    BACKENDS,
    Backend,
    assert_within,
    dot_bound,
    exact_dot,
    gamma,
    gaussian,
    gemm_bound,
    ill_scaled,
    in_float64,
    known_answers,
    poisoned,
    unit_roundoff,
)
from trnsci.testing.data import covering

ROOT = Path(__file__).resolve().parents[2]


def test_backends_are_blocks_that_can_be_reused_and_nested():
    assert [str(b) for b in BACKENDS][:2] == ["pytorch", "simulator"]
    block = Backend("simulator")
    with block:
        assert trnsci.get_backend() == "simulator"
        with Backend("pytorch"), block:
            assert trnsci.get_backend() == "simulator"
    assert trnsci.get_backend() == "auto"
    with block:
        assert trnsci.get_backend() == "simulator"


def test_assert_within_passes_on_the_bound_and_on_equal_specials():
    assert_within(torch.tensor([1.5]), torch.tensor([1.0]), 0.5)
    specials = torch.tensor([torch.nan, torch.inf, -torch.inf])
    assert_within(specials, specials, 0.0)
    assert_within(np.float32([1.0]), np.float64([1.0]), 0.0)
    assert_within(torch.zeros(0, 3), torch.zeros(0, 3), 0.0)
    assert_within(torch.tensor(1j), torch.tensor(1j), 0.0)


def test_assert_within_tells_the_first_and_the_worst():
    with pytest.raises(AssertionError) as caught:
        assert_within(torch.tensor([[1.0, 2.5], [3.0, 9.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0.25, what="c")
    text = str(caught.value).splitlines()
    assert text[0] == "c: 2 of 4 elements exceed the bound"
    assert text[1] == "  first at (0, 1): got 2.5, expected 2.0, error 0.5, bound 0.25, ratio 2"
    assert text[2] == "  worst at (1, 1): got 9.0, expected 4.0, error 5, bound 0.25, ratio 20"


@together(
    ("got", "expected", "bound", "text"),
    [
        ([1.0], [1.0, 2.0], 1.0, "shape is (1,), expected (2,)"),
        ([torch.nan], [1.0], 1e9, "got nan"),
        ([1.0], [torch.inf], 1e300, "expected inf"),
        ([1.0], [1.0], torch.inf, "the bound itself is negative, infinite or NaN"),
        ([torch.inf], [1.0], 1e300, "got inf"),
        ([1.0], [1.0], torch.nan, "the bound itself is negative, infinite or NaN"),
        ([1.0], [1.0], -1.0, "the bound itself is negative, infinite or NaN"),
    ],
)
def test_assert_within_can_fail(got, expected, bound, text):
    with pytest.raises(AssertionError, match=text.replace("(", r"\(").replace(")", r"\)")):
        assert_within(torch.tensor(got), torch.tensor(expected), bound)


@together("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unit_roundoff_is_half_of_eps(dtype):
    assert unit_roundoff(dtype) == torch.finfo(dtype).eps / 2


def test_gamma_has_a_limit():
    assert gamma(10, torch.float64) == pytest.approx(10 * 2.0**-53)
    with pytest.raises(ValueError, match="no meaning"):
        gamma(256, torch.bfloat16)


def test_bounds_hold_for_the_worst_order_and_are_not_idle():
    """A running sum in float32 errs by a good part of the bound on data chosen to hurt."""
    n = 4096
    x = torch.full((n,), 1 + 2.0**-12)
    running = torch.zeros(())
    for value in x:
        running = running + value * value
    error = abs(running.double() - (x.double() ** 2).sum())
    bound = dot_bound(n, (x.double() ** 2).sum(), torch.float32)
    assert error <= bound
    assert error > bound / 5000


def test_gemm_bound_grows_with_every_source_of_error():
    a, b, c = gaussian((3, 8)), gaussian((8, 2)), gaussian((3, 2))
    plain = gemm_bound(a, b)
    assert (gemm_bound(a, b, c, beta=2.0) > plain).all()
    assert (gemm_bound(a, b, operands=torch.bfloat16) > 1000 * plain).all()
    assert (gemm_bound(a, b, arithmetic=torch.float64) < plain).all()


def test_data_is_reproducible_and_spread():
    assert gaussian((2,), 7).tolist() == gaussian((2,), 7).tolist() != gaussian((2,), 8).tolist()
    assert gaussian((3,), 1, torch.complex64).imag.abs().min() > 0
    values = ill_scaled((1000,), 1, torch.float64).abs()
    assert values.max() / values.median() > 1e2


def test_oracles():
    x, y = ill_scaled((200,), 1, torch.float64), ill_scaled((200,), 2, torch.float64)
    assert_within(
        torch.dot(x, y),
        torch.tensor(exact_dot(x, y), dtype=x.dtype),
        dot_bound(200, torch.dot(x.abs(), y.abs()), x.dtype),
    )
    assert exact_dot(torch.tensor([1e16, 1.0, -1e16], dtype=torch.float64), torch.ones(3)) == 1.0
    assert exact_dot(torch.tensor([1j, 2.0]), torch.tensor([1j, 1.0])) == 1 + 0j
    assert in_float64(np.add, torch.ones(2), torch.ones(2)).dtype == torch.float64


def test_known_answers(tmp_path):
    (tmp_path / "x.csv").write_text("# source: somewhere\nseed,value\n1,0x12\n")
    assert known_answers(tmp_path / "x.csv") == [{"seed": "1", "value": "0x12"}]


def test_fresh_memory_is_poison():
    with poisoned():
        assert torch.empty(4).isnan().all()
        assert torch.ones(3).new_empty(2, dtype=torch.float64).isnan().all()


def test_a_covering_part_of_a_grid_has_every_meeting_and_no_favourites():
    grid = list(itertools.product(range(5), "abc", (False, True)))
    for strength, most in ((1, 5), (2, 18)):
        kept = [grid[index] for index in covering(grid, strength)]
        for sides in itertools.combinations(range(3), strength):
            assert {tuple(case[i] for i in sides) for case in kept} == {tuple(case[i] for i in sides) for case in grid}
        assert len(kept) <= most
        last = [case[2] for case in kept]
        assert abs(last.count(True) - last.count(False)) <= 1


def test_cases_run_together_are_named_where_they_fail():
    @together("number", [1, 2, 3])
    def test(number, allowed):
        assert number == allowed

    assert list(inspect.signature(test).parameters) == ["allowed"]
    with pytest.raises(ExceptionGroup) as caught:
        test(allowed=2)
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case {'number': 1}"],
        ["in the case {'number': 3}"],
    ]


@pytest.mark.slow
def test_what_needs_a_device_is_listed_where_there_is_none_and_skipped_with_the_reason():
    if neuron.device() is not None:
        pytest.skip("this machine has a device, which runs them")
    words = [sys.executable, "-m", "pytest", "tests/trnblas/test_dgmm.py", "-m", "neuron", "-q", "-rs", "-n", "0"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert re.search(r"SKIPPED \[\d+\] .*: needs a Trainium: no Neuron device", done.stdout), done.stdout
    assert re.search(r"^\d+ skipped, \d+ deselected", done.stdout, re.M)


def test_the_runners_workflow_checks_its_cost_first_and_stops_what_it_started():
    text = (ROOT / ".github" / "workflows" / "trainium.yml").read_text()
    start, validate, stop = (text.index(f"\n  {job}:") for job in ("start", "validate", "stop"))
    assert text.index("CEILING") < text.index("run-instances") < validate
    assert start < validate < stop
    assert "if: always()" in text[stop:]
    assert "terminate-instances" in text[stop:]
    assert "--instance-initiated-shutdown-behavior terminate" in text
    # nobody but who may run workflows starts one
    assert "workflow_dispatch" in text
    assert "pull_request" not in text
    program = re.search(r"<<'PY'\n(.*?)\n +PY\n", text, re.S)[1]
    for rate, refused in (("2", False), ("20", True)):
        environment = {"MINUTES": "45", "RATE": rate, "CEILING": "10"}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True)
        assert bool(done.returncode) == refused
