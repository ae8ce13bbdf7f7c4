"""Where tensors come from: automatic and explicit placement on chip, HBM, and arrays the caller owns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from trnsim.errors import CapacityError
from trnsim.memory import HBM, PSUM, SHARED_HBM, UNWRITTEN, WRITTEN, Arena, Storage
from trnsim.refusals import forbid, refuse
from trnsim.source_lines import kernel_line, variable_name
from trnsim.state import State
from trnsim.tensors.dtypes import LOW_PRECISION, DType, ExtraDtype, as_dtype, float32
from trnsim.tensors.layout import as_shape
from trnsim.tensors.objects import MemoryRegion, as_region
from trnsim.tensors.tensor import NkiTensor


class Allocation(State):
    """The part of a session that makes tensors."""

    def allocate(self, shape: Any, dtype: Any, buffer: Any = None, name: str = "", address: Any = None) -> NkiTensor:
        """Fresh memory: nothing in it may be read before it is written."""
        shape = as_shape(shape, "shape")
        if not isinstance(name, str):
            raise refuse("name", got=type(name).__name__, name=name)
        dtype = as_dtype(dtype)
        region = as_region(buffer)
        on_chip = region is MemoryRegion.sbuf or region is MemoryRegion.psum
        if on_chip and shape == (1,):
            # the reference keeps the value of a register in a tile of this shape
            shape = (1, 1)
        forbid(min(shape, default=0) < 1, "shape:allocate", got=shape)
        physical = self.physical(dtype)
        row = math.prod(shape[1:])
        if on_chip:
            self._check_on_chip(shape, row * dtype.itemsize, region, name)
        where: tuple[int, ...] | None = None
        line = kernel_line() if self.checks or self.trace is not None or self.probes is not None else None
        label = name
        if not name and line is not None:
            label = variable_name()
        if address is not None and on_chip:
            where = self._check_address(address, shape, row * dtype.itemsize, region, dtype)
        elif address is not None:
            where = self._check_hbm_address(address, shape[0] * row * int(dtype.itemsize))
        # with low precision kept as fp32 the bytes of two tensors no longer line up, so addresses cannot alias
        if where is not None and self.params.precise and on_chip:
            arena, pitch = self._own_arena(region)
            base = where[0] * pitch + where[1]
        else:
            arena = self._fresh(shape[0] * row, physical, dtype)
            pitch, base = row * physical.itemsize, 0
            if where is not None and self.params.precise:
                arena, base = self._overlay(where[0], arena)
        storage = Storage(
            name=label,
            shape=shape,
            dtype=dtype,
            physical=physical,
            buffer=region.value,
            arena=arena,
            pitch=pitch,
            base=base,
            partition=where[0] if where and on_chip else 0,
            address=where,
            line=line,
            scope=self.scope,
            slot=0 if self.scope is None else self.scope.slot(),
        )
        if arena is self._arenas.get(PSUM):
            # a matmul infers whether it starts a sum from this tensor's own history, not from that of its address
            private = Arena(shape[0] * row * int(dtype.itemsize), unit=int(dtype.itemsize))
            storage.shadow = replace(
                storage, arena=private, pitch=row * physical.itemsize, base=0, partition=0, address=None
            )
        if on_chip:
            self.lifetimes.add(storage)
        elif region is MemoryRegion.shared_hbm:
            self.state.setdefault("shared output", f"{storage.name}{list(shape)} ({line})")
            if self.machine is not None:
                storage = self.machine.share(self, storage, name)
                if self.scope is not None:
                    self.scope.adopt(storage.slot)
        tensor = NkiTensor(storage)
        if self.probes is not None:
            for probe in self.probes:
                probe.follow(self, tensor)
        return tensor

    def physical(self, dtype: DType) -> np.dtype[Any]:
        """NumPy type the bits of ``dtype`` are kept in."""
        if not self.params.precise and dtype in LOW_PRECISION:
            return float32
        return dtype.storage if isinstance(dtype, ExtraDtype) else dtype

    def _fresh(self, elements: int, physical: np.dtype[Any], dtype: DType) -> Arena:
        nbytes = elements * int(dtype.itemsize)
        if not self.numerics:
            return Arena(nbytes, marks=WRITTEN)
        try:
            data = np.empty(elements, physical)
        except (MemoryError, ValueError):
            raise CapacityError(
                where="host",
                required=nbytes,
                available=0,
                hint="simulate a smaller shape, or follow the program without values: numerics=False",
            ) from None
        if not self.checks:
            data.view(np.uint8).fill(0xFF)
        return Arena(nbytes, data=data, unit=int(dtype.itemsize))

    def _partition_bytes(self, region: MemoryRegion) -> int:
        """Return bytes of a partition that tensors may take."""
        return self.target.sbuf_usable_bytes if region is MemoryRegion.sbuf else self.target.psum_partition_bytes

    def _own_arena(self, region: MemoryRegion) -> tuple[Arena, int]:
        """Return the core's own SBUF or PSUM, for tensors with an address."""
        # partitions a multiple of 4 KiB apart would fight for the same cache lines of the host
        pitch = 128 + self._partition_bytes(region)
        arena = self._arenas.get(region.value)
        if arena is None:
            nbytes = pitch * self.target.partitions
            data = np.zeros(nbytes, np.uint8) if self.numerics else None
            arena = Arena(nbytes, data=data, marks=UNWRITTEN if self.numerics else WRITTEN, unit=4)
            self._arenas[region.value] = arena
        return arena, pitch

    def _check_on_chip(self, shape: tuple[int, ...], row_bytes: int, region: MemoryRegion, name: str) -> None:
        limit = self._partition_bytes(region)
        if region is MemoryRegion.psum and self.params.lint == "strict":
            # documented as a constraint of tiles; hardware's own instructions read across banks
            limit = self.target.psum_bank_bytes
        if len(shape) > 1 and shape[0] <= self.target.partitions and row_bytes <= limit:
            return
        label = name or variable_name() or "tensor"
        if len(shape) < 2:
            instead, got = ((shape or (1,))[0], 1), len(shape)
            raise refuse(
                "two-dimensional:check_on_chip", got=got, label=label, region=region, shape=shape, instead=instead
            )
        if shape[0] > self.target.partitions:
            limit, where = self.target.partitions, {"target": self.target.name}
            raise refuse(
                "partition-limit:check_on_chip", got=shape[0], limit=limit, label=label, region=region, fields=where
            )
        raise CapacityError(
            where=region.value.upper(),
            required=row_bytes,
            available=limit,
            hint=f"{label}{list(shape)} alone is too large for {self.target.name} ({kernel_line()}); split its free"
            " dimension",
            target=self.target.name,
            live=[(label, shape, "", row_bytes, kernel_line())],
        )

    def _check_address(
        self, address: Any, shape: tuple[int, ...], row_bytes: int, region: MemoryRegion, dtype: DType
    ) -> tuple[int, int]:
        try:
            partition, free = (int(a) for a in address)
        except (TypeError, ValueError):
            raise refuse("address:check_address-value", got=address) from None
        limit = self._partition_bytes(region)
        align = self.target.sbuf_align if region is MemoryRegion.sbuf else self.target.psum_align
        if partition < 0 or partition + shape[0] > self.target.partitions:
            end, limit, last = partition + shape[0], self.target.partitions, self.target.partitions - shape[0]
            raise refuse(
                "address:partitions", got=end, limit=limit, address=address, first=partition, rows=shape[0], last=last
            )
        if free < 0 or free + row_bytes > limit:
            raise refuse(
                "address:bytes",
                got=free + row_bytes,
                limit=limit,
                address=address,
                free=free,
                memory=region.value.upper(),
                row_bytes=row_bytes,
                last=limit - row_bytes,
            )
        step = max(align, min(int(dtype.itemsize), 4))
        if region is MemoryRegion.psum and free % self.target.psum_bank_bytes:
            bank = self.target.psum_bank_bytes
            raise refuse("psum-bank-start", got=free, limit=bank, address=address, bank_index=free // bank)
        if free % step:
            raise refuse("alignment", got=free, limit=step, address=address, next=-(-free // step) * step)
        return partition, free

    def _check_hbm_address(self, address: Any, nbytes: int) -> tuple[int]:
        forbid(self.nki < (0, 7), "address:version", got=address)
        free = address[0] if isinstance(address, (tuple, list)) and len(address) == 1 else None
        if type(free) is not int:
            raise refuse("address:form", got=address)
        limit = self.target.hbm_bytes
        if not 0 <= free <= limit - nbytes:
            end, last = free + nbytes, limit - nbytes
            raise refuse(
                "address:check_hbm_address-bounds", got=end, limit=limit, address=address, free=free, last=last
            )
        return (free,)

    def _overlay(self, start: int, arena: Arena) -> tuple[Arena, int]:
        """Return the memory of an HBM tensor from byte ``start`` on, one it lies in or its own, and where it begins."""
        end = start + arena.nbytes
        for first, other in self._hbm:
            last = first + other.nbytes
            if first <= start and end <= last:
                return other, start - first
            forbid(start < last and first < end, "hbm-overlap", got=(start, end), limit=(first, last))
        self._hbm.append((start, arena))
        return arena, 0

    def wrap(self, array: np.ndarray, name: str, *, shared: bool = False) -> NkiTensor:
        """Return an HBM tensor on a contiguous NumPy array the caller owns; all of it counts as written."""
        logical = as_dtype(array.dtype)
        shape = array.shape if array.ndim else (1,)
        arena = Arena(
            array.size * int(logical.itemsize),
            data=array if self.numerics else None,
            marks=WRITTEN,
            unit=int(logical.itemsize),
        )
        storage = Storage(
            name=name,
            shape=shape,
            dtype=logical,
            physical=array.dtype,
            buffer=SHARED_HBM if shared else HBM,
            arena=arena,
            pitch=array.nbytes,
            shared=shared,
        )
        return NkiTensor(storage)
