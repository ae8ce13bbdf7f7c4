"""The seam: the one module that imports AWS's ``nki``, and all that kernels import.

Kernels take ``nki``, ``nl``, ``nisa``, ``ncc`` (``nki.collectives``), the tile sizes and the helpers from here. Where
AWS's package is installed they are compiled for Trainium; elsewhere the same names come from ``trnsim``. Op files take
`launch` from here.

A kernel's file says in ``AXES`` along what a launch may be cut whose program would be too long to compile (`Axis`), in
``CHOICES`` which of its compile-time arguments a search may choose (`trnsci.tuned`). Both cores of a logical core run
it: each takes its share of a loop (`mine`).
"""

import re
from typing import Any, NamedTuple

# the simulator's errors and profiles point at the kernel's own line, not at `load` or `store`
__trnsim_helper__ = True

P_MAX = 128
K_TILE = 128
M_TILE = 128
N_TILE = 512
PSUM_BANKS = 8
PSUM_BANK_BYTES = 2048


# The first version whose interface the kernels speak.
OLDEST = (0, 3)


def _aws() -> tuple[Any, str]:
    """Return AWS's ``nki``, or ``None`` and why. The one on PyPI is a placeholder that fails to import."""
    try:
        import nki
    except ImportError as error:
        return None, f"AWS's nki does not import ({error})"
    import trnsim

    version = getattr(nki, "__version__", "")
    if not hasattr(nki, "jit") or not version:
        return None, "the package installed as nki is not AWS's: it has no jit or no version"
    if nki.jit is trnsim.jit:
        return None, "the simulator is installed under the name nki (trnsim.install)"
    if _version(version) < OLDEST:
        return None, f"nki {version} is older than {'.'.join(map(str, OLDEST))}, the first these kernels speak"
    return nki, ""


def _version(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; what has none is older than all."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


# AWS's package, or None and why.
AWS, WHY_NOT = _aws()
HAS_NKI = AWS is not None
# Whether kernels are specialised by running them, and logical cores are as the environment says.
TRACES = not HAS_NKI or _version(AWS.__version__) >= (0, 7)

if HAS_NKI:
    import nki
    import nki.isa as nisa
    import nki.language as nl

    try:
        import nki.collectives as ncc
    except ImportError:
        # older versions have none, and no use for the kernels that exchange
        ncc = None
else:
    import trnsim as nki
    import trnsim.collectives as ncc  # noqa: F401
    import trnsim.isa as nisa
    import trnsim.language as nl

# a kernel's decorator is written @nki.jit: one of the compiler's front ends knows it by its spelling
jit = nki.jit


class Axis(NamedTuple):
    """A dimension along which a launch may be cut into several, in a kernel file's ``AXES``.

    Attributes:
        step: pieces are multiples of it.
        arguments: dimension of each tensor argument that is cut; one of size 1 there serves all pieces.
        results: dimension along which each result is put together again; ``None`` where pieces add up to it.
        broadcasts: whether a tensor of size 1 may serve all pieces.
        last: whether it is cut after the others: pieces repeat work, or their results are parts of sums, side by side.
        when: the name of a compile-time argument and the value it must have.
    """

    step: int
    arguments: dict[str, int]
    results: tuple[int | None, ...]
    broadcasts: bool = True
    last: bool = False
    when: tuple[str, Any] | None = None


class Tile(nl.NKIObject):  # type: ignore[misc]
    """A piece of one dimension: ``index``, ``start``, ``size``, ``stop`` and ``span``, the slice that selects it."""

    def __init__(self, index: int, start: int, size: int) -> None:
        self.index = index
        self.start = start
        self.size = size
        self.stop = start + size
        self.span = slice(start, start + size)


def tiles(total: int, size: int) -> list[Tile]:
    """Cut ``total`` into tiles of ``size``; the last one is smaller when ``size`` does not divide ``total``."""
    cut = []
    for index in range((total + size - 1) // size):
        start = index * size
        cut.append(Tile(index, start, min(size, total - start)))
    return cut


def mine(items: Any, when: bool = True, alternate: bool = False) -> Any:
    """Return the items of a loop that this core of a logical core takes.

    A logical core has one core or two, and both run every kernel: what is not shared by `mine` is left to
    `is_first_core`, and no element of a result is stored by both. Loops of the device must stand on both cores, with
    no turns on an idle one; Python's own are unrolled and need not.

    Args:
        items: what the loop runs over.
        when: share the items; otherwise each core takes all of them.
        alternate: take every second item, not one half.
    """
    cores = nl.num_programs() if when else 1
    core = nl.program_id(0) if cores > 1 else 0
    each = (len(items) + cores - 1) // cores
    own = []
    if alternate:
        for index in range(core, len(items), cores):
            own.append(items[index])
    else:
        for index in range(core * each, min((core + 1) * each, len(items))):
            own.append(items[index])
    return own


def my_indices(count: int, when: bool = True) -> list[int]:
    """Return `mine` of the numbers from 0 to ``count``."""
    indices = []
    for index in range(count):
        indices.append(index)
    own: list[int] = mine(indices, when)
    return own


def even(total: int, size: int) -> int:
    """Return the size of tiles, at most ``size``, of which every core of a logical core gets some, if there are."""
    return max(1, min(size, (total + nl.num_programs() - 1) // nl.num_programs()))


def is_first_core() -> bool:
    """Return whether this core does the work of a kernel that two cores cannot share; the other one is idle."""
    return bool(nl.program_id(0) == 0)


def meet(x_hbm: Any) -> None:
    """Let both cores of a logical core read or overwrite a tensor that either has stored to; nothing on one core."""
    if nl.num_programs() > 1:
        nisa.core_barrier(data=x_hbm, cores=(0, 1))


class Queue(nl.NKIObject):  # type: ignore[misc]
    """Queue, first in, first out: one of the compiler's front ends pops the last element of a list, not any."""

    def __init__(self) -> None:
        self.items = []  # type: ignore[var-annotated]
        self.first = 0

    def put(self, item: Any) -> None:
        """Add to the end."""
        self.items.append(item)

    def take(self) -> Any:
        """Remove the first."""
        item = self.items[self.first]
        self.items[self.first] = None
        self.first = self.first + 1
        return item

    def count(self) -> int:
        """Return how many wait."""
        return len(self.items) - self.first


class Matrix(nl.NKIObject):  # type: ignore[misc]
    """A matrix [rows, columns] that begins at element ``start`` of a tensor in HBM; tiles are read out of it."""

    def __init__(self, hbm: Any, start: int, rows: int, columns: int) -> None:
        self.hbm = hbm
        self.start = start
        self.rows = rows
        self.columns = columns

    def tile(self, r: Tile, c: Tile) -> Any:
        """Return the rows of ``r`` and columns of ``c``, as a view of the whole tensor with an absolute offset."""
        offset = self.start + r.start * self.columns + c.start
        return self.hbm.ap([[self.columns, r.size], [1, c.size]], offset=offset)


# Who issues a transfer: whom the compiler takes, descriptors made before the launch, or hardware on a queue (trn2 on).
QUEUES = ("compiler", "static", "sync", "scalar")


def load(src_hbm: Any, queue: str = "static") -> Any:
    """Copy an HBM view into a new SBUF tile of the same shape."""
    tile_sb = nl.ndarray(src_hbm.shape, dtype=src_hbm.dtype, buffer=nl.sbuf)
    move(tile_sb, src_hbm, queue)
    return tile_sb


def store(dst_hbm: Any, tile: Any, queue: str = "static") -> None:
    """Copy an SBUF or PSUM tile into an HBM view, converting to its dtype on the way."""
    if tile.buffer == nl.psum:
        tile_sb = nl.ndarray(tile.shape, dtype=dst_hbm.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile_sb, src=tile)
        move(dst_hbm, tile_sb, queue)
    else:
        move(dst_hbm, tile, queue)


def move(dst: Any, src: Any, queue: str = "static") -> None:
    """Copy between HBM and SBUF on one of `QUEUES`."""
    if queue == "static":
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.none)
    elif queue == "sync":
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.sync)
    elif queue == "scalar":
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
    else:
        nisa.dma_copy(dst=dst, src=src)


def full(shape: Any, value: float) -> Any:
    """Return a tile in SBUF of one number everywhere, in float32."""
    tile_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile_sb, value=value)
    return tile_sb


def elementwise(x: Any, y: Any, op: Any) -> Any:
    """Return ``op(x, y)`` of two tiles of one shape, in SBUF and float32."""
    tile_sb = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile_sb, data1=x, data2=y, op=op)
    return tile_sb


def product(stationary_sb: Any, moving_sb: Any) -> Any:
    """Return ``stationary.T @ moving`` of one tile each, in SBUF."""
    shape = (stationary_sb.shape[1], moving_sb.shape[1])
    product_ps = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    product_sb = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_copy(dst=product_sb, src=product_ps)
    return product_sb


def subtract_product(from_sb: Any, stationary_sb: Any, moving_sb: Any) -> Any:
    """Return ``from - stationary.T @ moving``, in SBUF."""
    product_ps = nl.ndarray(from_sb.shape, dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    left_sb = nl.ndarray(from_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_tensor(dst=left_sb, data1=from_sb, data2=product_ps, op=nl.subtract)
    return left_sb


def transpose_tile(x_sb: Any) -> Any:
    """Return ``x.T``, in SBUF."""
    transposed_sb = nl.ndarray((x_sb.shape[1], x_sb.shape[0]), dtype=nl.float32, buffer=nl.sbuf)  # [n, m]
    transpose_into(transposed_sb, x_sb)
    return transposed_sb


def transpose_into(dst_sb: Any, x_sb: Any) -> None:
    """Set a tile to ``x.T``, by way of PSUM."""
    transposed_ps = nl.ndarray(dst_sb.shape, dtype=nl.float32, buffer=nl.psum)  # [n, m]
    nisa.nc_transpose(dst=transposed_ps, data=x_sb)
    nisa.tensor_copy(dst=dst_sb, src=transposed_ps)


def load_each(x_hbm: Any, queue: str = "compiler") -> Any:
    """Copy matrices [S, R, C] from HBM into a list of SBUF tiles."""
    tiles_sb = []
    for i in range(x_hbm.shape[0]):
        tiles_sb.append(load(x_hbm[i, 0 : x_hbm.shape[1], 0 : x_hbm.shape[2]], queue))  # [R, C]
    return tiles_sb


def triangle(x_sb: Any, upper: bool, offset: int = 0) -> Any:
    """Return a tile with zeros below its diagonal, or above it unless ``upper``; an offset of -1 zeros that, too."""
    kept_sb = nl.ndarray(x_sb.shape, dtype=x_sb.dtype, buffer=nl.sbuf)  # [m, n]
    side = 1 if upper else -1
    nisa.affine_select(
        dst=kept_sb,
        pattern=[[side, x_sb.shape[1]]],
        channel_multiplier=-side,
        offset=offset,
        on_true_tile=x_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    return kept_sb


def upper_inverse(u_sb: Any, masks_sb: Any, unit: bool, both: bool = True) -> Any:
    """Return the inverse x of an upper triangle of one tile and, unless not ``both`` are wanted, its transpose y.

    From the inverses of neighbouring blocks follows that of the pair, x - x c x, where c is the block above and right
    of the pair; ``masks`` select these blocks for each doubling, and the last is the identity. Products need one factor
    transposed, so the transpose is carried along.
    """
    m = u_sb.shape[0]
    eye_sb = masks_sb[len(masks_sb) - 1][0:m, 0:m]
    # What lies on the other side of the diagonal is not to be read; even a NaN there must not meet a mask.
    kept_sb = triangle(u_sb, True, -1 if unit else 0)  # [m, m]
    x_sb = eye_sb
    if not unit:
        diagonal_sb = nl.ndarray((m, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=diagonal_sb, op=nl.add, data=elementwise(kept_sb, eye_sb, nl.multiply), axis=1)
        nisa.reciprocal(dst=diagonal_sb, data=diagonal_sb)
        x_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        nisa.tensor_scalar(dst=x_sb, data=eye_sb, op0=nl.multiply, operand0=diagonal_sb)
    y_sb = x_sb
    size = 1
    for level in range(len(masks_sb) - 1):
        if size < m:
            # y c.T = (c x).T, of which both x c x and its transpose are products.
            step_sb = product(elementwise(kept_sb, masks_sb[level][0:m, 0:m], nl.multiply), y_sb)
            # The transpose first: the next step waits for it. The last one needs no further ones.
            if both or 2 * size < m:
                y_sb = subtract_product(y_sb, x_sb, step_sb)
            x_sb = subtract_product(x_sb, step_sb, x_sb)
        size = 2 * size
    return x_sb, y_sb


def multiply_add(dst: Any, x: Any, factor: Any, y: Any) -> None:
    """Set ``dst`` to ``x * factor + y``, on the Vector Engine; the factor is a number, or one for each partition."""
    nisa.scalar_tensor_tensor(dst=dst, data=x, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=y)


# Choices of `warm_up`: 7 x 0.43 us at half clock fill the 3.4 us after which the Tensor Engine runs at its full one.
WARM = (0, 7)


def warm_up(products: int = WARM[1]) -> None:
    """Multiply zeros while the first loads are on their way, so that the Tensor Engine's clock is up when they arrive.

    The clock follows the work from trn2 on.
    """
    if products > 0:
        zero_sb = nl.ndarray((P_MAX, N_TILE), dtype=nl.bfloat16, buffer=nl.sbuf)  # [k, n]
        nisa.memset(dst=zero_sb, value=0.0)
        zero_ps = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [m, n]
        for _ in range(products):
            nisa.nc_matmul(dst=zero_ps, stationary=zero_sb[:, 0:M_TILE], moving=zero_sb, accumulate=False)


# Choices of `keep_up`: so many columns.
SPARE = (0, 256, 512)


def keep_up(stationary_sb: Any, x_sb: Any, columns: int) -> None:
    """Warm up: multiply columns and discard the result once x is there, so that the clock stays up meanwhile."""
    for c in tiles(columns, N_TILE):
        moving = x_sb.ap([[x_sb.shape[1], x_sb.shape[0]], [0, c.size]], offset=0)  # [k, c]
        spare_ps = nl.ndarray((stationary_sb.shape[1], c.size), dtype=nl.float32, buffer=nl.psum)  # [m, c]
        nisa.nc_matmul(dst=spare_ps, stationary=stationary_sb, moving=moving, accumulate=False)


# Front ends before NKI 0.6 have no such loops: there a body is written out turn by turn.
HAS_LOOPS = hasattr(nl, "fori_loop")


def repeat_body(count: int, body: Any) -> None:
    """Run ``body(i)`` a fixed number of times, as a loop of the device where the front end has one."""
    if HAS_LOOPS:
        nl.fori_loop(0, count, body)
    else:
        for i in range(count):
            body(i)


def repeat_while(count: int, flag_hbm: Any, body: Any) -> None:
    """Run ``body(i)`` while a tensor of one element is not zero; or ``count`` times, for predictions."""
    if count > 0:
        repeat_body(count, body)
        return
    require(HAS_LOOPS, "this NKI has no nl.while_loop; repeat a fixed number of times")

    def turn(register: Any) -> Any:
        body(register)
        return _load_flag(flag_hbm)

    nl.while_loop(_load_flag(flag_hbm), turn)


def _load_flag(flag_hbm: Any) -> Any:
    """Return the first element of a tensor in a register."""
    register = nisa.register_alloc()
    nisa.register_load(dst=register, src=flag_hbm.ap([[1, 1], [1, 1]], offset=0))
    return register


def require(condition: bool, message: str) -> None:
    """Stop the kernel, or its compilation, unless ``condition`` holds; the message shows both values."""
    # NKI has no exceptions: an assertion is the one way for a kernel to stop.
    assert condition, message


def launch(kernel: Any, *tensors: Any, grid: int | None = None, **static: Any) -> Any:
    """Run a kernel where the current call was dispatched to: the simulator or the device.

    What the kernel leaves free is as `trnsci.tuned` has it for the target and these shapes.
    Operands that are not resident are moved, and moved bytes counted; results are resident when an operand was. A
    program that would be too long to compile is cut into several launches, where the kernel's file says how.

    Args:
        kernel: a function decorated with `jit`.
        tensors: its tensor arguments, on the host or resident.
        grid: cores (the ``kernel[grid]`` of NKI); by default those of a logical core, which the device asks for.
        static: compile-time arguments.
    """
    from trnsci import programs, tuned
    from trnsci.errors import ArgumentError
    from trnsci.kernel_launcher import current

    launcher = current()
    for index, tensor in enumerate(tensors):
        if isinstance(tensor, list | tuple):
            got = f"a {type(tensor).__name__} of {len(tensor)}"
            expected = "one tensor, or None"
            hint = "The compiler names tensors that are arguments of their own; pass each, or one with offsets"
            raise ArgumentError("launch", f"tensor {index}", got, expected, hint=hint)
    static = tuned.chosen(kernel, launcher.target, tensors, static) | static
    pieces = programs.cut(kernel, tensors, static) if grid is None else None
    grid = launcher.cores if grid is None else grid
    if pieces is None:
        return launcher.launch(kernel, tensors, grid, static)
    return pieces.run(tensors, lambda piece: launcher.launch(kernel, piece, grid, static), launcher.each)
