"""Cross entropy of each row of logits with label smoothing and an ignored label: log-sum-exp in one online pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    loss_ptr,
    lse_ptr,
    logits_ptr,
    label_ptr,
    ignore_index,
    smoothing,
    n_classes,
    row_stride,
    SMOOTHED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits = logits_ptr + row * row_stride
    label = tl.load(label_ptr + row)
    if label == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        tl.store(lse_ptr + row, 0.0)
        return

    row_max = float("-inf")
    row_sum = 0.0
    total = 0.0
    for start in range(0, n_classes, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits + cols, mask=cols < n_classes, other=float("-inf")).to(tl.float32)
        new_max = tl.maximum(row_max, tl.max(x, axis=0))
        row_sum = row_sum * tl.exp(row_max - new_max) + tl.sum(tl.exp(x - new_max), axis=0)
        row_max = new_max
        if SMOOTHED:
            total += tl.sum(tl.where(cols < n_classes, x, 0.0), axis=0)
    lse = row_max + tl.log(row_sum)
    chosen = tl.load(logits + label).to(tl.float32)
    loss = lse - chosen
    if SMOOTHED:
        loss = lse - (1.0 - smoothing) * chosen - smoothing * (total / n_classes)
    tl.store(loss_ptr + row, loss)
    tl.store(lse_ptr + row, lse)


def cross_entropy(logits, labels, ignore_index=-100, smoothing=0.0):
    """Loss of every row.

    Args:
        logits: (rows, classes) with contiguous rows.
        labels: (rows,) int64 or int32 in [0, classes), or `ignore_index`, whose rows have loss 0.
        ignore_index: the label to leave out.
        smoothing: the share of the uniform distribution in the target.

    Returns:
        The losses and the log-sum-exps, (rows,) float32 each.
    """
    rows, classes = logits.shape
    loss = torch.empty(rows, dtype=torch.float32, device=logits.device)
    lse = torch.empty(rows, dtype=torch.float32, device=logits.device)
    BLOCK = min(1024, triton.next_power_of_2(classes))
    cross_entropy_kernel[(rows,)](
        loss,
        lse,
        logits,
        labels,
        ignore_index,
        smoothing,
        classes,
        logits.stride(0),
        SMOOTHED=smoothing > 0,
        BLOCK=BLOCK,
        num_warps=8,
    )
    return loss, lse


if __name__ == "__main__":
    labels = torch.randint(0, 32000, (256,), device="cuda")
    labels[::5] = -100
    logits = torch.randn((256, 32000), device="cuda")
    cross_entropy(logits, labels)
    cross_entropy(logits.to(torch.bfloat16), labels.to(torch.int32), smoothing=0.1)
