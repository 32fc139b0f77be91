"""What host code of a candidate may do that the original does not: allocate, ask for shapes, view, count programs."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES = frozenset(["triton", "math", "typing", "typing_extensions", "collections.abc", "__future__", "torch"])
"""Modules a candidate may import; what it uses of `torch` is judged name by name."""

_CREATING = (
    "empty zeros ones full empty_like zeros_like ones_like full_like empty_strided empty_permuted as_strided "
    "broadcast_shapes broadcast_tensors expand_copy Tensor Size device dtype finfo iinfo is_tensor is_floating_point "
    "is_complex promote_types result_type memory_format strided contiguous_format preserve_format channels_last"
)
_OF_DEVICE = (
    "cuda.get_device_properties cuda.get_device_capability cuda.current_device cuda.device cuda.is_available "
    "cuda.device_count"
)
TORCH = frozenset(f"torch.{name}" for name in f"{_CREATING} {_OF_DEVICE}".split()) | {
    "torch.nn.Module",
    "torch.nn.Parameter",
    "torch.autograd.Function",
    "torch.no_grad",
    "torch.version.hip",
    "torch.version.cuda",
}
TORCH_DTYPE = re.compile(r"torch\.(?:b?float\d*\w*|u?int\d*|bool|half|double|long|short|complex\d*|q\w*int\d+)$")

TENSOR_QUERIES = _words(
    "size stride numel dim ndimension nelement element_size is_contiguous is_floating_point is_complex storage_offset "
    "get_device"
)
"""Methods of a tensor that return a number."""
TENSOR_VIEWS = _words(
    "view view_as reshape reshape_as transpose permute t swapaxes movedim unsqueeze squeeze expand expand_as flatten "
    "unflatten narrow select as_strided detach unbind chunk split new_empty new_zeros new_ones new_full "
    "new_empty_strided contiguous requires_grad_ zero_ type_as_view"
)
"""Methods that allocate, or show the same elements in another order; `zero_` is the other half of an allocation."""
TENSOR_ATTRIBUTES = _words("shape dtype device ndim T mT is_cuda layout requires_grad itemsize nbytes H mH")

ONLY_TENSORS = _words(
    "softmax log_softmax matmul mm bmm addmm mv dot mean std var argmax argmin cumsum cumprod prod exp "
    "exp_ log sqrt rsqrt relu sigmoid tanh gelu silu add_ sub_ mul_ div_ copy_ fill_ clamp clamp_ clip where "
    "masked_fill masked_fill_ scatter scatter_ scatter_add_ index_add_ index_copy_ index_select gather sort topk "
    "float half bfloat16 double tolist item cpu cuda triu tril norm einsum baddbmm logsumexp nonzero unique apply_ "
    "map_ addcmul lerp"
)
"""Methods that hardly anything but a tensor has: they compute, whatever is known of their receiver."""
COMBINING = _words("sum amax amin")
"""Methods that put the partial results of kernels together; that they do nothing else is seen when they are run."""

BUILTINS_REFUSED = _words(
    "exec eval compile __import__ getattr setattr delattr globals locals vars open input print breakpoint id hash "
    "memoryview __builtins__"
)
ADDRESSES = _words("data_ptr untyped_storage storage _cdata const_data_ptr __cuda_array_interface__")
MUTATING = _words("append extend insert add update setdefault pop popitem clear remove discard appendleft __setitem__")


def is_allowed_module(name: str) -> bool:
    """Tell whether a candidate may import a module that the original does not."""
    return name in MODULES or name.partition(".")[0] == "triton"


def is_allowed_torch(path: str) -> bool:
    """Tell whether host code may use what a dotted path of `torch` names: it allocates or describes."""
    if path == "torch" or TORCH_DTYPE.match(path):
        return True
    return any(path == one or path.startswith(one + ".") for one in TORCH)
