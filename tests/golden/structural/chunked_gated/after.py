import torch
import triton
import triton.language as tl


@triton.jit
def linear_steps(first_decay, first_added, decay, added):
    """Two steps `h = decay * h + added` as one."""
    return decay * first_decay, decay * first_added + added


# One step after the other.
@triton.jit
def recurrence_kernel(x_ptr, g_ptr, o_ptr, last_ptr, T, D, BLOCK_D: tl.constexpr, CHUNK: tl.constexpr):
    batch = tl.program_id(1)
    d = tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = d < D
    h = tl.zeros((BLOCK_D,), dtype=tl.float32)
    step = tl.arange(0, CHUNK)[:, None]
    for start in range(0, T, CHUNK):
        t_all = start + step
        inside = t_all < T
        at_all = (batch * T + t_all) * D + d
        x_all = tl.load(x_ptr + at_all, mask=mask & inside, other=0.0).to(tl.float32)
        g_all = tl.load(g_ptr + at_all, mask=mask & inside, other=0.0).to(tl.float32)
        # the gate first
        decay = tl.where(inside, tl.exp(g_all), 1.0).to(tl.float32)
        added = tl.where(inside, x_all, 0.0).to(tl.float32)
        added = tl.where(step == 0, decay * h + added, added)
        _, h_all = tl.associative_scan((decay, added), 0, linear_steps)  # fp32
        odd = tl.where((tl.abs(h_all) < float("inf")) & (tl.abs(tl.log2(tl.abs(decay))) * CHUNK <= 120), 0, 1)
        if tl.sum(odd) == 0:
            y_all = h_all * tl.sigmoid(x_all)
            tl.store(o_ptr + at_all, y_all, mask=mask & inside)
            h = tl.sum(tl.where(step == CHUNK - 1, h_all, 0.0), axis=0)
        else:
            # what is not finite, or may not stay so, goes step by step
            for t in range(start, tl.minimum(start + CHUNK, T)):
                at = (batch * T + t) * D + d
                x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
                g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
                # the gate first
                h = tl.exp(g) * h + x  # fp32
                y = h * tl.sigmoid(x)
                tl.store(o_ptr + at, y, mask=mask)
    tl.store(last_ptr + batch * D + d, h, mask=mask)


def recurrence(x, g):
    B, T, D = x.shape
    o = torch.empty_like(x)
    last = torch.empty((B, D), device=x.device, dtype=torch.float32)
    grid = lambda meta: (triton.cdiv(D, meta["BLOCK_D"]), B)
    recurrence_kernel[grid](x, g, o, last, T, D, BLOCK_D=16, CHUNK=32)
    return o, last


def run():
    return recurrence(torch.randn(1, 40, 10), -torch.rand(1, 40, 10))
