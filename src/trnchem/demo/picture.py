"""Spectrograms as PNG, with the standard library alone."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# dark blue to yellow, even in lightness
COLOURS = np.array([(10, 10, 46), (64, 28, 112), (158, 47, 127), (239, 103, 74), (253, 231, 170)], dtype=np.float64)


def spectrograms(panels: Sequence[NDArray[np.floating]], *, scale: int = 3, gap: int = 6) -> bytes:
    """Draw magnitudes [frequencies, frames] side by side, low frequencies below, 60 dB from dark to bright."""
    top = max(float(np.abs(panel).max()) for panel in panels) or 1.0
    height = panels[0].shape[0] * scale
    white = np.full((height, gap, 3), 255, dtype=np.uint8)
    drawn = [white]
    for panel in panels:
        decibel = 20 * np.log10(np.maximum(np.abs(panel) / top, 1e-9))
        level = np.clip(1 + decibel / 60, 0, 1)[::-1] * (len(COLOURS) - 1)
        low = np.minimum(level.astype(int), len(COLOURS) - 2)
        share = (level - low)[..., None]
        image = (COLOURS[low] * (1 - share) + COLOURS[low + 1] * share).astype(np.uint8)
        drawn += [image.repeat(scale, 0).repeat(scale, 1), white]
    return png(np.concatenate(drawn, 1))


def png(image: NDArray[np.uint8]) -> bytes:
    """Encode [height, width, 3] bytes."""
    height, width, _ = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # every row starts with its filter, none
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
