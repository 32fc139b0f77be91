"""Functions of torch that make or read tensors, by what has to be done about them, and cheap ways to make."""

from __future__ import annotations

import mmap
from typing import Any

import torch

_MAP_NORESERVE = 0x4000
"""Linux; Python names it from 3.11 on."""


def size_of(args: Any, kwargs: dict[str, Any]) -> list[int] | None:
    """Return the extents that a factory is asked for, or None where it takes something else."""
    size = kwargs.get("size", args)
    if (len(size) == 1 and isinstance(size[0], (tuple, list))) or (size and isinstance(size[0], (tuple, list))):
        size = size[0]
    try:
        return [int(n) for n in size]
    except (TypeError, ValueError):
        return None


def lazy_zeros(size: list[int], dtype: Any, n_bytes: int) -> Any:
    """Return zeros whose pages exist only once they are written: large outputs of kernels never are here."""
    # Private, so that reading maps one page of zeros; unreserved, because most of it is never written.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    memory = mmap.mmap(-1, -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE, flags=flags)
    return torch.frombuffer(memory, dtype=torch.uint8, count=n_bytes).view(dtype).view(size)


def drawn(func: Any, size: list[int], count: int, kwargs: dict[str, Any]) -> Any:
    """Return random numbers that repeat after the first millions: drawing more takes seconds and tells nothing."""
    wanted = kwargs.pop("requires_grad", False)
    first = func(DRAWN_ELEMENTS, **kwargs)
    result = torch.empty(count, dtype=first.dtype)
    for at in range(0, count, DRAWN_ELEMENTS):
        part = result[at : at + DRAWN_ELEMENTS]
        part.copy_(first[: part.numel()])
    result = result.view(size)
    return result.requires_grad_() if wanted else result


def functions(*names: str) -> set[Any]:
    """Return the functions of torch that have these names, as far as this version has them."""
    return {getattr(torch, name) for name in names if hasattr(torch, name)}


VIEWS: set[Any] = {
    getattr(torch.Tensor, name)
    for name in (
        "view", "reshape", "transpose", "permute", "t", "narrow", "expand", "squeeze", "unsqueeze", "detach",
        "__getitem__", "as_strided", "flatten", "unflatten", "select", "view_as", "split", "chunk", "unbind",
        "requires_grad_", "size", "stride", "dim", "numel", "nelement", "element_size", "storage_offset", "data_ptr",
        "untyped_storage", "is_contiguous", "contiguous", "is_floating_point", "is_complex", "register_hook", "__len__",
        "backward", "zero_", "fill_", "copy_", "mul_", "add_", "normal_", "uniform_",
    )
    if hasattr(torch.Tensor, name)
}  # fmt: skip
"""What makes no tensor of its own."""
WHOLE_READS: set[Any] = {
    getattr(torch.Tensor, name) for name in ("item", "tolist", "__int__", "__index__") if hasattr(torch.Tensor, name)
}
ATTRIBUTES: set[Any] = {
    member.__get__
    for member in (*vars(torch._C.TensorBase).values(), *vars(torch.Tensor).values())
    if type(member).__name__ in {"getset_descriptor", "property"}
}
ZEROABLE = functions("empty", "zeros")
SIZED = functions("empty", "zeros", "ones", "rand", "randn", "full")
DRAWN = functions("rand", "randn")
DRAWN_ELEMENTS = 4_194_301
EMPTY = functions("empty", "empty_strided", "empty_permuted")
EMPTY_LIKE: set[Any] = {torch.empty_like, torch.Tensor.new_empty}
if hasattr(torch.Tensor, "new_empty_strided"):
    EMPTY_LIKE.add(torch.Tensor.new_empty_strided)
FACTORIES = functions(
    "empty", "empty_strided", "empty_permuted", "zeros", "ones", "full", "rand", "randn", "randint", "randperm",
    "arange", "range", "linspace", "logspace", "eye", "tensor", "scalar_tensor", "from_numpy", "frombuffer",
    "from_file",
    "tril_indices", "triu_indices",
    "hann_window", "hamming_window", "blackman_window", "bartlett_window",
    "kaiser_window",
    "sparse_coo_tensor", "sparse_csr_tensor",
)  # fmt: skip
