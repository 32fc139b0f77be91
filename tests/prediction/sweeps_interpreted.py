"""Run the sweep kernels in Triton's interpreter against PyTorch; prints `name error scale tolerance` lines.

A program of its own, with `TRITON_INTERPRET=1` and the kernels' folder on its path: that must be set before triton is
imported, and such a process cannot compile.
"""

import sys

import attention
import elementwise
import movement
import products
import reductions
import torch
from torch.nn import functional

HALF = 2e-2
EXACT = 1e-4


def say(name, got, want, tolerance=HALF):
    error = (got.float() - want.float()).abs().max().item()
    sys.stdout.write(f"{name} {error} {want.float().abs().max().item()} {tolerance}\n")


def check_elementwise():
    x, y = torch.randn(1000), torch.randn(1000)
    say("scale_add", elementwise.scale_add(x, y, 64, 4, 4), x * 0.5 + y, EXACT)
    x, bias = torch.randn(30, 50).half(), torch.randn(50).half()
    gelu = functional.gelu(x.float() + bias.float(), approximate="tanh")
    say("bias_gelu", elementwise.bias_gelu(x, bias, 16, 32, 4), gelu)
    x = torch.randn(20, 3, 16).to(torch.bfloat16)
    cos, sin = torch.randn(20, 8), torch.randn(20, 8)
    a, b = x[..., :8].float(), x[..., 8:].float()
    turned = torch.cat([a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]], -1)
    say("rotary", elementwise.rotary(x, cos, sin, 8, 4, 1), turned)
    kept = elementwise.dropout(torch.ones(4096), 256, 4, 1)
    say("dropout", (kept != 0).float().mean(), torch.tensor(0.9))
    say("dropout values", kept.max(), torch.tensor(1 / 0.9), EXACT)


def check_movement():
    x = torch.randn(30, 50)
    say("transpose", movement.transpose(x, 16, 32, 4), x.t(), EXACT)
    index, table = torch.randint(0, 40, (33,)), torch.randn(40, 48).half()
    say("embedding", movement.embedding(index, table, 4, 64, 4), table[index], EXACT)
    values = torch.randint(0, 1 << 20, (1000,), dtype=torch.int32)
    say(
        "histogram",
        movement.histogram(values, 256, 64, 8, 4),
        torch.bincount(values.long() % 256, minlength=256),
        EXACT,
    )
    x, segment = torch.randn(50, 40), torch.randint(0, 6, (50,), dtype=torch.int32)
    summed = torch.zeros(6, 40).index_add_(0, segment.long(), x)
    say("scatter_add", movement.scatter_add(x, segment, 6, 4, 64, 4), summed, EXACT)


def check_reductions():
    x = torch.randn(10, 300)
    say("row_sum", reductions.row_sum(x, 4, 64, 4, 1), x.sum(1), EXACT)
    say("cumsum", reductions.cumsum(x, 4, 32, 4, 1), x.cumsum(1), EXACT)
    x = torch.randn(300, 50).half()
    say("column_sum", reductions.column_sum(x, 4, 8, 32, 4, 1).sum(0), x.float().sum(0), 1e-3)
    x = torch.randn(6, 300).half()
    say("softmax", reductions.softmax(x, 512, 4, 1), x.float().softmax(1))
    quantised, scale = reductions.quantize_rows(x, 128, 4, 1)
    say("quantize_rows", quantised * scale[:, None], x.float())
    x, weight, bias = (torch.randn(*shape).to(torch.bfloat16) for shape in ((6, 300), (300,), (300,)))
    normed = functional.layer_norm(x.float(), (300,), weight.float(), bias.float())
    say("layer_norm", reductions.layer_norm(x, weight, bias, 128, 4, 1), normed)
    normed = functional.rms_norm(x.float(), (300,), weight.float(), 1e-6)
    say("rms_norm", reductions.rms_norm(x, weight, 4, 4, 1), normed)
    label = torch.randint(0, 300, (6,))
    loss = functional.cross_entropy(x.float(), label, reduction="none")
    say("cross_entropy", reductions.cross_entropy(x, label, 128, 4, 1)[0], loss)
    x, weight = torch.randn(2, 20, 40).to(torch.bfloat16), torch.randn(4, 40).to(torch.bfloat16)
    padded = functional.pad(x.float().transpose(1, 2), (3, 0))
    convolved = functional.conv1d(padded, weight.float().t()[:, None, :], groups=40).transpose(1, 2)
    say("conv1d", reductions.conv1d(x, weight, 4, 32, 4), functional.silu(convolved))


def check_products():
    a, b = torch.randn(50, 70), torch.randn(70, 60)
    say("matmul", products.matmul(a.half(), b.half(), 16, 32, 32, 8, 4, 2), a @ b)
    transposed = b.t().contiguous().half()
    say("matmul_transposed", products.matmul_transposed(a.half(), transposed, 16, 32, 32, 4, 4, 2), a @ b)
    say("matmul_ieee", products.matmul_ieee(a, b, 16, 32, 16, 1, 4, 2), a @ b, EXACT)
    a, b = torch.randn(3, 50, 70).half(), torch.randn(3, 70, 60).half()
    say("batched_matmul", products.batched_matmul(a, b, 16, 32, 32, 4, 2), a.float() @ b.float())
    x, weights = torch.randn(64, 64).half(), torch.randn(2, 64, 48).half()
    chosen = torch.tensor([1, 0], dtype=torch.int32)
    wanted = torch.cat([x[:32].float() @ weights[1].float(), x[32:].float() @ weights[0].float()])
    say("expert_matmul", products.expert_matmul(x, chosen, weights, 32, 16, 32, 32, 4, 2), wanted)
    a, b = (torch.randint(-64, 64, shape, dtype=torch.int8) for shape in ((50, 64), (60, 64)))
    scale = torch.rand(60) * 1e-3
    say("int8_matmul", products.int8_matmul(a, b, scale, 16, 32, 32, 4, 2), (a.float() @ b.float().t()) * scale)
    a, b = torch.randn(50, 64).half(), torch.randint(-64, 64, (64, 60), dtype=torch.int8)
    say("weight_only", products.weight_only_matmul(a, b, scale, 16, 32, 32, 4, 2), (a.float() @ b.float()) * scale)


def check_attention():
    q, k, v, grad = (torch.randn(2, 50, 16).half() for _ in range(4))
    scale = 16**-0.5
    scores = (q.float() @ k.float().transpose(1, 2)) * scale
    scores = scores.masked_fill(~torch.ones(50, 50).tril().bool(), -1e30)
    p = scores.softmax(-1)
    out, lse = attention.attention(q, k, v, 16, 32, 4, 1)
    say("attention", out, p @ v.float())
    say("attention lse", lse, scores.logsumexp(-1) * 1.4426950408889634, EXACT)
    delta = (grad.float() * (p @ v.float())).sum(-1)
    dk, dv = attention.attention_backward(q, k, v, grad, lse, delta, 16, 32, 4, 1)
    ds = p * (grad.float() @ v.float().transpose(1, 2) - delta[..., None]) * scale
    say("attention_backward dv", dv, p.transpose(1, 2) @ grad.float())
    say("attention_backward dk", dk, ds.transpose(1, 2) @ q.float())
    q, k, v = torch.randn(3, 16, 16).half(), torch.randn(3, 100, 16).half(), torch.randn(3, 100, 16).half()
    part, top, total = attention.decode(q, k, v, 4, 32, 4, 1)
    weight = torch.exp(top - top.max(1, keepdim=True).values)
    joined = (part * weight[..., None]).sum(1) / (total * weight).sum(1)[..., None]
    say("decode", joined, ((q.float() @ k.float().transpose(1, 2)) * scale).softmax(-1) @ v.float())


if __name__ == "__main__":
    torch.manual_seed(0)
    for check in (check_elementwise, check_movement, check_reductions, check_products, check_attention):
        check()
