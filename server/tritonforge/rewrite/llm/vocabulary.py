"""The words that a proposal may use beyond those of the original: Triton's language and a little of the host's.

Everything else is refused, so a list that lacks a word costs a round and one that has a word too many costs safety.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGE = _words(
    "load_tensor_descriptor store_tensor_descriptor make_tensor_descriptor tensor_descriptor abs add advance arange "
    "argmax argmin associative_scan assume atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or "
    "atomic_xchg atomic_xor bfloat16 broadcast broadcast_to cast cat cdiv ceil clamp constexpr cos "
    "cumprod cumsum debug_barrier device_assert div_rn dot dot_scaled dtype erf exp exp2 expand_dims fdiv flip "
    "float16 float32 float64 float8e4b15 float8e4nv float8e4b8 float8e5 float8e5b16 floor fma full gather histogram "
    "int1 int16 int32 int64 int8 interleave join load log log2 make_block_ptr max max_constancy max_contiguous "
    "maximum min minimum mul multiple_of num_programs permute philox program_id rand rand4x "
    "randint randint4x randn randn4x range ravel reduce reduce_or reshape rsqrt sigmoid sin softmax sort split sqrt "
    "sqrt_rn squeeze static_assert static_range store sub sum swizzle2d tensor topk trans tuple uint16 uint32 "
    "uint64 uint8 umulhi unsqueeze view void where xor_sum zeros zeros_like"
)
"""Names of `triton.language`. Left out: printing, inline assembly, and the modules below it."""
MATH = _words("abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi")
"""Names of `triton.language.math`."""
TRITON = _words("cdiv next_power_of_2")
"""Functions of `triton` that compute a number."""

VALUE_METHODS = LANGUAGE | _words(
    "to logical_and logical_or scatter is_fp16 is_bf16 is_fp32 is_fp64 is_floating is_int"
)
"""Methods of values inside a kernel."""
VALUE_ATTRIBUTES = _words("dtype element_ty shape T type scalar primitive_bitwidth itemsize value strides block_shape")
KERNEL_BUILTINS = _words("range min max abs len float int bool tuple isinstance")

TORCH = _words(
    "empty empty_like empty_strided zeros zeros_like ones ones_like full full_like Size device dtype finfo iinfo "
    "Tensor float16 bfloat16 float32 float64 half float double int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "long bool cuda.get_device_properties cuda.current_device float8_e4m3fn float8_e5m2 contiguous_format "
    "preserve_format promote_types result_type is_tensor"
)
"""Names of `torch` that allocate or describe."""
HOST_MATH = _words("ceil floor log2 sqrt prod gcd inf")
"""Names of `math`."""
TENSOR_METHODS = _words(
    "size stride numel dim ndimension nelement element_size is_contiguous is_floating_point is_complex "
    "storage_offset get_device view view_as reshape reshape_as transpose permute t swapaxes movedim unsqueeze "
    "squeeze expand expand_as flatten unflatten narrow select as_strided detach unbind chunk split new_empty "
    "new_zeros new_ones new_full contiguous zero_ amax amin sum"
)
TENSOR_ATTRIBUTES = _words(
    "shape dtype device ndim T mT is_cuda layout requires_grad itemsize nbytes multi_processor_count bits max min eps"
)
HOST_BUILTINS = _words(
    "range len min max abs int float bool sum tuple list isinstance enumerate zip sorted reversed any all round "
    "divmod slice True False None ValueError TypeError AssertionError"
)
LAUNCH_OPTIONS = _words("num_warps num_stages num_ctas maxnreg enable_fp_fusion")
CONFIG_OPTIONS = _words("num_warps num_stages num_ctas maxnreg")
AUTOTUNE_OPTIONS = _words("configs key reset_to_zero restore_value warmup rep use_cuda_graph")

PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,31}")
"""A text that is no more than a name: an eviction policy, a parameter, a data type."""
LARGEST_INTEGER = 1 << 63
LARGEST_SHIFT = 63
LARGEST_RANGE = 1 << 22
LARGEST_UNROLL = 4096
LARGEST_FACTOR = 64
