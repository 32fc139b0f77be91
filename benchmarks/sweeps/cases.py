"""What is swept: kernels, the sizes that they run at, and the configurations of each.

A configuration names block sizes and launch options. Spaces reach past what a GPU can hold on purpose: that a
configuration is refused, and why, is data too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Call, Distribution, Scalar, Tensor, Value

CONFIGURATIONS = 52
"""At most so many of each kernel, drawn from its space; the same ones every time."""

Config = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """One kernel of one file: its host function, arguments by the name of a size, and its space.

    `file` is relative to this folder; `kernel` the jitted function. `allowed` leaves out configurations that would
    compute nonsense or say nothing. Those that merely do not fit stay in.
    """

    name: str
    file: str
    kernel: str
    sizes: Mapping[str, tuple[Value, ...]]
    space: Mapping[str, Sequence[int]]
    allowed: Callable[[Config], bool] = lambda _: True
    function: str = ""

    def __reduce__(self) -> tuple[Callable[[str], Case], tuple[str]]:
        """Travel to other processes by name: what is allowed is a function, which cannot."""
        return _named, (self.name,)

    def configs(self) -> list[Config]:
        """Return the configurations to sweep, in the order of the space."""
        values = itertools.product(*self.space.values())
        every = [dict(zip(self.space, one, strict=True)) for one in values]
        every = [one for one in every if self.allowed(one)]
        if len(every) <= CONFIGURATIONS:
            return every
        chosen = random.Random(self.name).sample(range(len(every)), CONFIGURATIONS)
        return [every[i] for i in sorted(chosen)]

    def call(self, size: str, config: Config) -> Call:
        """Return the call that launches the kernel once at `size`, so configured."""
        keywords = tuple((name, Scalar(value)) for name, value in config.items())
        return Call(label(config), self.file, self.function or self.name, self.sizes[size], keywords)


def label(config: Config) -> str:
    """Write a configuration in one word: `BLOCK=128,num_warps=4`."""
    return ",".join(f"{name}={value}" for name, value in config.items())


def _tensor(*shape: int, dtype: str = "float32", values: Distribution | None = None) -> Tensor:
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return Tensor(shape, tuple(strides), dtype, values=values or Distribution())


def _below(bound: int) -> Distribution:
    return Distribution("uniform", low=0, high=bound - 1)


def _half(*shape: int, dtype: str = "float16", std: float = 1.0) -> Tensor:
    return _tensor(*shape, dtype=dtype, values=Distribution(std=std))


def _bf16(*shape: int, std: float = 1.0) -> Tensor:
    return _half(*shape, dtype="bfloat16", std=std)


def _int8(*shape: int) -> Tensor:
    return _tensor(*shape, dtype="int8", values=Distribution("uniform", low=-64, high=63))


WARPS = (1, 2, 4, 8, 16)
_TILES = {
    "BLOCK_M": (16, 32, 64, 128, 256),
    "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (32, 64, 128),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}


def _tile(config: Config) -> bool:
    """Leave out what compiles for minutes: a thread with more than 256 elements of the result."""
    return config["BLOCK_M"] * config["BLOCK_N"] <= 256 * 32 * config["num_warps"]


def _area(most: int, least: int = 32) -> Callable[[Config], bool]:
    """Allow tiles of `least` to `most` elements for each thread of the block's first two extents."""

    def allowed(config: Config) -> bool:
        blocks = [value for name, value in config.items() if name.startswith("BLOCK")]
        area = blocks[0] * (blocks[1] if len(blocks) > 1 else 1)
        return least <= area <= most * 32 * config["num_warps"]

    return allowed


def _attention(heads: int, length: int, width: int) -> tuple[Value, ...]:
    return tuple(_half(heads, length, width) for _ in range(3))


def _backward(heads: int, length: int, width: int) -> tuple[Value, ...]:
    rows = _tensor(heads, length, values=Distribution(mean=8.0, std=0.5))
    return (*(_half(heads, length, width) for _ in range(4)), rows, _tensor(heads, length))


CASES = (
    Case(
        "scale_add", "kernels/elementwise.py", "scale_add_kernel",
        {"16M": (_tensor(1 << 24), _tensor(1 << 24)), "1M": (_tensor(1_000_003), _tensor(1_000_003))},
        {"BLOCK": (64, 256, 1024, 2048, 4096, 16384), "TILES": (1, 4, 16), "num_warps": WARPS},
        _area(128),
    ),
    Case(
        "matmul_fp16", "kernels/products.py", "matmul_kernel",
        {"4096": (_half(4096, 4096), _half(4096, 4096)), "1000x2048x512": (_half(1000, 512), _half(512, 2048))},
        {**_TILES, "GROUP": (1, 8)}, _tile, "matmul",
    ),
    Case(
        "softmax", "kernels/reductions.py", "softmax_kernel",
        {"8192x4096": (_half(8192, 4096),), "512x50257": (_half(512, 50257),)},
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(128),
    ),
    Case(
        "attention", "kernels/attention.py", "attention_kernel",
        {"32x2048x128": _attention(32, 2048, 128), "16x4096x64": _attention(16, 4096, 64)},
        {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (16, 32, 64, 128), "num_warps": (4, 8),
         "num_stages": (1, 2, 3, 4)},
        _tile,
    ),
    Case(
        "row_sum", "kernels/reductions.py", "row_sum_kernel",
        {"8192x4096": (_tensor(8192, 4096),), "256x65536": (_tensor(256, 65536),)},
        {"BLOCK_M": (1, 2, 4, 16), "BLOCK_N": (64, 256, 1024, 4096), "num_warps": WARPS, "num_stages": (1, 2, 4)},
        _area(64),
    ),
    Case(
        "transpose", "kernels/movement.py", "transpose_kernel",
        {"8192": (_half(8192, 8192),), "2000x3000": (_tensor(2000, 3000),)},
        {"BLOCK_M": (8, 16, 32, 64, 128, 256), "BLOCK_N": (8, 16, 32, 64, 128, 256), "num_warps": (1, 4, 8)},
        _area(128, 256),
    ),
    Case(
        "layer_norm", "kernels/reductions.py", "layer_norm_kernel",
        {"8192x4096": (_bf16(8192, 4096), _bf16(4096), _bf16(4096)),
         "1024x10240": (_bf16(1024, 10240), _bf16(10240), _bf16(10240))},
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(128),
    ),
    Case(
        "histogram", "kernels/movement.py", "histogram_kernel",
        {"4M, 256 bins": (_tensor(1 << 22, dtype="int32", values=_below(1 << 20)), Scalar(256)),
         "4M, 65536 bins": (_tensor(1 << 22, dtype="int32", values=_below(1 << 20)), Scalar(65536))},
        {"BLOCK": (64, 256, 1024, 4096), "TILES": (1, 8, 32), "num_warps": WARPS},
        _area(64),
    ),
    Case(
        "matmul_tf32", "kernels/products.py", "matmul_kernel",
        {"2048": (_tensor(2048, 2048), _tensor(2048, 2048)), "4096x4096x512": (_tensor(4096, 512), _tensor(512, 4096))},
        {**_TILES, "BLOCK_K": (16, 32, 64), "GROUP": (8,)}, _tile, "matmul",
    ),
    Case(
        "embedding", "kernels/movement.py", "embedding_kernel",
        {"65536x1024": (_tensor(65536, dtype="int64", values=_below(50000)), _half(50000, 1024)),
         "8192x768": (_tensor(8192, dtype="int64", values=_below(200000)), _half(200000, 768))},
        {"BLOCK_T": (1, 4, 16, 64), "BLOCK_D": (64, 128, 256, 1024), "num_warps": WARPS},
        _area(128, 64),
    ),
    Case(
        "int8_matmul", "kernels/products.py", "int8_matmul_kernel",
        {"4096": (_int8(4096, 4096), _int8(4096, 4096), _tensor(4096)),
         "1024x4096x2048": (_int8(1024, 2048), _int8(4096, 2048), _tensor(4096))},
        {**_TILES, "BLOCK_K": (64, 128, 256)}, _tile,
    ),
    Case(
        "cumsum", "kernels/reductions.py", "cumsum_kernel",
        {"8192x2048": (_tensor(8192, 2048),), "512x16384": (_tensor(512, 16384),)},
        {"BLOCK_M": (1, 2, 4, 16), "BLOCK_N": (64, 256, 1024, 2048), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(64),
    ),
    Case(
        "cross_entropy", "kernels/reductions.py", "cross_entropy_kernel",
        {"4096x32000": (_bf16(4096, 32000), _tensor(4096, dtype="int64", values=_below(32000))),
         "256x128256": (_bf16(256, 128256), _tensor(256, dtype="int64", values=_below(128256)))},
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192, 16384), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(128),
    ),
    Case(
        "attention_backward", "kernels/attention.py", "attention_backward_kernel",
        {"32x2048x64": _backward(32, 2048, 64), "8x4096x64": _backward(8, 4096, 64)},
        {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (16, 32, 64, 128), "num_warps": (4, 8), "num_stages": (1, 2, 3)},
        _tile,
    ),
    Case(
        "column_sum", "kernels/reductions.py", "column_sum_kernel",
        {"16384x4096": (_half(16384, 4096),), "65536x512": (_half(65536, 512),)},
        {"SPLIT": (4, 32, 128), "BLOCK_M": (1, 8, 32, 128), "BLOCK_N": (32, 128, 512), "num_warps": (2, 4, 8),
         "num_stages": (1, 3)},
        _area(64, 64),
    ),
    Case(
        "weight_only_matmul", "kernels/products.py", "weight_only_kernel",
        {"64x8192x8192": (_half(64, 8192), _int8(8192, 8192), _tensor(8192)),
         "2048": (_half(2048, 2048), _int8(2048, 2048), _tensor(2048))},
        _TILES, _tile,
    ),
    Case(
        "conv1d", "kernels/reductions.py", "conv1d_kernel",
        {"8x4096x2048": (_bf16(8, 4096, 2048), _bf16(4, 2048)), "4x2048x1536": (_bf16(4, 2048, 1536), _bf16(8, 1536))},
        {"BLOCK_T": (1, 4, 16, 64), "BLOCK_C": (32, 64, 128, 256, 512), "num_warps": (1, 2, 4, 8)},
        _area(64, 64),
    ),
    Case(
        "decode", "kernels/attention.py", "decode_kernel",
        {"128x8192x128": (_bf16(128, 16, 128), _bf16(128, 8192, 128), _bf16(128, 8192, 128)),
         "8x32768x128": (_bf16(8, 16, 128), _bf16(8, 32768, 128), _bf16(8, 32768, 128))},
        {"SPLIT": (1, 4, 16, 64), "BLOCK_N": (16, 32, 64, 128, 256), "num_warps": (2, 4, 8), "num_stages": (1, 2, 4)},
    ),
    Case(
        "rms_norm", "kernels/reductions.py", "rms_norm_kernel",
        {"8192x4096": (_bf16(8192, 4096), _bf16(4096)), "65536x512": (_bf16(65536, 512), _bf16(512))},
        {"BLOCK_M": (1, 2, 4, 8, 16, 32), "num_warps": WARPS, "num_stages": (1, 3)},
        lambda config: config["BLOCK_M"] <= 4 * config["num_warps"],
    ),
    Case(
        "bias_gelu", "kernels/elementwise.py", "bias_gelu_kernel",
        {"8192x4096": (_half(8192, 4096), _half(4096)), "3000x1111": (_half(3000, 1111), _half(1111))},
        {"BLOCK_M": (1, 4, 16, 64, 128), "BLOCK_N": (32, 64, 128, 256, 1024), "num_warps": WARPS},
        _area(64, 64),
    ),
    Case(
        "batched_matmul", "kernels/products.py", "batched_matmul_kernel",
        {"64x512x512x512": (_bf16(64, 512, 512), _bf16(64, 512, 512)),
         "256x128x192x256": (_bf16(256, 128, 256), _bf16(256, 256, 192))},
        _TILES, _tile,
    ),
    Case(
        "scatter_add", "kernels/movement.py", "scatter_add_kernel",
        {"65536x256": (_tensor(65536, 256), _tensor(65536, dtype="int32", values=_below(4096)), Scalar(4096)),
         "32768x128": (_tensor(32768, 128), _tensor(32768, dtype="int32", values=_below(64)), Scalar(64))},
        {"BLOCK_R": (1, 4, 16, 64), "BLOCK_D": (32, 64, 128, 256), "num_warps": WARPS},
        _area(64, 64),
    ),
    Case(
        "quantize_rows", "kernels/reductions.py", "quantize_rows_kernel",
        {"8192x4096": (_half(8192, 4096),), "2048x11008": (_half(2048, 11008),)},
        {"BLOCK": (128, 256, 512, 1024, 2048, 4096, 8192), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(128),
    ),
    Case(
        "matmul_transposed", "kernels/products.py", "matmul_kernel",
        {"8192x1024x4096": (_bf16(8192, 4096), _bf16(1024, 4096)),
         "512x512x8192": (_bf16(512, 8192), _bf16(512, 8192))},
        {**_TILES, "GROUP": (4,)}, _tile,
    ),
    Case(
        "rotary", "kernels/elementwise.py", "rotary_kernel",
        {"8192x32x128": (_bf16(8192, 32, 128), _tensor(8192, 64), _tensor(8192, 64)),
         "2048x16x64": (_bf16(2048, 16, 64), _tensor(2048, 32), _tensor(2048, 32))},
        {"BLOCK_T": (1, 2, 4, 8, 16, 32, 64, 128), "num_warps": WARPS, "num_stages": (1, 3)},
        lambda config: config["BLOCK_T"] <= 16 * config["num_warps"],
    ),
    Case(
        "expert_matmul", "kernels/products.py", "expert_matmul_kernel",
        {"8192x1024x2048": (_bf16(8192, 2048), _tensor(32, dtype="int32", values=_below(16)), _bf16(16, 2048, 1024),
                            Scalar(256)),
         "2048x512x1024": (_bf16(2048, 1024), _tensor(8, dtype="int32", values=_below(64)), _bf16(64, 1024, 512),
                           Scalar(256))},
        _TILES, _tile,
    ),
    Case(
        "matmul_ieee", "kernels/products.py", "matmul_kernel",
        {"1024": (_tensor(1024, 1024), _tensor(1024, 1024)), "512x2048x512": (_tensor(512, 512), _tensor(512, 2048))},
        {"BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (32, 64, 128), "BLOCK_K": (16, 32, 64), "num_warps": (4, 8),
         "num_stages": (1, 2, 3), "GROUP": (1,)},
        _area(32),
    ),
    Case(
        "dropout", "kernels/elementwise.py", "dropout_kernel",
        {"32M": (_tensor(1 << 25),), "1M": (_tensor(1 << 20),)},
        {"BLOCK": (64, 128, 256, 512, 1024, 2048, 4096, 8192), "num_warps": WARPS, "num_stages": (1, 3)},
        _area(128),
    ),
)  # fmt: skip
"""In the order in which they are recorded: different kinds first, in case the time runs out."""


def _named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def chosen(names: Sequence[str]) -> Iterator[Case]:
    """Yield the cases of these names, all when there are none.

    Raises:
        SystemExit: when there is no case of a name.
    """
    known = {case.name for case in CASES}
    if wrong := sorted(set(names) - known):
        raise SystemExit(f"no such kernel: {', '.join(wrong)}; there are {', '.join(sorted(known))}")
    yield from (case for case in CASES if not names or case.name in names)
