"""Products written as operators: seen by ``trnsci run`` in the program's own modules, unchanged elsewhere."""

import json
import subprocess
import sys

import numpy as np
import pytest

from trnsci.product_operators import compile_products, multiply, multiply_in_place

PROGRAM = """
import json, sys
import numpy as np
import helper
a = np.arange(4096.0).reshape(64, 64) / 4096
b = a @ a
b @= a
c = helper.square(b)
class Own:
    def __matmul__(self, other): return "own"
try:
    np.ones((2, 3)) @ np.ones((2, 3))
except ValueError as error:
    message = str(error)
print(json.dumps([float(b.sum()), float(c.sum()), Own() @ 1, [1] @ np.array([2]) == 2, message[:9], __name__]))
""".replace("[1] @ np.array([2]) == 2", "int([1] @ np.array([2]))")


def test_a_program_multiplies_through_us_and_gets_the_same(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("def square(x):\n    return x @ x\n")
    words = [sys.executable, "-m", "trnsci.cli", "run", "--min-size", "0", str(tmp_path / "program.py")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stderr.splitlines()
    plain = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)
    got, expected = json.loads(done.stdout), json.loads(plain.stdout)
    np.testing.assert_allclose(got[:2], expected[:2], rtol=1e-12)
    assert got[2:] == expected[2:]
    # a product, one in place, and that of a module beside the program
    assert ["numpy.dot", "trnblas.gemm", "3"] in [line.split()[:3] for line in lines], done.stderr


def test_operands_are_evaluated_once_and_lines_stay():
    log = []
    source = "x = [f(1) @ f(2)]\n\n\ny = g @ 3\n"
    names = {"__trnsci_multiply__": multiply, "f": lambda n: log.append(n) or np.eye(2), "g": np.eye(2)}
    with pytest.raises(ValueError, match="matmul") as caught:
        exec(compile_products(source, "program.py"), names)
    assert log == [1, 2]
    assert caught.traceback[-2].lineno == 3


@pytest.mark.parametrize("kind", [np.float32, np.int64, object])
def test_in_place_writes_to_the_array_and_refuses_what_numpy_refuses(kind):
    a, b = np.arange(4).reshape(2, 2).astype(kind), np.arange(4, 8).reshape(2, 2).astype(kind)
    kept, expected = a, a @ b
    assert multiply_in_place(a, b) is kept
    np.testing.assert_array_equal(kept, expected)
    with pytest.raises((ValueError, TypeError)):
        multiply_in_place(np.ones((2, 2), dtype=np.int64), np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="matmul"):
        multiply_in_place(np.ones((2, 3)), np.ones((3, 2)))
