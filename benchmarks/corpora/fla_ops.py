"""Drives forward and backward of the operators of fla-core on small tensors: one `drive_…` for each path.

`NOT_ON_THIS_PATH` names kernels with a launch in the package that a run on one GPU of the driven kind does not reach.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch.nn.functional as F

_UNIMPORTABLE = "its module imports what fla-core lacks"
_SEVERAL_GPUS = "context parallelism, over a process group of several GPUs"
_SMALL = "for GPUs with less shared memory than an A100"
NOT_ON_THIS_PATH: dict[str, str] = {
    "fla/ops/delta_rule/parallel.py::chunk_transform_qk_fwd_kernel": _UNIMPORTABLE,
    "fla/ops/delta_rule/parallel.py::parallel_delta_rule_fwd_kernel": _UNIMPORTABLE,
    "fla/ops/delta_rule/parallel.py::save_intra_chunk_attn": _UNIMPORTABLE,
    "fla/ops/deltaformer/parallel.py::parallel_deltaformer_bwd_kernel_qk": _UNIMPORTABLE,
    "fla/ops/deltaformer/parallel.py::parallel_deltaformer_bwd_kernel_row_sum": _UNIMPORTABLE,
    "fla/ops/deltaformer/parallel.py::parallel_deltaformer_bwd_kernel_u": _UNIMPORTABLE,
    "fla/ops/deltaformer/parallel.py::parallel_deltaformer_fwd_kernel": _UNIMPORTABLE,
    "fla/ops/cp/chunk_bwd.py::chunk_cp_bwd_kernel_dh": _SEVERAL_GPUS,
    "fla/ops/cp/chunk_fwd.py::chunk_cp_fwd_kernel_h": _SEVERAL_GPUS,
    "fla/ops/cp/chunk_merge.py::chunk_cp_fwd_bwd_kernel_merge": _SEVERAL_GPUS,
    "fla/ops/mesa_net/chunk_h_kv_intra_bwd_separate.py::chunk_mesa_net_h_kv_bwd_intra_kernel_dkv": _SMALL,
    "fla/ops/mesa_net/chunk_h_kv_intra_bwd_separate.py::chunk_mesa_net_h_kv_bwd_intra_kernel_dq": _SMALL,
}

B, T, H, K, V = 1, 100, 2, 32, 32


def op(name: str) -> Any:
    """Return `function` of `module.function` below `fla`."""
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"fla.{module}"), function)


def rand(*shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = True) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype, requires_grad=grad)


def full(*shape: int, grad: bool = True) -> torch.Tensor:
    return rand(*shape, dtype=torch.float32, grad=grad)


def unit(*shape: int) -> torch.Tensor:
    return F.normalize(rand(*shape, grad=False).float(), dim=-1).to(torch.bfloat16).requires_grad_()


def decay(*shape: int) -> torch.Tensor:
    return F.logsigmoid(full(*shape, grad=False)).requires_grad_()


def share(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return full(*shape, grad=False).sigmoid().to(dtype).requires_grad_()


def qkv(t: int = T, h: int = H, k: int = K, v: int = V) -> tuple[torch.Tensor, ...]:
    return rand(B, t, h, k), rand(B, t, h, k), rand(B, t, h, v)


def varlen() -> torch.Tensor:
    return torch.tensor([0, 30, T], dtype=torch.long, device="cuda")


def state(h: int = H, k: int = K, v: int = V) -> torch.Tensor:
    return full(B, h, k, v)


def backward(result: object) -> None:
    outputs = [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor)]
    total = sum(t.float().square().mean() for t in outputs if t.requires_grad)
    total.backward()


def drive_abc() -> None:
    backward(op("ops.abc.chunk_abc")(*qkv(), rand(B, T, H, 16), output_final_state=True))


def drive_attn() -> None:
    run = op("ops.attn.parallel_attn")
    backward(run(*qkv()))
    backward(run(*qkv(), decay(B, T, H), window_size=20))
    backward(run(*qkv(), cu_seqlens=varlen()))


def drive_attn_decoding() -> None:
    lengths = torch.tensor([0, 40, T], dtype=torch.int32, device="cuda")
    op("ops.attn.decoding.attn_decoding_one_step")(
        rand(1, 2, H, K, grad=False), rand(1, T, H, K, grad=False), rand(1, T, H, V, grad=False),
        cu_seqlens=lengths, do_gate_scale=False,
    )  # fmt: skip


def drive_attnres() -> None:
    run = op("ops.attnres.fused_attnres")
    backward(run(rand(64), [rand(B, 10, 64) for _ in range(3)], rand(64)))


def drive_based() -> None:
    backward(op("ops.based.parallel_based")(*qkv(k=16), use_norm=False))


def drive_based_fused_chunk() -> None:
    backward(op("ops.based.fused_chunk_based")(*qkv(k=16), use_norm=False))


def drive_comba() -> None:
    run = op("ops.comba.chunk_comba")
    backward(run(*qkv(), rand(B, T, H, K), decay(B, T, H), share(B, T, H), use_qk_l2norm_in_kernel=True))


def drive_comba_recurrent() -> None:
    q, k, v = qkv(t=12)
    op("ops.comba.fused_recurrent_comba")(q, k, unit(B, 12, H, K), v, decay(B, 12, H), share(B, 12, H))


def cyfa_inputs(t: int, *, grad: bool) -> tuple[object, ...]:
    q, k, v = (x if grad else x.detach() for x in qkv(t=t))
    gates = (decay(B, t, H), share(B, t, H, dtype=torch.float32), share(B, t, H), full(H, 15, 15), rand(K), rand(K))
    return (q, k, v, *(x if grad else x.detach() for x in gates), 1e-6, 1e-6)


def drive_cyfa() -> None:
    backward(op("ops.cyfa.chunk_cyfa")(*cyfa_inputs(T, grad=True)))
    backward(op("ops.cyfa.chunk_cyfa")(*cyfa_inputs(T, grad=True), checkpoint_level=1))


def drive_cyfa_recurrent() -> None:
    op("ops.cyfa.fused_recurrent_cyfa")(*cyfa_inputs(12, grad=False), output_final_state=True)
    _, state = op("ops.cyfa.fused_recurrent_cyfa")(*cyfa_inputs(12, grad=False), output_final_state=True)
    op("ops.cyfa.fused_recurrent_cyfa")(*cyfa_inputs(1, grad=False), initial_state=state, output_final_state=True)


def drive_delta_rule() -> None:
    run = op("ops.delta_rule.chunk_delta_rule")
    q, k, v = qkv()
    backward(run(q, k, v, share(B, T, H), use_qk_l2norm_in_kernel=True, initial_state=state(), output_final_state=True))
    backward(run(*qkv(), share(B, T, H), use_qk_l2norm_in_kernel=True, cu_seqlens=varlen()))


def drive_delta_rule_recurrent() -> None:
    q, _, v = qkv(t=12)
    backward(op("ops.delta_rule.fused_recurrent_delta_rule")(q, unit(B, 12, H, K), v, share(B, 12, H)))


def drive_forgetting_attn() -> None:
    backward(op("ops.forgetting_attn.parallel_forgetting_attn")(*qkv(), decay(B, T, H)))


def drive_gated_delta_product() -> None:
    q = rand(B, 64, H, K)
    k, v, beta = unit(B, 128, H, K), rand(B, 128, H, V), share(B, 128, H)
    run = op("ops.gated_delta_product.chunk_gated_delta_product")
    backward(run(q, k, v, decay(B, 64, H), beta, num_householder=2, output_final_state=True))


def drive_gated_delta_rule() -> None:
    run = op("ops.gated_delta_rule.chunk_gated_delta_rule")
    q, _, v = qkv()
    backward(run(q, unit(B, T, H, K), v, decay(B, T, H), share(B, T, H), output_final_state=True))


def drive_gated_delta_rule_in_kernel() -> None:
    run = op("ops.gated_delta_rule.chunk_gated_delta_rule")
    backward(
        run(
            *qkv(), full(B, T, H), full(B, T, H), use_gate_in_kernel=True, A_log=full(H), dt_bias=full(H),
            use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True,
        )
    )  # fmt: skip


def drive_gated_delta_rule_recurrent() -> None:
    q, _, v = (x.detach() for x in qkv(t=12))
    run = op("ops.gated_delta_rule.fused_recurrent_gated_delta_rule")
    run(q, unit(B, 12, H, K).detach(), v, decay(B, 12, H).detach(), beta=share(B, 12, H).detach())


def drive_gated_delta_rule_gate() -> None:
    backward(op("ops.gated_delta_rule.gate.fused_gdn_gate")(full(B, T, H), full(H), full(H)))


def drive_gated_oja_rule() -> None:
    run = op("ops.gated_oja_rule.chunk_gated_oja_rule")
    q, k, _ = qkv()
    backward(run(q, k, unit(B, T, H, V), decay(B, T, H, V), share(B, T, H)))


def drive_gated_oja_rule_recurrent() -> None:
    q, k, _ = (x.detach() for x in qkv(t=12))
    run = op("ops.gated_oja_rule.fused_recurrent_gated_oja_rule")
    run(q, k, unit(B, 12, H, V).detach(), decay(B, 12, H, V).detach(), share(B, 12, H).detach())


def drive_gdn2() -> None:
    run = op("ops.gdn2.chunk_gdn2")
    q, _, v = qkv()
    backward(run(q, unit(B, T, H, K), v, decay(B, T, H, K), share(B, T, H, K), share(B, T, H, V)))


def drive_gdn2_safe_gate() -> None:
    run = op("ops.gdn2.chunk_gdn2")
    q, _, v = qkv()
    gate = decay(B, T, H, K).detach().clamp(-5, 0).requires_grad_()
    backward(run(q, unit(B, T, H, K), v, gate, share(B, T, H, K), share(B, T, H, V), safe_gate=True, lower_bound=-5.0))


def drive_gdn2_recurrent() -> None:
    q, _, v = (x.detach() for x in qkv(t=12))
    run = op("ops.gdn2.fused_recurrent_gdn2")
    gate = decay(B, 12, H, K).detach()
    run(q, unit(B, 12, H, K).detach(), v, gate, share(B, 12, H, K).detach(), share(B, 12, H, V).detach())


def drive_dplr() -> None:
    run = op("ops.generalized_delta_rule.chunk_dplr_delta_rule")
    a = unit(B, T, H, K)
    b = (-a.detach() * 0.5).requires_grad_()
    backward(run(*qkv(), a, b, decay(B, T, H, K)))


def drive_dplr_safe_gate() -> None:
    run = op("ops.generalized_delta_rule.chunk_dplr_delta_rule")
    a = unit(B, T, H, K)
    b = (-a.detach() * 0.5).requires_grad_()
    gate = decay(B, T, H, K).detach().clamp(-5, 0).requires_grad_()
    backward(run(*qkv(), a, b, gate, safe_gate=True, chunk_size=64))
    backward(run(*qkv(), a, b, gate, safe_gate=True, chunk_size=32))


def drive_dplr_recurrent() -> None:
    run = op("ops.generalized_delta_rule.fused_recurrent_dplr_delta_rule")
    a = unit(B, 12, H, K).detach()
    run(*(x.detach() for x in qkv(t=12)), a, -a, decay(B, 12, H, K).detach())


def drive_iplr() -> None:
    run = op("ops.generalized_delta_rule.chunk_iplr_delta_rule")
    a = unit(B, T, H, K).detach()
    run(*(x.detach() for x in qkv()), a, -a)


def drive_iplr_recurrent() -> None:
    run = op("ops.generalized_delta_rule.fused_recurrent_iplr_delta_rule")
    a = unit(B, 12, H, K)
    backward(run(*qkv(t=12), a, (-a.detach()).requires_grad_()))


def drive_gla() -> None:
    run = op("ops.gla.chunk_gla")
    backward(run(*qkv(), decay(B, T, H, K), initial_state=state(), output_final_state=True))
    backward(run(*qkv(), decay(B, T, H, K), cu_seqlens=varlen()))


def drive_gla_wide_heads() -> None:
    backward(op("ops.gla.chunk_gla")(*qkv(t=64, h=1, k=512, v=16), decay(B, 64, 1, 512)))


def drive_gla_recurrent() -> None:
    backward(op("ops.gla.fused_recurrent_gla")(*qkv(t=12), decay(B, 12, H, K), output_final_state=True))


def drive_gsa() -> None:
    run = op("ops.gsa.chunk_gsa")
    backward(run(*qkv(), share(B, T, H, 32), decay(B, T, H, 32), output_final_state=True))


def drive_gsa_recurrent() -> None:
    run = op("ops.gsa.fused_recurrent_gsa")
    backward(run(*qkv(t=12), share(B, 12, H, 32), decay(B, 12, H, 32)))


def drive_gsa_decoding() -> None:
    run = op("ops.gsa.fused_recurrent_gsa")
    q, k, v = (x.detach() for x in qkv(t=1))
    hk, hv = full(B, H, K, 32, grad=False), full(B, H, 32, V, grad=False)
    run(
        q,
        k,
        v,
        share(B, 1, H, 32).detach(),
        decay(B, 1, H, 32).detach(),
        initial_state=(hk, hv),
        output_final_state=True,
    )


def drive_common_h_parallel() -> None:
    for module in ("chunk_h_parallel", "chunk_h_split"):
        q, k, v = (x.detach() for x in qkv())
        g = op("ops.utils.cumsum.chunk_local_cumsum_scalar")(decay(B, T, H).detach(), 32)
        forward, back = op(f"ops.common.{module}.chunk_fwd_h"), op(f"ops.common.{module}.chunk_bwd_dh")
        given = {"g": g, "gk": None, "gv": None, "chunk_size": 32}
        if module == "chunk_h_split":
            given["split_size"] = 64
            given["cu_seqlens"] = None
        forward(k=k, v=v, h0=state().detach(), output_final_state=True, **given)
        back(q=q, k=k, v=v, do=torch.ones_like(v), h0=state().detach(), dht=state().detach(), scale=0.1, **given)


def drive_hgrn() -> None:
    backward(op("ops.hgrn.chunk_hgrn")(full(B, T, 64), decay(B, T, 64)))


def drive_hgrn_recurrent() -> None:
    backward(op("ops.hgrn.fused_recurrent_hgrn")(full(B, T, 64), decay(B, T, 64), output_final_state=True))


def drive_kda() -> None:
    run = op("ops.kda.chunk_kda")
    q, _, v = qkv()
    backward(run(q, unit(B, T, H, K), v, decay(B, T, H, K), share(B, T, H), output_final_state=True))


def drive_kda_in_kernel() -> None:
    run = op("ops.kda.chunk_kda")
    backward(
        run(
            *qkv(), rand(B, T, H, K), share(B, T, H), use_gate_in_kernel=True, A_log=full(H), dt_bias=full(H * K),
            use_qk_l2norm_in_kernel=True, safe_gate=True, lower_bound=-5.0,
        )
    )  # fmt: skip


def drive_kda_recurrent() -> None:
    q, _, v = (x.detach() for x in qkv(t=12))
    run = op("ops.kda.fused_recurrent_kda")
    run(q, unit(B, 12, H, K).detach(), v, decay(B, 12, H, K).detach(), share(B, 12, H).detach())


def drive_kda_gate() -> None:
    backward(op("ops.kda.gate.fused_kda_gate")(rand(B, T, H, K), full(H), full(H * K)))


def drive_lightnet() -> None:
    backward(op("ops.lightnet.chunk_lightnet")(*qkv()))


def drive_lightnet_recurrent() -> None:
    backward(op("ops.lightnet.fused_recurrent_lightnet")(*qkv(t=12)))


def drive_lightning_attn() -> None:
    backward(op("ops.lightning_attn.chunk_lightning_attn")(*qkv(), 1, 4))


def drive_linear_attn() -> None:
    backward(op("ops.linear_attn.chunk_linear_attn")(*qkv()))


def drive_linear_attn_fused_chunk() -> None:
    backward(op("ops.linear_attn.fused_chunk_linear_attn")(*qkv()))


def drive_linear_attn_recurrent() -> None:
    backward(op("ops.linear_attn.fused_recurrent_linear_attn")(*qkv(t=12)))


def drive_log_linear_attn() -> None:
    run = op("ops.log_linear_attn.chunk_log_linear_attn")
    q, k, v = rand(B, 128, 1, 64), rand(B, 128, 1, 64), rand(B, 128, 2, 64)
    backward(run(q, k, v, decay(B, 128, 2), rand(B, 128, 2, 12)))


def drive_log_linear_attn_state() -> None:
    run = op("ops.log_linear_attn.chunk_log_linear_attn")
    q, k, v = rand(B, 128, 1, 64, grad=False), rand(B, 128, 1, 64, grad=False), rand(B, 128, 2, 64, grad=False)
    run(q, k, v, decay(B, 128, 2).detach(), rand(B, 128, 2, 12, grad=False), output_final_state=True)


def drive_mesa_net() -> None:
    run = op("ops.mesa_net.chunk_mesa_net")
    q, _, v = qkv(k=64, v=64)
    lamb = (F.softplus(full(H, 64, grad=False)) + 0.25).requires_grad_()
    backward(run(q, unit(B, T, H, 64), v, decay(B, T, H), share(B, T, H), lamb, max_CG_iteration=4))


def drive_mesa_net_wide() -> None:
    run = op("ops.mesa_net.chunk_mesa_net")
    q, _, v = qkv(t=64, h=1, k=128, v=128)
    lamb = (F.softplus(full(1, 128, grad=False)) + 0.25).requires_grad_()
    backward(run(q, unit(B, 64, 1, 128), v, decay(B, 64, 1), share(B, 64, 1), lamb, max_CG_iteration=2))


def drive_mesa_net_decoding() -> None:
    run = op("ops.mesa_net.mesa_net_decoding_one_step")
    q, k, v = (rand(B, H, 64, grad=False) for _ in range(3))
    lamb = F.softplus(full(H, 64, grad=False)) + 0.25
    h_kk, h_kv = full(B, H, 64, 64, grad=False), full(B, H, 64, 64, grad=False)
    run(q, k, v, decay(B, H).detach(), lamb, share(B, H).detach(), h_kk, h_kv, max_CG_iteration=4)


def drive_momentum_delta_rule() -> None:
    run = op("ops.momentum_delta_rule.chunk_momentum_delta_rule")
    backward(run(*qkv(), decay(B, T, H), decay(B, T, H), beta=share(B, T, H), eta=share(B, T, H)))


def drive_momentum_delta_rule_recurrent() -> None:
    run = op("ops.momentum_delta_rule.fused_recurrent_momentum_delta_rule")
    q, k, v = (x.detach() for x in qkv(t=12))
    run(q, k, v, decay(B, 12, H).detach(), decay(B, 12, H).detach(), beta=share(B, 12, H).detach())


def drive_nsa() -> None:
    run = op("ops.nsa.parallel_nsa")
    q, k, v = rand(B, 128, 16, 32), rand(B, 128, 1, 32), rand(B, 128, 1, 32)
    g = share(B, 128, 16)
    backward(run(q, k, v, g, g, block_counts=2, block_size=32))


def drive_nsa_given_blocks() -> None:
    run = op("ops.nsa.parallel_nsa")
    q, k, v = rand(B, 128, 16, 32), rand(B, 128, 1, 32), rand(B, 128, 1, 32)
    blocks = torch.arange(2, device="cuda").view(1, 1, 1, 2).expand(B, 128, 1, 2).contiguous()
    backward(run(q, k, v, g_slc=share(B, 128, 16), block_indices=blocks, block_counts=2, block_size=32))


def drive_parallax() -> None:
    backward(
        op("ops.parallax.parallel_parallax")(rand(B, T, H, K), rand(B, T, H, K), rand(B, T, H, K), rand(B, T, H, V))
    )


def drive_parallax_decode() -> None:
    cache = (rand(B, T, H, K, grad=False), rand(B, T, H, V, grad=False))
    op("ops.parallax.decode.parallax_decode")(rand(B, 5, H, K, grad=False), rand(B, 5, H, K, grad=False), *cache)
    op("ops.parallax.decode.parallax_decode_one_step")(
        rand(B, 1, H, K, grad=False), rand(B, 1, H, K, grad=False), *cache
    )


def drive_path_attn() -> None:
    run = op("ops.path_attn.parallel_path_attn")
    q, k, v = qkv(t=128, k=64, v=64)
    backward(
        run(
            q,
            k,
            v,
            unit(B, 128, H, 64).detach().float().requires_grad_(),
            share(B, 128, H, dtype=torch.float32),
            decay(B, 128, H),
        )
    )


def drive_path_attn_cache() -> None:
    run = op("ops.path_attn.parallel_path_attn")
    q, k, v = (x.detach() for x in qkv(t=128, k=64, v=64))
    w = unit(B, 128, H, 64).detach().float()
    run(q, k, v, w, share(B, 128, H, dtype=torch.float32).detach(), use_cache=True)


def drive_precond_gated_delta_rule() -> None:
    run = op("ops.precond_gated_delta_rule.chunk_precond_gated_delta_rule")
    backward(run(*qkv(), decay(B, T, H), decay(B, T, H), share(B, T, H), share(B, T, H)))


def drive_precond_gated_delta_rule_recurrent() -> None:
    run = op("ops.precond_gated_delta_rule.fused_recurrent_precond_gated_delta_rule")
    gates = {"g": decay(B, 12, H).detach(), "g_atk": decay(B, 12, H).detach()}
    betas = {"beta": share(B, 12, H).detach(), "beta_atk": share(B, 12, H).detach()}
    run(*(x.detach() for x in qkv(t=12)), **gates, **betas)


def drive_precond_kda() -> None:
    run = op("ops.precond_kda.chunk_precond_kda")
    q, _, v = qkv()
    backward(run(q, unit(B, T, H, K), v, decay(B, T, H, K), decay(B, T, H), share(B, T, H), share(B, T, H)))


def drive_precond_kda_safe_gate() -> None:
    run = op("ops.precond_kda.chunk_precond_kda")
    q, _, v = qkv()
    gate = decay(B, T, H, K).detach().clamp(-5, 0).requires_grad_()
    given = (q, unit(B, T, H, K), v, gate, decay(B, T, H), share(B, T, H), share(B, T, H))
    backward(run(*given, safe_gate=True, lower_bound=-5.0))


def drive_precond_kda_recurrent() -> None:
    run = op("ops.precond_kda.fused_recurrent_precond_kda")
    given = (decay(B, 12, H, K), decay(B, 12, H), share(B, 12, H), share(B, 12, H))
    run(*(x.detach() for x in (*qkv(t=12), *given)))


def drive_rebased() -> None:
    backward(
        op("ops.rebased.parallel_rebased")(
            *(x.float().detach().requires_grad_() for x in qkv(k=16)), use_normalize=False
        )
    )


def drive_retention() -> None:
    backward(op("ops.retention.chunk_retention")(*qkv(), initial_state=state(), output_final_state=True))


def drive_retention_fused_chunk() -> None:
    backward(op("ops.retention.fused_chunk_retention")(*qkv()))


def drive_retention_parallel() -> None:
    backward(op("ops.retention.parallel_retention")(*qkv()))


def drive_retention_recurrent() -> None:
    backward(op("ops.retention.fused_recurrent_retention")(*qkv(t=12)))


def drive_rwkv4() -> None:
    run = op("ops.rwkv4.fused_recurrent_rwkv4")
    w = (-full(32, grad=False).exp()).requires_grad_()
    initial = torch.zeros(B, 3, 1, 32, device="cuda", requires_grad=True)
    backward(run(w, full(32), full(B, 12, 32), full(B, 12, 32), initial))


def drive_rwkv6() -> None:
    run = op("ops.rwkv6.chunk_rwkv6")
    backward(run(*qkv(), decay(B, T, H, K), rand(H, K), initial_state=state(), output_final_state=True))


def drive_rwkv6_wide_heads() -> None:
    backward(op("ops.rwkv6.chunk_rwkv6")(*qkv(t=64, h=1, k=512, v=16), decay(B, 64, 1, 512), rand(1, 512)))


def drive_rwkv6_recurrent() -> None:
    backward(op("ops.rwkv6.fused_recurrent_rwkv6")(*qkv(t=12), decay(B, 12, H, K), rand(H, K)))


def drive_rwkv7() -> None:
    run = op("ops.rwkv7.chunk_rwkv7")
    a = unit(B, T, H, K)
    r, k, v = qkv()
    backward(run(r, decay(B, T, H, K), k, v, a, (-a.detach() * 0.5).requires_grad_()))


def drive_rwkv7_recurrent() -> None:
    r, k, v = (x.detach() for x in qkv(t=12))
    a = unit(B, 12, H, K).detach()
    op("ops.rwkv7.fused_recurrent_rwkv7")(r, decay(B, 12, H, K).detach(), k, v, a, -a)
    op("ops.rwkv7.fused_mul_recurrent_rwkv7")(r, decay(B, 12, H, K).detach(), k, v, a, share(B, 12, H, K).detach())


def drive_rwkv7_channel_mixing() -> None:
    run = op("ops.rwkv7.channel_mixing.channel_mixing_rwkv7")
    backward(run(rand(B, 12, 32), rand(B, 32), rand(32), rand(32, 64), rand(64, 32)))


def drive_rwkv7_addcmul() -> None:
    run = op("ops.rwkv7.fused_addcmul.fused_addcmul_rwkv7")
    backward(run(rand(B, T, 64), rand(B, T, 64), *(rand(1, 1, 64) for _ in range(6))))


def drive_rwkv7_k_update() -> None:
    run = op("ops.rwkv7.fused_k_update.fused_k_rwkv7")
    backward(run(rand(B, T, 64), rand(B, T, 64), rand(1, 1, 64)))
    backward(run(rand(1, 600, 64), rand(1, 600, 64), rand(1, 1, 64)))


def drive_rwkv7_gate_output_correction() -> None:
    run = op("ops.rwkv7.gate_output_correction.gate_output_correction")
    o, r, k, v, r_k, g = (
        rand(B, T, 64),
        rand(B, T, H, K),
        rand(B, T, H, K),
        rand(B, T, H, K),
        rand(H, K),
        rand(B, T, 64),
    )
    backward(run(o, r, k, r_k, v, g))


def drive_simple_gla() -> None:
    run = op("ops.simple_gla.chunk_simple_gla")
    backward(run(*qkv(), decay(B, T, H), initial_state=state(), output_final_state=True))


def drive_simple_gla_fused_chunk() -> None:
    backward(op("ops.simple_gla.fused_chunk_simple_gla")(*qkv(), decay(B, T, H)))


def drive_simple_gla_parallel() -> None:
    backward(op("ops.simple_gla.parallel_simple_gla")(*qkv(), decay(B, T, H)))


def drive_simple_gla_recurrent() -> None:
    backward(op("ops.simple_gla.fused_recurrent_simple_gla")(*qkv(t=12), decay(B, 12, H)))


def drive_stickbreaking_attn() -> None:
    backward(op("ops.stickbreaking_attn.parallel_stickbreaking_attn")(*qkv(t=64)))


def drive_ttt() -> None:
    run = op("ops.ttt.chunk_ttt_linear")
    q, _, v = qkv(t=48, k=32, v=32)
    backward(run(q, unit(B, 48, H, 32), v, rand(H, 32), rand(H, 32), share(B, 48, H, 1), output_final_state=True))


def drive_ttt_fused_chunk() -> None:
    run = op("ops.ttt.fused_chunk_ttt_linear")
    q, _, v = qkv(t=48, k=32, v=32)
    backward(run(q, unit(B, 48, H, 32), v, rand(H, 32), rand(H, 32), share(B, 48, H, 1), output_final_state=True))


def drive_wall_attn() -> None:
    backward(op("ops.wall_attn.parallel_wall_attn")(*qkv(), decay(B, T, H, K)))


def drive_wall_attn_decode() -> None:
    prefix = -full(B, T, H, K, grad=False).abs().cumsum(1) * 0.1
    k_tilde, cache = op("ops.wall_attn.decode.build_wall_kv_cache")(rand(B, T, H, K, grad=False), prefix, 32)
    run = op("ops.wall_attn.decode.parallel_wall_attn_decode")
    run(
        rand(B, 1, H, K, grad=False),
        rand(B, T, H, V, grad=False),
        prefix[:, -1:].contiguous(),
        k_tilde,
        cache,
        None,
        0.1,
        32,
    )


def drive_cumsum() -> None:
    for name, shape in (("scalar", (B, T, H)), ("vector", (B, T, H, K))):
        op(f"ops.utils.cumsum.chunk_local_cumsum_{name}")(full(*shape, grad=False), 32)
        op(f"ops.utils.cumsum.chunk_global_cumsum_{name}")(full(*shape, grad=False))


def drive_logsumexp() -> None:
    op("ops.utils.logsumexp.logsumexp_fwd")(full(6, 100, grad=False))


def drive_matmul() -> None:
    op("ops.utils.matmul.matmul")(rand(70, 64, grad=False), rand(64, 80, grad=False), "silu")
    op("ops.utils.matmul.addmm")(rand(70, 80, grad=False), rand(70, 64, grad=False), rand(64, 80, grad=False))


def drive_pack() -> None:
    lengths = torch.tensor([0, 5, 12], device="cuda")
    packed = op("ops.utils.pack.pack_sequence")(full(2, 7, 8), lengths)
    backward(op("ops.utils.pack.unpack_sequence")(packed, lengths))


def drive_pooling() -> None:
    backward(op("ops.utils.pooling.mean_pooling")(rand(B, T, H, K), 32))


def drive_sinkhorn() -> None:
    backward(op("ops.utils.sinkhorn.sinkhorn")(full(6, 4, 4), 5))


def drive_softmax() -> None:
    p = op("ops.utils.softmax.softmax_fwd")(full(6, 100, grad=False))
    op("ops.utils.softmax.softmax_bwd")(p, full(6, 100, grad=False))


def drive_solve_tril() -> None:
    for size in (16, 32, 64):
        a = full(B, 128, H, size, grad=False).tril(-1) * 0.1
        op("ops.utils.solve_tril.solve_tril")(a)


def drive_position_ids() -> None:
    op("ops.utils.index.prepare_position_ids")(varlen())
