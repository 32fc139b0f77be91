"""Drives forward and backward of the modules of fla-core on small tensors: one `drive_…` for each path."""

from __future__ import annotations

import torch
from fla_ops import B, H, K, T, backward, decay, full, op, rand, share, varlen

NOT_ON_THIS_PATH: dict[str, str] = {}


def drive_activations() -> None:
    x = (B, 10, 64)
    backward(op("modules.activations.ops.sigmoid")(rand(*x)))
    backward(op("modules.activations.ops.elu_p1")(rand(*x)))
    backward(op("modules.activations.ops.logsigmoid")(rand(*x)))
    backward(op("modules.activations.ops.swish")(rand(*x)))


def drive_glu_activations() -> None:
    x = (B, 10, 64)
    for name in ("swiglu", "sigmoidglu", "powglu"):
        backward(op(f"modules.activations.ops.{name}")(rand(*x), rand(*x)))
        backward(op(f"modules.activations.ops.{name}_linear")(rand(*x), rand(*x), rand(32, 64), None))


def drive_causal_conv1d() -> None:
    run = op("modules.causal_conv1d.ops.causal_conv1d")
    backward(run(rand(B, T, 64), rand(64, 4), rand(64), activation="silu"))
    backward(run(rand(B, T, 64), rand(64, 4), initial_state=rand(B, 64, 4), output_final_state=True))
    backward(run(rand(B, T, 64), rand(64, 4), cu_seqlens=varlen(), output_final_state=True))


def drive_causal_conv1d_update() -> None:
    run = op("modules.causal_conv1d.ops.causal_conv1d_update")
    run(rand(2, 1, 64, grad=False), rand(2, 64, 4, grad=False), weight=rand(64, 4, grad=False), activation="silu")


def drive_cross_entropy() -> None:
    run = op("modules.fused_cross_entropy.ops.cross_entropy_loss")
    target = torch.randint(0, 200, (6,), device="cuda")
    backward(run(full(6, 200), target))
    backward(run(full(3, 70000), target[:3]))


def drive_fused_kl_div() -> None:
    run = op("modules.fused_kl_div.ops.fused_kl_div_loss")
    (run(full(6, 32), full(6, 32, grad=False), full(200, 32), full(200, 32, grad=False)) * 2).backward()


def drive_fused_linear_cross_entropy() -> None:
    run = op("modules.fused_linear_cross_entropy.ops.fused_linear_cross_entropy_loss")
    target = torch.randint(0, 200, (6,), device="cuda")
    (run(full(6, 32), target, full(200, 32)) * 2).backward()


def drive_grpo() -> None:
    run = op("modules.grpo.ops.fused_grpo_loss")
    ids = torch.randint(0, 64, (2, 7), device="cuda")
    mask = torch.ones(2, 7, device="cuda", dtype=torch.int32)
    backward(run(full(2, 8, 64), full(2, 7, grad=False), ids, full(2, grad=False), 0.1, mask, inplace=False))


def drive_norm_gated() -> None:
    for width in (64, 1024):
        for name in ("layer_norm_gated", "rms_norm_gated"):
            backward(op(f"modules.norm.fused_norm_gate.{name}")(rand(6, width), rand(6, width), rand(width), None))


def drive_norm_gate_linear() -> None:
    run = op("modules.norm.fused_norm_gate.rms_norm_swish_gate_linear")
    backward(run(rand(6, 64), rand(6, 64), rand(64), None, rand(32, 64), None))


def drive_l2norm() -> None:
    for width in (64, 1024):
        backward(op("modules.norm.l2norm.l2norm")(rand(6, width)))


def drive_layer_norm() -> None:
    for width in (64, 1024):
        backward(op("modules.norm.layernorm.layer_norm")(rand(6, width), rand(width), rand(width)))
        backward(op("modules.norm.layernorm.rms_norm")(rand(6, width), rand(width), None))


def drive_group_norm() -> None:
    backward(op("modules.norm.layernorm.group_norm")(rand(6, 64), rand(64), rand(64), num_groups=4))


def drive_layer_norm_linear() -> None:
    backward(op("modules.norm.layernorm.rms_norm_linear")(rand(6, 64), rand(64), None, rand(32, 64), None))


def drive_layer_norm_gated_groups() -> None:
    from fla.modules.norm import layernorm_gated

    backward(layernorm_gated.rmsnorm_fn(rand(6, 64), rand(64), None, z=rand(6, 64), group_size=32))


def drive_bitlinear() -> None:
    backward(op("modules.fused_bitlinear.layer_norm_linear_quant")(rand(6, 64), rand(64), rand(64), rand(32, 64), None))


def drive_rotary() -> None:
    run = op("modules.rotary.ops.rotary_embedding")
    backward(run(rand(B, T, H, K), rand(T, K // 2, grad=False), rand(T, K // 2, grad=False)))


def drive_token_shift() -> None:
    run = op("modules.token_shift.token_shift")
    backward(run(rand(B, T, 64)))
    backward(run(rand(1, 5000, 16)))


__all__ = ["decay", "share"]
