"""Part (b): 25 entry kernels of liger-kernel and fla-core as shipped, chosen before any of them was optimised.

How they were chosen: the operators that the two packages are used for come first (norms, losses, gated MLPs, rotary
embedding and MoE of liger-kernel; attention, the chunked recurrences and their helpers of fla-core), then one kernel
for every family that was missing, forward and backward mixed, and of each operator the kernel that its name promises.
A size is that of a model of 1 to 8 billion parameters. None was left out for what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shipped:
    """One kernel of a package. `file` is below the package's parent folder, `driver` a file of `drivers/`."""

    file: str
    kernel: str
    driver: str
    family: str
    why: str

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.file.split('/')[0]}:{self.kernel}"

    @property
    def package(self) -> str:
        """The importable package."""
        return self.file.split("/")[0]


SHIPPED = (
    Shipped(
        "liger_kernel/ops/rms_norm.py", "_rms_norm_forward_kernel", "liger_rms_norm", "norm", "in every Llama"
    ),
    Shipped(
        "liger_kernel/ops/rms_norm.py", "_rms_norm_backward_kernel", "liger_rms_norm", "norm", "a loop over rows"
    ),
    Shipped(
        "liger_kernel/ops/layer_norm.py", "_layer_norm_backward_kernel", "liger_layer_norm", "norm", "partial sums"
    ),
    Shipped(
        "liger_kernel/ops/fused_add_rms_norm.py", "_fused_add_rms_norm_forward_kernel", "liger_fused_add_rms_norm",
        "norm", "two inputs, two outputs",
    ),
    Shipped(
        "liger_kernel/ops/group_norm.py", "_group_norm_forward_kernel", "liger_group_norm", "norm", "rows in groups"
    ),
    Shipped(
        "liger_kernel/ops/cross_entropy.py", "liger_cross_entropy_kernel", "liger_cross_entropy", "loss",
        "the package's best known kernel; writes over its input",
    ),
    Shipped("liger_kernel/ops/kl_div.py", "_kldiv_kernel_forward", "liger_kl_div", "loss", "distillation"),
    Shipped("liger_kernel/ops/jsd.py", "_jsd_kernel", "liger_jsd", "loss", "loss and gradient in one pass"),
    Shipped("liger_kernel/ops/geglu.py", "_geglu_tanh_backward_kernel", "liger_geglu", "gated MLP", "in place"),
    Shipped("liger_kernel/ops/swiglu.py", "_swiglu_forward_kernel", "liger_swiglu", "gated MLP", "Llama's activation"),
    Shipped("liger_kernel/ops/rope.py", "_triton_rope", "liger_rope", "rotary", "small blocks, in place"),
    Shipped(
        "liger_kernel/ops/softmax.py", "_softmax_single_block_backward_kernel", "liger_softmax", "softmax", "a row"
    ),
    Shipped("liger_kernel/ops/sparsemax.py", "_sparsemax_forward_kernel", "liger_sparsemax", "softmax", "a scan"),
    Shipped(
        "liger_kernel/ops/fused_moe_kernels.py", "_fused_up_proj_swiglu_kernel", "liger_fused_moe", "MoE",
        "grouped product with an epilogue, autotuned",
    ),
    Shipped("fla/ops/attn/parallel.py", "parallel_attn_fwd_kernel", "fla_attn", "attention", "grouped heads"),
    Shipped("fla/ops/attn/parallel.py", "parallel_attn_bwd_kernel_dkv", "fla_attn", "attention", "its backward pass"),
    Shipped("fla/ops/nsa/parallel.py", "parallel_nsa_fwd_kernel", "fla_nsa", "attention", "gathers blocks"),
    Shipped("fla/ops/gla/chunk.py", "chunk_gla_fwd_kernel_o", "fla_gla", "linear attention", "autotuned, dots"),
    Shipped("fla/ops/common/chunk_h.py", "chunk_fwd_kernel_h", "fla_simple_gla", "linear attention", "serial"),
    Shipped(
        "fla/ops/common/chunk_o.py", "chunk_bwd_kernel_dqkwg", "fla_simple_gla", "linear attention", "a large backward"
    ),
    Shipped(
        "fla/ops/common/chunk_delta_h.py", "chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "fla_gated_delta_rule",
        "delta rule", "Qwen3-Next's and Kimi's hot kernel",
    ),
    Shipped(
        "fla/ops/gated_delta_rule/fused_recurrent.py", "fused_recurrent_gated_delta_rule_fwd_kernel",
        "fla_gated_delta_rule_decode", "delta rule", "decoding, a step at a time",
    ),
    Shipped("fla/ops/hgrn/fused_recurrent.py", "fused_recurrent_hgrn_fwd_kernel", "fla_hgrn", "recurrence", "serial"),
    Shipped("fla/ops/utils/cumsum.py", "chunk_local_cumsum_vector_kernel", "fla_cumsum", "scan", "used widely"),
    Shipped(
        "fla/modules/causal_conv1d/ops.py", "causal_conv1d_fwd_kernel", "fla_causal_conv1d", "convolution",
        "in front of every linear attention layer",
    ),
)  # fmt: skip
