"""`export --style vllm`: the files that vLLM reads for its own tuned kernels, under the names that it looks for.

vLLM looks up a file by the shapes of the weights and the name of the GPU, and in it the configuration of the nearest
batch size:

- its fused-MoE kernel, `E={experts},N={intermediate size},device_name={GPU}[,dtype={…}][,block_shape=[n,k]].json`
  (`get_config_file_name` in vllm/model_executor/layers/fused_moe/fused_moe.py; `N` is that of the second weight, half
  the rows of the first);
- its block-wise fp8 product, `N={N},K={K},device_name={GPU},dtype=fp8_w8a8,block_shape=[n,k].json`
  (`get_w8a8_block_fp8_configs` in vllm/model_executor/layers/quantization/utils/fp8_utils.py).

Both map a batch size `M` as text to `BLOCK_SIZE_M`, `BLOCK_SIZE_N`, `BLOCK_SIZE_K`, `GROUP_SIZE_M`, `num_warps` and
`num_stages`. Blanks in a GPU's name become `_`, and every H200 is `NVIDIA_H200` to the fused-MoE kernel. The MoE file
may be found in the folder that `VLLM_TUNED_CONFIG_FOLDER` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonforge.domain.launch import Scalar, Tensor, Value
from tritonforge.domain.tuning import TunedLaunch
from tritonforge.domain.tuning import Value as Fact
from tritonforge.report.json_parts import Json

CONFIG = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
_DTYPES = (
    ("use_fp8_w8a8", "fp8_w8a8"),
    ("use_int8_w8a8", "int8_w8a8"),
    ("use_int8_w8a16", "int8_w8a16"),
    ("use_int4_w4a16", "int4_w4a16"),
)


@dataclass(frozen=True)
class VllmFile:
    """A file of vLLM's: what it must be called, and what is in it."""

    name: str
    content: Json


def vllm_files(launches: Sequence[TunedLaunch]) -> tuple[tuple[VllmFile, ...], tuple[str, ...]]:
    """Return the files for those of `launches` that vLLM could use, and a sentence for each that it could not."""
    files: dict[str, dict[int, Json]] = {}
    refused: list[str] = []
    # Of several launches with one batch size the last is kept: the one that takes most time in all.
    for one in sorted(launches, key=lambda one: one.source_us * one.launch.count):
        found = _place(one)
        if isinstance(found, str):
            refused.append(f"{one.kernel.name}: {found}")
            continue
        name, batch = found
        values = _values(one)
        files.setdefault(name, {})[batch] = {key: values[key] for key in CONFIG}
    made = (
        VllmFile(name, {str(batch): configs[batch] for batch in sorted(configs)})
        for name, configs in sorted(files.items())
    )
    return tuple(made), tuple(dict.fromkeys(refused))


def _place(one: TunedLaunch) -> tuple[str, int] | str:
    """Return the name of the file and the batch size in it, or why vLLM has no use for a launch."""
    if one.gpu is None:
        return "its configuration is only predicted, and vLLM looks for what was measured on a GPU by name"
    missing = [name for name in CONFIG if name not in _values(one)]
    values = dict((*one.problem.arguments, *one.problem.constexprs))
    if missing:
        return f"it has no {', '.join(missing)}, which vLLM's files hold"
    if {"M", "N", "K", "group_n", "group_k"} <= values.keys():
        return _block_fp8(values, one.gpu)
    if {"EM", "num_valid_tokens", "top_k"} <= values.keys():
        return _fused_moe(values, one.gpu)
    return "vLLM reads files for its fused-MoE and block-wise fp8 kernels, and this is neither"


def _values(one: TunedLaunch) -> dict[str, Fact]:
    """Return what the launch is to run with: what was searched over, and what else it was launched with."""
    config = one.launch.config
    pairs = (*one.problem.constexprs, *config.constexprs, *config.options)
    return {name: value.value for name, value in pairs if isinstance(value, Scalar)} | dict(one.config)


def _block_fp8(values: dict[str, Value], gpu: str) -> tuple[str, int] | str:
    m, n, k, group_n, group_k = (_integer(values[name]) for name in ("M", "N", "K", "group_n", "group_k"))
    device = gpu.replace(" ", "_")
    return f"N={n},K={k},device_name={device},dtype=fp8_w8a8,block_shape=[{group_n},{group_k}].json", m


def _fused_moe(values: dict[str, Value], gpu: str) -> tuple[str, int] | str:
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    first, weight = tensors.get("a_ptr"), tensors.get("b_ptr")
    if first is None or weight is None or len(weight.shape) != 3:
        return "its weights are no tensor of experts × rows × columns"
    if _flag(values, "MUL_ROUTED_WEIGHT"):
        return "it is the second product of the layer, which takes the configuration of the first"
    experts, rows, _ = weight.shape
    dtype = next((name for flag, name in _DTYPES if _flag(values, flag)), "")
    if not dtype and first.dtype == "float32":
        dtype = "float32"
    size = rows // 2 * (2 if dtype == "int4_w4a16" else 1)
    blocks = [_integer(values[name]) if name in values else 0 for name in ("group_n", "group_k")]
    device = "NVIDIA_H200" if "H200" in gpu.split() else gpu.replace(" ", "_")
    name = f"E={experts},N={size},device_name={device}"
    name += f",dtype={dtype}" if dtype else ""
    name += f",block_shape=[{blocks[0]},{blocks[1]}]" if all(blocks) else ""
    return f"{name}.json", first.shape[0]


def _flag(values: dict[str, Value], name: str) -> bool:
    value = values.get(name)
    return isinstance(value, Scalar) and bool(value.value)


def _integer(value: Value) -> int:
    return int(value.value) if isinstance(value, Scalar) and isinstance(value.value, int) else 0
