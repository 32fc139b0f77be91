"""Drives forward and backward of the operators of liger-kernel on small tensors: one `drive_…` for each path.

`NOT_ON_THIS_PATH` names the kernels with a launch in the driven files that no GPU of the driven kind would launch.
"""

from __future__ import annotations

import torch

_REFUSED = "Triton 3.7 does not compile `tl.float32(x)` on any machine, so that no run gets to launch it"
NOT_ON_THIS_PATH: dict[str, str] = {
    "liger_kernel/ops/softmax.py::_softmax_multi_block_forward_kernel": _REFUSED,
    "liger_kernel/ops/softmax.py::_softmax_multi_block_backward_kernel": _REFUSED,
    "liger_kernel/ops/swiglu.py::_swiglu_forward_kernel_tiled": "chosen on a B200 only",
    "liger_kernel/ops/swiglu.py::_swiglu_backward_kernel_tiled": "chosen on a B200 only",
}


def rand(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype, requires_grad=grad)


def labels(n: int, vocab: int) -> torch.Tensor:
    target = torch.randint(0, vocab, (n,), device="cuda")
    target[1] = -100
    return target


def backward(*outputs: object) -> None:
    total = sum(t.float().square().mean() for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad)
    total.backward()


def drive_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_rms_norm

    for mode in ("llama", "gemma"):
        backward(liger_rms_norm(rand(2, 5, 96), rand(96), 1e-6, casting_mode=mode))


def drive_rms_norm_many_rows() -> None:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    backward(LigerRMSNormFunction.apply(rand(32 * 1024, 32), rand(32), 1e-6, 0.0, "llama", False, False))


def drive_fused_add_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_fused_add_rms_norm

    backward(*liger_fused_add_rms_norm(rand(2, 5, 96), rand(2, 5, 96), rand(96), 1e-6, in_place=False))


def drive_modulated_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_modulated_rms_norm

    backward(liger_modulated_rms_norm(rand(2, 5, 96), rand(96), rand(2, 1, 96), rand(2, 1, 96)))


def drive_poly_norm() -> None:
    from liger_kernel.transformers.functional import liger_poly_norm

    backward(liger_poly_norm(rand(2, 5, 96), rand(3), rand(), in_place=False))


def drive_layer_norm() -> None:
    from liger_kernel.transformers.functional import liger_layer_norm

    backward(liger_layer_norm(rand(2, 5, 96), rand(96), rand(96), 1e-6))


def drive_group_norm() -> None:
    from liger_kernel.transformers.functional import liger_group_norm

    backward(liger_group_norm(rand(2, 8, 48), rand(8), rand(8), 8, 4, 1e-6))


def drive_dyt() -> None:
    from liger_kernel.transformers.functional import liger_dyt

    backward(liger_dyt(rand(2, 5, 96), rand(1), rand(96), rand(96)))


def drive_cross_entropy() -> None:
    from liger_kernel.transformers.functional import liger_cross_entropy

    backward(liger_cross_entropy(rand(6, 200) * 2, labels(6, 200)))
    out = liger_cross_entropy(
        rand(6, 200) * 2, labels(6, 200), rand(200, grad=False).abs(), label_smoothing=0.1, lse_square_scale=1e-4,
        softcap=30.0, return_z_loss=True, return_token_accuracy=True,
    )  # fmt: skip
    backward(out.loss, out.z_loss)


def drive_fused_linear_cross_entropy() -> None:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    (liger_fused_linear_cross_entropy(rand(6, 32), rand(200, 32), labels(6, 200), rand(200)) * 2).backward()


def drive_fused_linear_jsd() -> None:
    from liger_kernel.transformers.functional import liger_fused_linear_jsd

    loss = liger_fused_linear_jsd(
        rand(6, 32), rand(200, 32), rand(6, 64, grad=False), rand(200, 64, grad=False), labels(6, 200)
    )
    (loss * 2).backward()


def drive_fused_linear_kl_div() -> None:
    from liger_kernel.transformers.functional import liger_fused_linear_kl_div

    target = rand(6, 200, grad=False).softmax(-1)
    (liger_fused_linear_kl_div(rand(6, 32), rand(200, 32), target, labels(6, 200)) * 2).backward()


def drive_fused_ce_tvd() -> None:
    from liger_kernel.ops import LigerFusedCETVDFunction

    losses = LigerFusedCETVDFunction.apply(rand(6, 200), rand(6, 200, grad=False), labels(6, 200), -100)
    backward(*(losses if isinstance(losses, tuple) else (losses,)))


def drive_jsd() -> None:
    from liger_kernel.transformers.functional import liger_jsd

    p, q = rand(6, 200).log_softmax(-1), rand(6, 200, grad=False).log_softmax(-1)
    backward(liger_jsd(p, q, labels(6, 200)))
    backward(liger_jsd(rand(6, 200).log_softmax(-1), q, beta=0.0))


def drive_kl_div() -> None:
    from liger_kernel.transformers.functional import liger_kl_div

    for reduction in ("batchmean", "none"):
        backward(liger_kl_div(rand(6, 200).log_softmax(-1), rand(6, 200, grad=False).softmax(-1), reduction=reduction))


def drive_tvd() -> None:
    from liger_kernel.transformers.functional import liger_tvd

    backward(liger_tvd(rand(6, 200).softmax(-1), rand(6, 200, grad=False).softmax(-1), labels(6, 200)))


def drive_vocab_parallel_cross_entropy() -> None:
    from liger_kernel.ops import LigerVocabParallelCEFunction

    loss = LigerVocabParallelCEFunction.apply(
        rand(5, 2, 200), torch.randint(0, 200, (5, 2), device="cuda"), None, -100, 0.1, "megatron", "megatron"
    )
    backward(loss)


def drive_grpo_loss() -> None:
    from liger_kernel.transformers.grpo_loss import triton_grpo_loss

    for level in ("token", "sequence"):
        ids = torch.randint(0, 64, (3, 7), device="cuda")
        mask = torch.ones_like(ids)
        mask[0, 5:] = 0
        loss, *_ = triton_grpo_loss(
            rand(3, 8, 64), None, rand(3, 7, grad=False), ids, rand(3, grad=False), mask, loss_type="grpo",
            importance_sampling_level=level, inplace=False, reduce=True,
        )  # fmt: skip
        loss.backward()


def drive_selective_log_softmax() -> None:
    from liger_kernel.ops.grpo_loss import fused_selective_log_softmax

    ids = torch.randint(0, 64, (3, 7), device="cuda")
    fused_selective_log_softmax(rand(3, 8, 64, grad=False), ids, 0.9, torch.ones_like(ids))


def drive_geglu() -> None:
    from liger_kernel.transformers.functional import liger_geglu

    backward(liger_geglu(rand(2, 5, 96), rand(2, 5, 96)))


def drive_swiglu() -> None:
    from liger_kernel.transformers.functional import liger_swiglu

    backward(liger_swiglu(rand(2, 5, 96), rand(2, 5, 96)))


def drive_swiglu_fused_gate_up() -> None:
    from liger_kernel.ops import LigerFusedGateUpSiLUMulFunction

    backward(LigerFusedGateUpSiLUMulFunction.apply(rand(10, 192), False))


def drive_relu_squared() -> None:
    from liger_kernel.transformers.functional import liger_relu_squared

    backward(liger_relu_squared(rand(2, 5, 96)))


def drive_mlp() -> None:
    from liger_kernel.ops import LigerMLPFunction

    def half(*shape: int, grad: bool = True) -> torch.Tensor:
        return rand(*shape, dtype=torch.bfloat16, grad=grad)

    backward(LigerMLPFunction.apply(half(1, 16, 64), half(128, 64), half(128, 64), half(64, 128)))
    LigerMLPFunction.apply(*(half(*s, grad=False) for s in ((1, 16, 64), (128, 64), (128, 64), (64, 128))))


def drive_tiled_mlp() -> None:
    from liger_kernel.ops import LigerSiLUMulFunction, apply_tiled_mlp

    gate = torch.nn.Linear(32, 32, device="cuda")

    def forward(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return LigerSiLUMulFunction.apply(module(x), module(x))

    backward(apply_tiled_mlp(forward, gate, rand(1, 8, 32), num_shards=2))


def drive_fused_moe() -> None:
    from liger_kernel.ops import LigerFusedMoEFunction

    experts, hidden, inner = 4, 64, 32
    index = torch.stack([torch.randperm(experts, device="cuda")[:2] for _ in range(12)]).to(torch.int32)
    weights = rand(12, 2, grad=False).softmax(-1).to(torch.bfloat16).requires_grad_()
    out = LigerFusedMoEFunction.apply(
        rand(12, hidden, dtype=torch.bfloat16), rand(experts, 2 * inner, hidden, dtype=torch.bfloat16),
        rand(experts, hidden, inner, dtype=torch.bfloat16), index, weights,
    )  # fmt: skip
    backward(out)


def drive_rope() -> None:
    from liger_kernel.transformers.functional import liger_rope

    cos, sin = rand(1, 5, 32, grad=False), rand(1, 5, 32, grad=False)
    backward(*liger_rope(rand(2, 4, 5, 32), rand(2, 2, 5, 32), cos, sin))


def drive_qwen2vl_mrope() -> None:
    from liger_kernel.transformers.functional import liger_qwen2vl_mrope

    cos, sin = rand(3, 2, 5, 32, grad=False), rand(3, 2, 5, 32, grad=False)
    backward(*liger_qwen2vl_mrope(rand(2, 4, 5, 32), rand(2, 2, 5, 32), cos, sin, [4, 6, 6]))


def drive_llama4_rope() -> None:
    from liger_kernel.ops import LigerLlama4RopeFunction

    freqs = torch.polar(torch.ones(5, 16), torch.randn(5, 16)).to("cuda")
    backward(*LigerLlama4RopeFunction.apply(rand(2, 5, 4, 32), rand(2, 5, 2, 32), freqs))


def drive_softmax() -> None:
    from liger_kernel.transformers.functional import liger_softmax

    backward(liger_softmax(rand(2, 5, 96)))


def drive_sparsemax() -> None:
    from liger_kernel.transformers.functional import liger_sparsemax

    backward(liger_sparsemax(rand(6, 96), -1))


def drive_multi_token_attention() -> None:
    from liger_kernel.transformers.functional import liger_multi_token_attention

    for sparse in (False, True):
        backward(liger_multi_token_attention(rand(2, 4, 16, 16), rand(4, 4, 3, 3), rand(4), padding=1, sparse=sparse))


def drive_fused_neighborhood_attention() -> None:
    from liger_kernel.transformers.functional import liger_fused_neighborhood_attention

    backward(liger_fused_neighborhood_attention(rand(1, 2, 32, 32), rand(1, 2, 32, 32), rand(1, 2, 32, 32), 5))


def drive_attn_res() -> None:
    from liger_kernel.transformers.functional import liger_attn_res

    backward(liger_attn_res(rand(3, 2, 4, 64), rand(64), rand(64)))


def drive_mhc() -> None:
    from liger_kernel.transformers import functional

    streams, width = 4, 64
    m = streams * streams + 2 * streams
    x = rand(2, 5, streams, width, dtype=torch.bfloat16)
    pre, post, res = functional.liger_mhc_coeffs(x, rand(streams * width, m), rand(m), rand(), rand(), rand(), tmax=4)
    inner = functional.liger_mhc_pre(x, pre)
    backward(functional.liger_mhc_post_res(x, inner.to(x.dtype), post, res), inner)


def drive_mhc_without_history() -> None:
    from liger_kernel.ops import mhc

    streams, n = 4, 8
    m = streams * streams + 2 * streams
    mix, b, alpha = rand(n, m, grad=False), rand(m, grad=False), rand(grad=False)
    mhc.mhc_sinkhorn_bwd(mix, b, alpha, rand(n, streams, streams, grad=False), tmax=4, sinkhorn_eps=1e-6)


def drive_embedding() -> None:
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction

    backward(LigerEmbeddingFunction.apply(rand(50, 64), torch.randint(0, 50, (2, 6), device="cuda")))


def drive_int8_int2_matmul() -> None:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul, pack_weights

    a = torch.randint(-128, 127, (64, 512), dtype=torch.int8, device="cuda")
    packed = pack_weights(torch.randint(0, 3, (512, 64), dtype=torch.int8, device="cuda"), 2)
    matmul(a, packed.contiguous())
