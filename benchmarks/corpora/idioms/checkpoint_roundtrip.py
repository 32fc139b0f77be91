# kernels: 1
import torch
import triton
import triton.language as tl

import io


@triton.jit
def embed_kernel(table_ptr, index_ptr, y_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + row)
    tl.store(y_ptr + row * width + j, tl.load(table_ptr + at * width + j, mask=j < width), mask=j < width)


class Embedding(torch.nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(rows, width))

    def forward(self, index):
        y = torch.empty(index.numel(), self.table.shape[1], device=index.device)
        embed_kernel[(index.numel(),)](self.table, index, y, self.table.shape[1], BLOCK=64)
        return y


if __name__ == "__main__":
    model = Embedding(40, 48).cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = Embedding(40, 48).to("cuda")
    fresh.load_state_dict(torch.load(file, map_location="cuda", weights_only=True))
    fresh(torch.randint(40, (16,), device="cuda", generator=torch.Generator("cuda").manual_seed(1)))
