"""One-sided Jacobi for batches of small matrices: rotations of neighbouring rows until all rows are orthogonal.

A matrix in each partition. In even rounds rows 0 and 1, 2 and 3, ... meet, in odd rounds 1 and 2, 3 and 4, ...; each
pair is made orthogonal and changes places, so that after as many rounds as rows all have met once. Rows of all pairs
are views of stride two: no row is moved for its own sake. Squares of rows are carried along, and computed anew for
each sweep.
"""

from trnsci.nki import nisa, nl
from trnsolver.kernels._batches import _all, _at, _engine, _multiply_elements, _parts, _tile

# Added to differences of squares: rows that agree to the last bit, zeros too, have an angle of 0.
SLIGHT = 1e-18


def _room(b, N, length):
    """Return products of a step, the squares of rows, and what angles are made of."""
    products_sb = _tile(b, 2 * N * length)  # [p, g, 2NL]
    squares_sb = _tile(b, N)  # [p, g, N]
    half = (N + 1) // 2
    inner_sb = _tile(b, half)  # [p, g, N/2]
    sine_sb = _tile(b, half)  # [p, g, N/2]
    cosine_sb = _tile(b, half)  # [p, g, N/2]
    small_sb = _tile(b, 5 * half)  # [p, g, 5N/2]
    return products_sb, squares_sb, inner_sb, sine_sb, cosine_sb, small_sb


def _shares(x_sb):
    """Share the turns among engines; the first also sums and works out angles."""
    return _parts(x_sb, 3, 8)


def _squares(room, x_sb, N, length, width):
    """Return the squares of rows, of which ``width`` of ``length`` entries count."""
    products_sb, squares_sb = room[0], room[1]
    for g in _shares(x_sb):
        rows = _at(x_sb, g, 0, [[length, N], [1, width]])
        products = _at(products_sb, g, 0, [[width, N], [1, width]])
        _multiply_elements(products, rows, rows, _engine(g))
        nisa.tensor_reduce(dst=_at(squares_sb, g, 0, [[1, N]]), op=nl.add, data=products, axis=3)


def _sweep(room, x_sb, *, N, length, width, index):
    """All pairs once. Inner products are those of the first ``width`` entries; rows turn as a whole."""
    _squares(room, x_sb, N, length, width)
    for rnd in range(N):
        # Even and odd rounds alternate from one sweep to the next, or an odd number of rows would undo its exchanges.
        start = (index * N + rnd) % 2
        pairs = (N - start) // 2
        if pairs > 0:
            _angles(room, x_sb, start=start, pairs=pairs, length=length, width=width)
            for g in _shares(x_sb):
                _turn(room, x_sb, g=g, start=start, pairs=pairs, length=length)


def _angles(room, x_sb, *, start, pairs, length, width):
    """Return sines and cosines that make pairs orthogonal, the smaller angles; and the squares after that."""
    products_sb, squares_sb, inner_sb, sine_sb, cosine_sb, small_sb = room
    whole = _all(x_sb)
    each = small_sb.shape[2] // 5
    difference = _at(small_sb, whole, 0, [[1, pairs]])
    sign = _at(small_sb, whole, each, [[1, pairs]])
    root = _at(small_sb, whole, 2 * each, [[1, pairs]])
    ratio = _at(small_sb, whole, 3 * each, [[1, pairs]])
    change = _at(small_sb, whole, 4 * each, [[1, pairs]])
    inner = _at(inner_sb, whole, 0, [[1, pairs]])
    sine = _at(sine_sb, whole, 0, [[1, pairs]])
    cosine = _at(cosine_sb, whole, 0, [[1, pairs]])
    upper = _at(squares_sb, whole, start, [[2, pairs]])
    lower = _at(squares_sb, whole, start + 1, [[2, pairs]])
    nisa.tensor_tensor(dst=difference, data1=upper, data2=lower, op=nl.subtract)
    nisa.tensor_scalar(dst=sign, data=difference, op0=nl.greater_equal, operand0=0.0, op1=nl.subtract, operand1=0.5)
    nisa.tensor_scalar(dst=difference, data=difference, op0=nl.abs, operand0=None, op1=nl.add, operand1=SLIGHT)
    nisa.tensor_tensor(dst=ratio, data1=difference, data2=difference, op=nl.multiply)
    for g in _shares(x_sb):
        products = _at(products_sb, g, 0, [[width, pairs], [1, width]])
        first = _at(x_sb, g, start * length, [[2 * length, pairs], [1, width]])
        second = _at(x_sb, g, (start + 1) * length, [[2 * length, pairs], [1, width]])
        _multiply_elements(products, first, second, _engine(g))
        nisa.tensor_reduce(dst=_at(inner_sb, g, 0, [[1, pairs]]), op=nl.add, data=products, axis=3)
    # cos 2t = difference / sqrt(difference**2 + 4 inner**2), cos t = sqrt((1 + cos 2t) / 2), sin t = sin 2t / (2 cos t)
    nisa.scalar_tensor_tensor(dst=root, data=inner, op0=nl.multiply, operand0=4.0, op1=nl.multiply, operand1=inner)
    nisa.tensor_tensor(dst=root, data1=root, data2=ratio, op=nl.add)
    nisa.tensor_scalar(dst=root, data=root, op0=nl.power, operand0=-0.5)
    nisa.scalar_tensor_tensor(dst=ratio, data=root, op0=nl.multiply, operand0=0.5, op1=nl.multiply, operand1=difference)
    nisa.tensor_scalar(dst=difference, data=ratio, op0=nl.add, operand0=0.5, op1=nl.power, operand1=-0.5)
    nisa.scalar_tensor_tensor(dst=cosine, data=ratio, op0=nl.add, operand0=0.5, op1=nl.multiply, operand1=difference)
    nisa.scalar_tensor_tensor(dst=sine, data=sign, op0=nl.multiply, operand0=2.0, op1=nl.multiply, operand1=root)
    nisa.tensor_tensor(dst=sine, data1=sine, data2=inner, op=nl.multiply)
    nisa.tensor_tensor(dst=sine, data1=sine, data2=difference, op=nl.multiply)
    # The squares change by the inner product times the tangent; and change places.
    nisa.tensor_tensor(dst=change, data1=sine, data2=difference, op=nl.multiply)
    nisa.tensor_tensor(dst=change, data1=change, data2=inner, op=nl.multiply)
    nisa.tensor_tensor(dst=root, data1=upper, data2=change, op=nl.add)
    nisa.tensor_tensor(dst=upper, data1=lower, data2=change, op=nl.subtract)
    nisa.tensor_copy(dst=lower, src=root)


def _turn(room, x_sb, *, g, start, pairs, length):
    """Rotate all pairs of rows of the positions g, which change places."""
    products_sb, sine_sb, cosine_sb = room[0], room[3], room[4]
    engine = _engine(g)
    first = _at(x_sb, g, start * length, [[2 * length, pairs], [1, length]])
    second = _at(x_sb, g, (start + 1) * length, [[2 * length, pairs], [1, length]])
    sine = _at(sine_sb, g, 0, [[1, pairs], [0, length]])
    cosine = _at(cosine_sb, g, 0, [[1, pairs], [0, length]])
    terms = []
    for i in range(4):
        terms.append(_at(products_sb, g, i * pairs * length, [[length, pairs], [1, length]]))
    _multiply_elements(terms[0], first, cosine, engine)
    _multiply_elements(terms[1], second, sine, engine)
    _multiply_elements(terms[2], second, cosine, engine)
    _multiply_elements(terms[3], first, sine, engine)
    nisa.tensor_tensor(dst=second, data1=terms[0], data2=terms[1], op=nl.add, engine=engine)
    nisa.tensor_tensor(dst=first, data1=terms[2], data2=terms[3], op=nl.subtract, engine=engine)
