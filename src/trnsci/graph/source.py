"""The text of an NKI program: one function that calls the steps' kernels in order, with intermediates in HBM."""

import itertools
import linecache
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from trnsci import nki as _seam
from trnsci.graph.layouts import Buffer
from trnsci.graph.steps import Step

_DTYPES = {
    torch.float32: "nl.float32",
    torch.bfloat16: "nl.bfloat16",
    torch.float16: "nl.float16",
    torch.int32: "nl.int32",
    torch.uint8: "nl.uint8",
}
_NL: Any = _seam.nl  # type: ignore[attr-defined]
_numbers = itertools.count()


@dataclass(eq=False)
class Segment:
    """One NKI program: its kernel, what it reads and returns, and the text it was made from.

    ``loops`` are the counts of its loops: the kernel's argument ``turns`` has one for each.
    """

    kernel: Any
    inputs: list[Buffer]
    outputs: list[Buffer]
    steps: list[Step]
    loops: tuple[int, ...]
    source: str
    file: str

    @property
    def static(self) -> dict[str, Any]:
        """Compile-time arguments of a launch."""
        return {"turns": self.loops} if self.loops else {}

    @contextmanager
    def noting_origin(self) -> Iterator[None]:
        """Note with an error that leaves the block the traced operator and line whose step raised it."""
        try:
            yield
        except Exception as error:
            error.add_note(f"in a program of {self._origin_of(error)}")
            raise

    def _origin_of(self, error: BaseException) -> str:
        lines, at = self.source.splitlines(), 0
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.file:
                at = trace.tb_lineno
            trace = trace.tb_next
        notes = [line.strip() for line in lines[:at] if line.strip().startswith("# ")]
        return notes[-1].removeprefix("# ") if notes else self.kernel.__name__

    def shapes(self) -> tuple[torch.Tensor, ...]:
        """Return its arguments without data."""
        return tuple(torch.empty(buffer.shape, dtype=buffer.dtype, device="meta") for buffer in self.inputs)


def write_segment(steps: Sequence[Step], needed: Sequence[Buffer], name: str) -> Segment:
    """Write one program of some steps; ``needed`` are buffers that are read after it."""
    written = [buffer for step in steps for buffer in step.results]
    own = set(written)
    inputs = list(dict.fromkeys(buffer for step in steps for buffer in step.reads if buffer not in own))
    outputs = [buffer for buffer in dict.fromkeys(written) if buffer in set(needed)]
    text = _Text()
    for step in steps:
        text.write(step, "    ")
    parameters = ", ".join([*(buffer.name for buffer in inputs), *(["turns=()"] if text.loops else [])])
    results = ", ".join(buffer.name for buffer in outputs)
    source = "\n".join([f"@nki.jit\ndef {name}({parameters}):", *text.lines, f"    return {results}", ""])
    file = f"<trnsci program {next(_numbers)}>"
    return Segment(
        text.compile_source(source, name, file), inputs, outputs, list(steps), tuple(text.loops), source, file
    )


class _Text:
    """Lines of a program, and the objects their names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.loops: list[int] = []
        self.names: dict[str, Any] = {
            name: getattr(_seam, name) for name in ("nki", "nl", "meet", "repeat_body", "repeat_while")
        }
        self._known: dict[Any, str] = {}
        self._allocated: set[Buffer] = set()

    def write(self, step: Step, indent: str) -> None:
        """Write one step; loops are functions of their own."""
        if step.origin:
            self.lines.append(f"{indent}# {step.origin}")
        if step.body is not None:
            self._loop(step, indent)
            return
        operands = [_operand(each) for each in step.operands]
        static = [f"{name}={self._static(name, value)}" for name, value in step.static.items()]
        # a function that a kernel calls is a plain one: front ends inline it
        function = getattr(step.kernel, "function", getattr(step.kernel, "func", step.kernel))
        kernel = self._object(function, function.__name__)
        if not step.writes_given:
            results = ", ".join(buffer.name for buffer in step.results) + ("" if step.single else ",")
            self.lines.append(f"{indent}{results} = {kernel}({', '.join([*operands, *static])})")
            self._meet(step.results, indent)
            return
        # the other core may still read what is overwritten
        self._meet([buffer for buffer in step.results if buffer in self._allocated], indent)
        for buffer in step.results:
            self._allocate(buffer, indent)
        given = [buffer.name for buffer in step.results]
        if kernel.startswith("pointwise"):
            given, operands = [_tuple(given)], [_tuple(operands)]
        self.lines.append(f"{indent}{kernel}({', '.join([*given, *operands, *static])})")
        self._meet(step.results, indent)

    def _meet(self, buffers: Sequence[Buffer], indent: str) -> None:
        self.lines += [f"{indent}meet({buffer.name})" for buffer in buffers]

    def _loop(self, step: Step, indent: str) -> None:
        number = len(self.loops)
        # no turns: while a value holds
        self.loops.append(step.count or 0)
        self.lines.append(f"{indent}def turn{number}(i):")
        assert step.body is not None
        for inner in step.body:
            self.write(inner, indent + "    ")
        if step.count is not None:
            self.lines.append(f"{indent}repeat_body(turns[{number}], turn{number})")
        else:
            self.lines.append(f"{indent}repeat_while(turns[{number}], {step.results[-1].name}, turn{number})")

    def _allocate(self, buffer: Buffer, indent: str) -> None:
        if buffer not in self._allocated:
            self._allocated.add(buffer)
            shape = ", ".join(map(str, buffer.shape)) + ","
            self.lines.append(
                f"{indent}{buffer.name} = nl.ndarray(({shape}), dtype={_DTYPES[buffer.dtype]}, buffer=nl.shared_hbm)"
            )

    def _static(self, name: str, value: Any) -> str:
        if name == "dtypes":
            value = tuple(getattr(_NL, _DTYPES[dtype].removeprefix("nl.")) for dtype in value)
        if isinstance(value, int | float | str | bool | None):
            return repr(value)
        return self._object(value, name)

    def _object(self, value: Any, stem: str) -> str:
        try:
            # 0.0 and -0.0 are equal, and written differently
            key = (stem, value, repr(value))
            hash(key)
        except TypeError:
            key = (stem, id(value), "")
        if key not in self._known:
            name = f"{stem}_{sum(1 for known in self._known.values() if known.rpartition('_')[0] == stem)}"
            self._known[key] = name
            self.names[name] = value
        return self._known[key]

    def compile_source(self, source: str, name: str, file: str) -> Any:
        """Compile the text; its lines are kept where Python looks for the source of a function."""
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        names = {"__name__": "trnsci.graph.programs", **self.names}
        exec(compile(source, file, "exec"), names)
        return names[name]


def _operand(operand: Any) -> str:
    if operand is None:
        return "None"
    buffer, shape = operand
    return buffer.name if tuple(shape) == buffer.shape else f"{buffer.name}.reshape({tuple(shape)})"


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"
