"""The root of the error tree, and the branch a kernel can raise.

Fields are attributes, the text is built from them in one place (``_text``), and every error pickles with its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from trnsim.tables import read_table
from trnsim.terminal import escape_controls

if TYPE_CHECKING:
    from trnsim.session import Session


class TrnError(Exception):
    """Every error this suite raises on purpose."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)
        super().__init__(escape_controls(self._text()))

    def _text(self) -> str:
        return str(self.__dict__.get("message", type(self).__name__))

    def __str__(self) -> str:
        return escape_controls(self._text())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[TrnError], fields: dict[str, Any]) -> TrnError:
    return cls(**fields)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".?!" else text + "."


# Operands of NKI: a hint that begins with one keeps its spelling.
_OPERANDS = frozenset({"dst", "src", "n", "sendrecv"})


def _advice(hint: str) -> str:
    """Write a hint as a sentence of its own, with a capital unless it begins with a name."""
    first = hint.split(maxsplit=1)[0]
    plain = first.rstrip(",").isalpha() and first not in _OPERANDS
    return _sentence(hint[0].upper() + hint[1:] if plain else hint)


class CapacityError(TrnError, MemoryError):
    """A memory or a disk is too small.

    Attributes:
        where: SBUF, PSUM, HBM, host, or a disk.
        required: bytes, or files where ``unit`` says so.
        available: likewise; ``None`` where the system does not tell.
        hint: what to do.
    """

    where: str
    required: int
    available: int | None
    hint: str
    unit: str = "bytes"

    def __init__(self, where: str, required: int, available: int | None, hint: str = "", **more: object) -> None:
        super().__init__(where=where, required=required, available=available, hint=hint, **more)

    def _text(self) -> str:
        unit = "bytes per partition" if self.where in ("SBUF", "PSUM") else self.unit
        there = "fewer" if self.available is None else self.available
        text = f"{self.where}: {self.required} {unit} are needed and {there} are available."
        return f"{text} {_sentence(self.hint)}".strip()


class KernelError(TrnError, RuntimeError):
    """A kernel did what the machine does not allow.

    Attributes:
        message: what is wrong, with both values.
        rule: name of the broken rule (``partition-limit``, ``psum-accumulate`` …).
        got, limit: the offending value and what the rule admits.
        hint: what to do.
        target: ``trn1``, ``trn2`` or ``trn3``.
        kernel, instruction, line: where (``line`` is ``file:number``).
    """

    message: str
    rule: str
    got: Any
    limit: Any
    hint: str
    target: str | None = None
    kernel: str | None = None
    instruction: str | None = None
    line: str | None = None

    def __init__(
        self,
        message: str = "",
        rule: str = "",
        got: object = None,
        limit: object = None,
        hint: str = "",
        **fields: object,
    ) -> None:
        super().__init__(message=message, rule=rule, got=got, limit=limit, hint=hint, **fields)

    def locate(self, session: Session, instruction: str | None = None, line: str | None = None) -> Self:
        """Fill in the place where the error happened; what is already known stays."""
        self.kernel = self.kernel or session.kernel
        self.instruction = self.instruction or instruction
        self.line = self.line or line
        self.target = self.target or session.target.name
        return self

    def _text(self) -> str:
        head = f"{self.instruction}: " if self.instruction else ""
        parts = [head + _sentence(self.message)]
        if self.hint:
            parts.append(_advice(self.hint))
        where = [str(x) for x in (self.kernel, self.line, self.target) if x]
        if self.rule:
            where.append(f"rule {self.rule}")
        return " ".join(parts) + (f" [{', '.join(where)}]" if where else "")


class OutOfBounds(KernelError, IndexError):
    """An index or access pattern leaves its tensor or its memory."""


class ReadUninitialized(KernelError):
    """Memory was read that nothing had written."""


class Race(KernelError):
    """Two cores touched the same memory, one of them writing, without a barrier between."""


class Deadlock(KernelError):
    """Cores or ranks wait for each other for ever."""


class HardwareLimit(KernelError):
    """A documented limit of the hardware: sizes, partitions, alignment, operand counts."""


class WrongBuffer(HardwareLimit):
    """An operand lives in a memory this instruction cannot reach."""


class WrongDtype(HardwareLimit, TypeError):
    """An operand has a dtype, or a mix of dtypes, this instruction cannot take."""


class WrongShape(HardwareLimit, ValueError):
    """Operand shapes do not fit each other or the instruction."""


class WrongEngine(HardwareLimit):
    """The engine or the hardware generation lacks this operation."""


def lacking(what: str, target: Any, since: int, hint: str = "") -> WrongEngine:
    """Return the error for ``what`` a generation older than ``since`` lacks (3 is trn2, 4 trn3)."""
    generations = read_table("targets.toml")["generations"]
    first = next(name for name, fields in generations.items() if fields["generation"] == since)
    text = f"{what}, which {target.name} lacks; it exists from {first} on"
    return WrongEngine(text, rule="generation", got=target.name, limit=first, hint=hint)


class WrongArgument(HardwareLimit, ValueError):
    """An option has a value this instruction does not know."""


class WrongType(WrongArgument, TypeError):
    """An argument has a type this function does not take."""


class WrongCall(WrongType):
    """Arguments do not fit the parameters of a kernel, function or instruction."""


class DeviceValue(WrongType):
    """Python needs a value that exists on the device only: a register, a scalar or a tile in ``if`` or ``range``."""


class WrongVersion(HardwareLimit, AttributeError):
    """The version of NKI that is simulated lacks this name."""


class PsumRule(HardwareLimit):
    """A rule of PSUM accumulation was broken."""


class NotModelled(KernelError, NotImplementedError):
    """The reference does not say what the hardware does here, so the simulator refuses."""


class NotNki(KernelError, SyntaxError):
    """Python the NKI compiler refuses; ``findings`` lists every place."""

    def __str__(self) -> str:
        return escape_controls(self._text())
