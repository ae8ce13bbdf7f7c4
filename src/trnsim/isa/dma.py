"""DMA: data movement between HBM and SBUF."""

from __future__ import annotations

from typing import Any

from trnsim.errors import WrongShape
from trnsim.isa.enums import dge_mode as dge
from trnsim.isa.enums import engine as eng
from trnsim.isa.enums import member
from trnsim.isa.enums import oob_mode as oob
from trnsim.language.dtypes import to_f32
from trnsim.session import HBM, PSUM, SBUF, SHARED_HBM, NkiInstruction, Session, instruction

ANY = (SBUF, PSUM, HBM, SHARED_HBM)


@instruction
def dma_copy(
    s: Session,
    dst: Any,
    src: Any,
    priority: Any = None,
    oob_mode: Any = oob.error,
    dge_mode: Any = dge.unknown,
    engine: Any = eng.unknown,
    name: Any = None,
) -> NkiInstruction:
    """``dst = src``; different dtypes convert through fp32."""
    mode = member(dge, dge_mode, "dge_mode")
    member(oob, oob_mode, "oob_mode")
    values = s.read(src, "src", ANY, compute=False)
    if s.checks and src.size != s.operand(dst, "dst", ANY, compute=False).size:
        raise WrongShape(f"src has {src.size} elements {src.shape} and dst has {dst.size} {dst.shape}", rule="dma-size", got=src.size, limit=dst.size)
    if s.numerics:
        if src.dtype != dst.dtype:
            values = to_f32(values)
        s.write(dst, values.reshape(dst.shape), "dst", ANY, compute=False)
    else:
        s.write(dst, values, "dst", ANY, compute=False)
    return s.done("dma", (dst,), (src,), bytes=dst.size * dst.itemsize, dge=mode.name)
