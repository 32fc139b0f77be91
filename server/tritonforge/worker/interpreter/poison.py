"""Values that stand for memory nobody wrote: a NaN with a recognisable payload, or an unlikely integer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Poison:
    """One kind of poison. Two runs get different kinds, so that what both left unwritten can be told from values.

    `payload` has six bits: what the mantissa of the narrowest float with NaN payloads (bfloat16) has to spare.
    """

    payload: int

    def bits(self, dtype: Any) -> int:
        """Return the bit pattern for a torch dtype, as an unsigned integer of its size."""
        size = dtype.itemsize
        if dtype == torch.bool:
            return self.payload & 1
        if not dtype.is_floating_point:
            # Far outside every index, and not the same in any two bytes that matter.
            return int.from_bytes(bytes([(0x5B + 2 * self.payload) % 128] * size), "little")
        name = str(dtype)
        if size == 1:
            return 0x80 if "fnuz" in name else 0x7F
        if dtype == torch.float64:
            return 0x7FF8_0000_0000_0000 | self.payload
        if dtype == torch.float32:
            return 0x7FC0_0000 | self.payload
        return (0x7FC0 if dtype == torch.bfloat16 else 0x7E00) | self.payload

    def fill(self, tensor: Any) -> None:
        """Overwrite a tensor with poison; its strides may be anything that does not overlap."""
        if tensor.numel() == 0:
            return
        if tensor.dtype.is_complex:
            tensor = torch.view_as_real(tensor)
        raw = tensor.view(_INTEGER_OF_SIZE[tensor.dtype.itemsize])
        raw.fill_(_signed(self.bits(tensor.dtype), tensor.dtype.itemsize))

    def between(self, tensor: Any) -> None:
        """Fill the flat memory between the elements of an argument with plain numbers, small enough for every dtype.

        They are other numbers for each kind of poison, so that a result that depends on them differs.
        """
        numbers = torch.ones_like(tensor, dtype=torch.int64).cumsum(0).mul_(self.payload | 1)
        tensor.copy_(numbers.remainder_(13 + self.payload % 16))

    def where(self, tensor: Any) -> Any:
        """Return a mask of the elements that still are this poison (none for bool, whose values say nothing)."""
        if tensor.dtype == torch.bool or tensor.dtype.is_complex:
            return torch.zeros_like(tensor, dtype=torch.bool)
        raw = tensor.view(_INTEGER_OF_SIZE[tensor.dtype.itemsize])
        return raw == _signed(self.bits(tensor.dtype), tensor.dtype.itemsize)


def _signed(bits: int, size: int) -> int:
    if size == 1:
        return bits
    return bits - (1 << 8 * size) if bits >> (8 * size - 1) else bits


ORIGINAL = Poison(0x15)
CANDIDATE = Poison(0x2A)
