"""Embedding lookup: one program copies a block of columns of the row that its token names, and adds a position."""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    out_ptr,
    token_ptr,
    table_ptr,
    position_ptr,
    padding_idx,
    sequence,
    width,
    scale,
    stride_out,
    stride_table,
    stride_position,
    BLOCK: tl.constexpr,
):
    """One token a row of the grid; the padding token becomes a row of zeros."""
    at = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    token = tl.load(token_ptr + at)
    keep = token != padding_idx
    row = tl.load(table_ptr + token.to(tl.int64) * stride_table + cols, mask=inside & keep, other=0.0)
    position = tl.load(position_ptr + (at % sequence) * stride_position + cols, mask=inside & keep, other=0.0)
    value = row.to(tl.float32) * scale + position.to(tl.float32)
    tl.store(out_ptr + at * stride_out + cols, value, mask=inside)


def embed(tokens, table, positions, padding_idx=0, scale=1.0):
    """Look tokens up and add their positions.

    Args:
        tokens: (batch, sequence), int64 or int32, each in [0, table.shape[0]).
        table: (vocabulary, width); rows may be further apart than width.
        positions: (at least sequence, width).
        padding_idx: the token whose rows are zero.
        scale: what the table's rows are multiplied with.

    Returns:
        (batch, sequence, width) in the table's type.
    """
    tokens = tokens.contiguous()
    batch, sequence = tokens.shape
    width = table.shape[1]
    out = torch.empty((batch, sequence, width), dtype=table.dtype, device=table.device)
    BLOCK = min(1024, triton.next_power_of_2(width))
    grid = (tokens.numel(), triton.cdiv(width, BLOCK))
    embedding_kernel[grid](
        out,
        tokens,
        table,
        positions,
        padding_idx,
        sequence,
        width,
        scale,
        out.stride(1),
        table.stride(0),
        positions.stride(0),
        BLOCK=BLOCK,
        num_warps=4,
    )
    return out


if __name__ == "__main__":
    tokens = torch.randint(0, 32000, (8, 512), device="cuda")
    table = torch.randn((32000, 768), device="cuda", dtype=torch.float16)
    positions = torch.randn((1024, 768), device="cuda", dtype=torch.float16)
    embed(tokens, table, positions)
    embed(tokens.to(torch.int32), table.float(), positions.float(), padding_idx=1, scale=768**0.5)
