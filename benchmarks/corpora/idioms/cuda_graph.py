# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def step_kernel(x_ptr, v_ptr, n, dt, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, v = tl.load(x_ptr + i, mask=i < n), tl.load(v_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x + v * dt, mask=i < n)


def step(x, v):
    step_kernel[(triton.cdiv(x.numel(), 128),)](x, v, x.numel(), 0.1, BLOCK=128)


def main():
    x, v = torch.zeros(300, device="cuda"), torch.ones(300, device="cuda")
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        step(x, v)
    torch.cuda.current_stream().wait_stream(s)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
        step(x, v)
    graph.replay()


if __name__ == "__main__":
    main()
