"""Drives operators of liger-kernel on tensors of the sizes that training a model of 7 billion parameters has.

The drivers of `liger_ops.py` are about paths and use small tensors; these are about speed.
"""

from __future__ import annotations

import torch
from liger_ops import backward, labels, rand

BF16 = torch.bfloat16
TOKENS, WIDTH, VOCABULARY, HEADS, GROUPS, HEAD = 4096, 4096, 32000, 32, 8, 128


def hidden(width: int = WIDTH) -> torch.Tensor:
    return rand(2, TOKENS // 2, width, dtype=BF16)


def logits(rows: int = 2048) -> torch.Tensor:
    return rand(rows, VOCABULARY, dtype=BF16)


def drive_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_rms_norm

    backward(liger_rms_norm(hidden(), rand(WIDTH, dtype=BF16), 1e-6))


def drive_rms_norm_of_heads() -> None:
    from liger_kernel.transformers.functional import liger_rms_norm

    backward(liger_rms_norm(rand(TOKENS * HEADS, HEAD, dtype=BF16), rand(HEAD, dtype=BF16), 1e-6))


def drive_fused_add_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_fused_add_rms_norm

    backward(*liger_fused_add_rms_norm(hidden(), hidden(), rand(WIDTH, dtype=BF16), 1e-6, in_place=False))


def drive_modulated_rms_norm() -> None:
    from liger_kernel.transformers.functional import liger_modulated_rms_norm

    scale, shift = rand(2, 1, WIDTH, dtype=BF16), rand(2, 1, WIDTH, dtype=BF16)
    backward(liger_modulated_rms_norm(hidden(), rand(WIDTH, dtype=BF16), scale, shift))


def drive_poly_norm() -> None:
    from liger_kernel.transformers.functional import liger_poly_norm

    backward(liger_poly_norm(hidden(), rand(3, dtype=BF16), rand(dtype=BF16), in_place=False))


def drive_layer_norm() -> None:
    from liger_kernel.transformers.functional import liger_layer_norm

    backward(liger_layer_norm(hidden(), rand(WIDTH, dtype=BF16), rand(WIDTH, dtype=BF16), 1e-6))


def drive_group_norm() -> None:
    from liger_kernel.transformers.functional import liger_group_norm

    backward(liger_group_norm(rand(16, 320, 4096), rand(320), rand(320), 320, 32, 1e-6))


def drive_dyt() -> None:
    from liger_kernel.transformers.functional import liger_dyt

    backward(liger_dyt(hidden(), rand(1, dtype=BF16), rand(WIDTH, dtype=BF16), rand(WIDTH, dtype=BF16)))


def drive_cross_entropy() -> None:
    from liger_kernel.transformers.functional import liger_cross_entropy

    backward(liger_cross_entropy(logits(), labels(2048, VOCABULARY)))


def drive_fused_linear_cross_entropy() -> None:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    weight = rand(VOCABULARY, 1024, dtype=BF16)
    (liger_fused_linear_cross_entropy(rand(2048, 1024, dtype=BF16), weight, labels(2048, VOCABULARY)) * 2).backward()


def drive_fused_ce_tvd() -> None:
    from liger_kernel.ops import LigerFusedCETVDFunction

    losses = LigerFusedCETVDFunction.apply(logits(), logits().detach(), labels(2048, VOCABULARY), -100)
    backward(*(losses if isinstance(losses, tuple) else (losses,)))


def drive_jsd() -> None:
    from liger_kernel.transformers.functional import liger_jsd

    backward(liger_jsd(logits(), logits().detach()))


def drive_kl_div() -> None:
    from liger_kernel.transformers.functional import liger_kl_div

    for reduction in ("batchmean", "none"):
        backward(liger_kl_div(logits(), logits().detach(), reduction=reduction))


def drive_tvd() -> None:
    from liger_kernel.transformers.functional import liger_tvd

    backward(liger_tvd(logits(), logits().detach()))


def drive_grpo_loss() -> None:
    from liger_kernel.transformers.grpo_loss import triton_grpo_loss

    rows, length = 8, 256
    ids = torch.randint(0, VOCABULARY, (rows, length), device="cuda")
    loss, *_ = triton_grpo_loss(
        rand(rows, length + 1, VOCABULARY, dtype=BF16), None, rand(rows, length, grad=False), ids,
        rand(rows, grad=False), torch.ones_like(ids), loss_type="grpo", inplace=False, reduce=True,
    )  # fmt: skip
    loss.backward()


def drive_geglu() -> None:
    from liger_kernel.transformers.functional import liger_geglu

    backward(liger_geglu(hidden(11008), hidden(11008)))


def drive_swiglu() -> None:
    from liger_kernel.transformers.functional import liger_swiglu

    backward(liger_swiglu(hidden(11008), hidden(11008)))


def drive_relu_squared() -> None:
    from liger_kernel.transformers.functional import liger_relu_squared

    backward(liger_relu_squared(hidden(11008)))


def drive_mlp() -> None:
    from liger_kernel.ops import LigerMLPFunction

    gate, up = rand(4096, 2048, dtype=BF16), rand(4096, 2048, dtype=BF16)
    backward(LigerMLPFunction.apply(rand(1, 2048, 2048, dtype=BF16), gate, up, rand(2048, 4096, dtype=BF16)))


def drive_fused_moe() -> None:
    from liger_kernel.ops import LigerFusedMoEFunction

    experts, width, inner, tokens = 16, 1024, 512, 4096
    index = torch.stack([torch.randperm(experts, device="cuda")[:4] for _ in range(tokens)]).to(torch.int32)
    weights = rand(tokens, 4, grad=False).softmax(-1).to(BF16).requires_grad_()
    out = LigerFusedMoEFunction.apply(
        rand(tokens, width, dtype=BF16), rand(experts, 2 * inner, width, dtype=BF16),
        rand(experts, width, inner, dtype=BF16), index, weights,
    )  # fmt: skip
    backward(out)


def drive_rope() -> None:
    from liger_kernel.transformers.functional import liger_rope

    cos, sin = rand(1, 2048, HEAD, dtype=BF16, grad=False), rand(1, 2048, HEAD, dtype=BF16, grad=False)
    query, key = rand(2, HEADS, 2048, HEAD, dtype=BF16), rand(2, GROUPS, 2048, HEAD, dtype=BF16)
    backward(*liger_rope(query, key, cos, sin))


def drive_qwen2vl_mrope() -> None:
    from liger_kernel.transformers.functional import liger_qwen2vl_mrope

    cos, sin = rand(3, 2, 2048, HEAD, dtype=BF16, grad=False), rand(3, 2, 2048, HEAD, dtype=BF16, grad=False)
    query, key = rand(2, HEADS, 2048, HEAD, dtype=BF16), rand(2, GROUPS, 2048, HEAD, dtype=BF16)
    backward(*liger_qwen2vl_mrope(query, key, cos, sin, [16, 24, 24]))


def drive_softmax() -> None:
    from liger_kernel.transformers.functional import liger_softmax

    backward(liger_softmax(hidden()))


def drive_sparsemax() -> None:
    from liger_kernel.transformers.functional import liger_sparsemax

    backward(liger_sparsemax(rand(TOKENS, 1024), -1))


def drive_multi_token_attention() -> None:
    from liger_kernel.transformers.functional import liger_multi_token_attention

    for sparse in (False, True):
        backward(liger_multi_token_attention(rand(2, 8, 512, 512), rand(8, 8, 3, 3), rand(8), padding=1, sparse=sparse))


def drive_fused_neighborhood_attention() -> None:
    from liger_kernel.transformers.functional import liger_fused_neighborhood_attention

    q, k, v = (rand(2, 8, 1024, 64) for _ in range(3))
    backward(liger_fused_neighborhood_attention(q, k, v, 7))


def drive_attn_res() -> None:
    from liger_kernel.transformers.functional import liger_attn_res

    backward(liger_attn_res(rand(8, 2, 1024, 2048, dtype=BF16), rand(2048, dtype=BF16), rand(2048, dtype=BF16)))


def drive_mhc() -> None:
    from liger_kernel.transformers import functional

    streams, width = 4, 2048
    m = streams * streams + 2 * streams
    x = rand(2, 1024, streams, width, dtype=BF16)
    pre, post, res = functional.liger_mhc_coeffs(x, rand(streams * width, m), rand(m), rand(), rand(), rand(), tmax=20)
    inner = functional.liger_mhc_pre(x, pre)
    backward(functional.liger_mhc_post_res(x, inner.to(x.dtype), post, res), inner)


def drive_embedding() -> None:
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction

    ids = torch.randint(0, VOCABULARY, (2, 2048), device="cuda")
    backward(LigerEmbeddingFunction.apply(rand(VOCABULARY, 1024), ids))


def drive_int8_int2_matmul() -> None:
    from liger_kernel.ops.experimental.mm_int8int2 import matmul, pack_weights

    a = torch.randint(-128, 127, (2048, 4096), dtype=torch.int8, device="cuda")
    packed = pack_weights(torch.randint(0, 3, (4096, 2048), dtype=torch.int8, device="cuda"), 2)
    matmul(a, packed.contiguous())
