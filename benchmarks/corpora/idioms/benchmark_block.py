# kernels: 2
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.load(a_ptr + i, mask=i < n) + tl.load(b_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def fma_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + i, tl.fma(tl.load(a_ptr + i, mask=i < n), 2.0, tl.load(b_ptr + i, mask=i < n)), mask=i < n)


def run(kernel, a, b):
    c = torch.empty_like(a)
    kernel[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), BLOCK=1024)
    return c


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"], x_vals=[2**i for i in range(10, 14)], line_arg="provider", line_vals=["add", "fma"],
        line_names=["Add", "FMA"], ylabel="GB/s", plot_name="add", args={},
    )
)
def benchmark(size, provider):
    a, b = torch.rand(size, device="cuda"), torch.rand(size, device="cuda")
    kernel = add_kernel if provider == "add" else fma_kernel
    ms, low, high = triton.testing.do_bench(lambda: run(kernel, a, b), quantiles=[0.5, 0.2, 0.8])
    return 3 * a.numel() * 4 / ms, low, high


if __name__ == "__main__":
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    benchmark.run(print_data=True, show_plots=False)
    end.record()
    torch.cuda.synchronize()
    print(start.elapsed_time(end))
