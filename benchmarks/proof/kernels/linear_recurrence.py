"""First-order linear recurrence h[t] = a[t] · h[t − 1] + b[t] over time, scanned in chunks with a carried state."""

import torch
import triton
import triton.language as tl


@triton.jit
def compose(a_first, b_first, a_then, b_then):
    """Compose two steps h → a · h + b, the first one first."""
    return a_first * a_then, a_then * b_first + b_then


@triton.heuristics({"EVEN_CHANNELS": lambda args: args["channels"] % args["BLOCK_C"] == 0})
@triton.jit
def linear_recurrence_kernel(
    h_ptr,
    final_ptr,
    a_ptr,
    b_ptr,
    initial_ptr,
    time,
    channels,
    stride_batch,
    stride_time,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    EVEN_CHANNELS: tl.constexpr,
):
    """BLOCK_C channels of one sequence a program, BLOCK_T steps at a time."""
    batch = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    steps = tl.arange(0, BLOCK_T)
    valid = cols < channels
    if EVEN_CHANNELS:
        carry = tl.load(initial_ptr + batch * channels + cols)
    else:
        carry = tl.load(initial_ptr + batch * channels + cols, mask=valid, other=0.0)
    for start in range(0, time, BLOCK_T):
        t = start + steps
        at = batch * stride_batch + t[:, None] * stride_time + cols[None, :]
        mask = (t[:, None] < time) & (cols[None, :] >= 0 if EVEN_CHANNELS else valid[None, :])
        a = tl.load(a_ptr + at, mask=mask, other=1.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=mask, other=0.0).to(tl.float32)
        decay, driven = tl.associative_scan((a, b), 0, compose)
        h = decay * carry[None, :] + driven
        tl.store(h_ptr + at, h.to(h_ptr.dtype.element_ty), mask=mask)
        carry = tl.sum(tl.where(steps[:, None] == BLOCK_T - 1, h, 0.0), axis=0)
    tl.store(final_ptr + batch * channels + cols, carry, mask=valid)


def linear_recurrence(a, b, initial):
    """Scan h[t] = a[t] · h[t − 1] + b[t].

    Args:
        a: (batch, time, channels), contiguous.
        b: as `a`.
        initial: (batch, channels) float32, the state before time 0.

    Returns:
        h (batch, time, channels) in the type of `a`, and the last state (batch, channels), float32.
    """
    batch, time, channels = a.shape
    a, b = a.contiguous(), b.contiguous()
    h = torch.empty_like(a)
    final = torch.empty((batch, channels), dtype=torch.float32, device=a.device)
    BLOCK_C = 16
    linear_recurrence_kernel[(batch, triton.cdiv(channels, BLOCK_C))](
        h, final, a, b, initial, time, channels, a.stride(0), a.stride(1), BLOCK_T=32, BLOCK_C=BLOCK_C, num_warps=4
    )
    return h, final


if __name__ == "__main__":
    a = torch.rand((4, 1024, 256), device="cuda")
    linear_recurrence(a, torch.randn_like(a), torch.randn((4, 256), device="cuda"))
    a = torch.rand((2, 1000, 200), device="cuda", dtype=torch.float16)
    linear_recurrence(a, torch.randn_like(a), torch.randn((2, 200), device="cuda"))
