# kernels: 2
import torch
import triton
import triton.language as tl

import importlib.util
import linecache
import tempfile

TEMPLATE = """
import triton
import triton.language as tl

@triton.jit
def {name}(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, {expression}, mask=i < n)
"""


def from_linecache(name, expression):
    text = TEMPLATE.format(name=name, expression=expression)
    file = f"<generated {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {}
    exec(compile(text, file, "exec"), space)
    return space[name]


def from_file(name, expression):
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
        f.write(TEMPLATE.format(name=name, expression=expression))
    spec = importlib.util.spec_from_file_location(f"generated_{name}", f.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def apply(kernel, x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def main():
    x = torch.randn(150, device="cuda")
    apply(from_linecache("poly_kernel", "x * x + 2 * x + 1"), x)
    apply(from_file("decay_kernel", "tl.exp(-tl.abs(x))"), x)


if __name__ == "__main__":
    main()
