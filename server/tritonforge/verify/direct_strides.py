"""Which arguments of a kernel are strides, and of what."""

from __future__ import annotations

from collections.abc import Mapping

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Tensor
from tritonforge.verify.resizing import SMALLEST


def owner_of(stride: str, texts: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """Return the tensor that a stride belongs to, as the source or the names say; empty when they do not."""
    base, _, axis = texts.get(stride, "").partition(".stride(")
    if axis:
        return next((name for name in tensors if texts.get(name) == base), "")
    words = stride.lower().split("_")
    stems = {name: name.lower().removesuffix("_ptr").removesuffix("ptr") for name in tensors}
    named = [name for name, stem in stems.items() if stem in words]
    initial = [name for name, stem in stems.items() if words[0] == "stride" and words[-1][:1] == stem[:1]]
    return next((found[0] for found in (named, initial) if len(found) == 1), "")


def is_stride(kernel: Kernel, name: str, value: int, text: str) -> bool:
    """Tell a stride by the source that gives it, by its name, or by what the kernel does with it."""
    if ".stride(" in text or "stride" in name.lower():
        return True
    parameter = kernel.parameter(name)
    only_multiplied = parameter is not None and parameter.role == "stride"
    return only_multiplied and value >= SMALLEST and not any(w in text for w in (".shape", ".size(", "//"))
