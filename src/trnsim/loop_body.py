"""The body of a loop on the device. It is compiled once: every turn is the same program on the same memory.

The simulator calls the body for each turn and compares what it issues with the first one. Tensors declared in the body
have one address, so that a turn waits for the one before it to be done with them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trnsim.errors import KernelError
from trnsim.isa.registers import loop_turn
from trnsim.memory import Scope, next_uid
from trnsim.refusals import refuse
from trnsim.session import Session
from trnsim.source_lines import kernel_line, warn
from trnsim.tensors.layout import is_register
from trnsim.tensors.tensor import NkiTensor

Call = tuple[Any, ...]


class CoreTurns(RuntimeWarning):
    """The cores of a logical core take different numbers of turns of one loop."""


class Body:
    """Instructions and tensors of the first turn of a loop, which the others repeat."""

    def __init__(self, loop: str, line: str, *bounds: Any) -> None:
        self.loop = loop
        self.line = line
        self.bounds = tuple(map(_describe_operand, bounds))
        self.first: list[tuple[Call, str]] | None = None
        # the address of each tensor the body declares, in order
        self.slots: list[int] = []
        self.engines: set[str] = set()
        self.turns = 0

    @contextmanager
    def turn(self, session: Session) -> Iterator[None]:
        """Run one turn: what it declares ends with it, and what it issues is what the first one issued."""
        outer = session.scope
        session.scope = scope = Turn(self, session.checks)
        self.turns += 1
        try:
            yield
            if self.first is None:
                self.first = scope.calls
            elif len(scope.calls) < len(self.first):
                raise self._differs("nothing more", self.first[len(scope.calls)])
        finally:
            scope.ended = "which has ended"
            session.scope = outer
        for engine in sorted({"sync" if name == "dma" else name for name in scope.engines}):
            loop_turn(engine)
        self.engines |= scope.engines

    def leave(self, session: Session) -> None:
        """End the loop, which is one construct of what surrounds it: another body, or the kernel."""
        inner = None if self.first is None else tuple(call for call, _ in self.first if call[0] == "loop")
        call = ("loop", self.line, inner, self.bounds)
        if session.scope is None:
            session.loops.append((self.line, _nesting(inner), self.turns))
        else:
            session.scope.engines |= self.engines
            session.scope.note(call)

    def _differs(self, got: str, expected: tuple[Call, str]) -> KernelError:
        (name, *_), line = expected
        return refuse("loop-program", got=got, limit=name, t=self, line=line)


class Turn(Scope):
    """One turn of a loop: the calls it has made, compared with those of the first."""

    __slots__ = ("body", "calls", "checks", "declared", "engines")

    def __init__(self, body: Body, checks: bool) -> None:
        super().__init__(body.loop)
        self.body = body
        self.checks = checks
        self.calls: list[tuple[Call, str]] = []
        self.declared = 0
        self.engines: set[str] = set()

    def slot(self) -> int:
        """Return the address of the next tensor that is declared: that of the first turn's."""
        if self.declared == len(self.body.slots):
            self.body.slots.append(next_uid())
        self.declared += 1
        return self.body.slots[self.declared - 1]

    def adopt(self, slot: int) -> None:
        """Take the address of the tensor declared last from the core that declared it first."""
        self.body.slots[self.declared - 1] = slot

    def note(self, call: Call) -> None:
        """Take one call of the body; raise where it differs from the first turn's."""
        first, k = self.body.first, len(self.calls)
        if first is None:
            self.calls.append((call, kernel_line()))
            return
        if self.checks and (k >= len(first) or not _same(call, first[k][0])):
            end = (("nothing more",), self.body.line)
            raise self.body._differs(call[0], first[k] if k < len(first) else end)
        self.calls.append((call, ""))

    def issue(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take an instruction with its operands."""
        if self.checks:
            self.note(
                (
                    name,
                    *map(_describe_operand, args),
                    *((key, _describe_operand(value)) for key, value in kwargs.items()),
                )
            )


def _describe_operand(value: Any) -> Any:
    """Return what a compiled body fixes of an operand: its memory and layout, or the constant it is."""
    if isinstance(value, NkiTensor):
        storage = value.storage
        offset = None if value.registers else value.offset
        return (storage.slot or storage.uid, offset, value.shape, value.strides, str(value.dtype))
    if isinstance(value, (list, tuple)):
        return tuple(map(_describe_operand, value))
    if is_register(value):
        return "register"
    return repr(value) if isinstance(value, (int, float, str, type(None))) else type(value).__name__


def _same(one: Any, two: Any) -> bool:
    """Compare two calls; a loop without a turn so far (``None``) agrees with any."""
    if one is None or two is None:
        return True
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)


def _nesting(inner: tuple[Call, ...] | None) -> Any:
    """Return which loops stand inside a loop; ``None`` where it took no turn, and that is not known."""
    return None if inner is None else tuple(_nesting(call[2]) for call in inner)


def check_cores(sessions: list[Session]) -> None:
    """Raise unless all cores ran through the same loops of the device; warn where they took different turns.

    A core that idles takes none, which is how a loop stands on both.
    """
    for other in sessions[1:]:
        one, two = sessions[0].loops, other.loops
        if not _same(tuple(shape for _, shape, _ in one), tuple(shape for _, shape, _ in two)):
            shown = [[line for line, _, _ in loops] for loops in (one, two)]
            raise refuse("core-loops", got=shown[1], limit=shown[0], other=other)
        for (line, _, mine), (_, _, theirs) in zip(one, two, strict=True):
            if mine and theirs and mine != theirs:
                warn(
                    f"core 0 takes {mine} turns of the loop at {line}, core {other.core} {theirs}. AWS leaves "
                    "undefined what control flow does that differs between the cores; give both as many turns",
                    CoreTurns,
                )
