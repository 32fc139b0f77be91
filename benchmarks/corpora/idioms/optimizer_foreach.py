# kernels: 1
import torch
import triton
import triton.language as tl


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, lr, b1, b2, eps, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + i, mask=i < n)
    m = b1 * tl.load(m_ptr + i, mask=i < n) + (1 - b1) * g
    v = b2 * tl.load(v_ptr + i, mask=i < n) + (1 - b2) * g * g
    tl.store(m_ptr + i, m, mask=i < n)
    tl.store(v_ptr + i, v, mask=i < n)
    p = tl.load(p_ptr + i, mask=i < n)
    tl.store(p_ptr + i, p - lr * m / (tl.sqrt(v) + eps), mask=i < n)


class Adam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                n = p.numel()
                adam_kernel[(triton.cdiv(n, 128),)](p, p.grad, state["m"], state["v"], group["lr"], 0.9, 0.99, 1e-8, n, BLOCK=128)


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to("cuda")
    optimizer = Adam(net.parameters())
    net(torch.randn(10, 8, device="cuda")).sum().backward()
    optimizer.step()
