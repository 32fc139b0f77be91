# kernels: 1
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BM": 32, "BK": 16}, num_warps=2), triton.Config({"BM": 16, "BK": 32})], key=["M", "K"])
@triton.heuristics({"EVEN_K": lambda a: a["K"] % a["BK"] == 0, "BN": lambda a: max(16, triton.next_power_of_2(a["N"]))})
@triton.jit
def tall_matmul_kernel(a, b, c, M, N, K, sa, sb, sc, EVEN_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        if EVEN_K:
            at = tl.load(a + i[:, None] * sa + k[None, :], mask=i[:, None] < M, other=0.0)
            bt = tl.load(b + k[:, None] * sb + j[None, :], mask=j[None, :] < N, other=0.0)
        else:
            at = tl.load(a + i[:, None] * sa + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
            bt = tl.load(b + k[:, None] * sb + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(at, bt, acc)
    tl.store(c + i[:, None] * sc + j[None, :], acc.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


def tall_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    tall_matmul_kernel[lambda meta: (triton.cdiv(M, meta["BM"]),)](a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0))
    return c


if __name__ == "__main__":
    for k in (64, 50):
        tall_matmul(torch.randn(100, k, device="cuda", dtype=torch.float16), torch.randn(k, 24, device="cuda").half())
