"""Compile a set of launches without a GPU and keep the compiler's texts as golden artefacts for the tests.

    python benchmarks/compile_golden.py OUT.json.xz [--arch sm_90] [--set pathologies|ranking|samples|blocks]

The launches are those of `tests/data/h200/pathologies.py` (timed on an H200, see `pathologies_times.json` beside it), a
few configurations whose order is known, and kernels in many shapes (`tests/data/compilation`). Run it under the Triton
version that the artefacts are wanted from. Paths in the texts are replaced, so that nothing of this machine is kept.
"""

import argparse
import importlib.util
import json
import lzma
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from tritonforge.domain.codec import encode
from tritonforge.domain.launch import CallSite, RecordedLaunch, Scalar, Tensor
from tritonforge.domain.messages import CompiledLaunch
from tritonforge.worker.asm_lines import whole_assembly_lines

DATA = Path(__file__).parents[1] / "tests" / "data"
PTR = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64",
    torch.int8: "*i8", torch.uint8: "*u8", torch.bool: "*i1",
}  # fmt: skip
BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
AMD_COUNTS = r"^\s*(?:- )?\.(?:[avs]gpr|group|private)\S*:.*$"


def source_of(fn, signature, constexprs, attrs):
    """Return what `triton.compile` takes, in the form of the installed version."""
    try:
        from triton.backends.compiler import AttrsDescriptor
    except ImportError:
        return ASTSource(fn, signature, constexprs, attrs)
    # Up to 3.2: alignments in a descriptor, constants out of the signature.
    divisible = {"tt.divisibility": [at for (at,), _ in attrs.items()]}
    described = AttrsDescriptor.from_dict({"arg_properties": divisible, "cls": "AttrsDescriptor"})
    types = {name: kind for name, kind in signature.items() if kind != "constexpr"}
    return ASTSource(fn, types, constexprs, described)


def capture(thunk):
    """Return (kernel, arguments by name, grid, options) of the launches that `thunk` makes."""
    seen = []

    def run(self, *args, grid, warmup=False, **kwargs):  # noqa: ARG001 - the signature it replaces
        names = self.arg_names
        bound = dict(zip(names, args, strict=False))
        bound.update({k: v for k, v in kwargs.items() if k in names})
        options = {k: v for k, v in kwargs.items() if k not in names}
        grid = grid(bound) if callable(grid) else grid
        seen.append((self, bound, (*grid, 1, 1)[:3], options))

    original, JITFunction.run = JITFunction.run, run
    try:
        thunk()
    finally:
        JITFunction.run = original
    return seen


def compile_one(fn, bound, grid, options, arch):
    """Compile one launch, specialised the way a real launch specialises it, into a `CompiledLaunch`."""
    signature, constexprs, attrs, arguments, meta = {}, {}, {}, [], []
    storages = {}
    for i, p in enumerate(fn.params):
        value = bound.get(p.name)
        if p.is_constexpr:
            signature[p.name], constexprs[p.name] = "constexpr", value
            meta.append((p.name, Scalar(value)))
            continue
        if isinstance(value, torch.Tensor):
            signature[p.name] = PTR[value.dtype]
            attrs[(i,)] = [["tt.divisibility", 16]]
            buffer = storages.setdefault(id(value.untyped_storage()), len(storages))
            arguments.append(
                (p.name, Tensor(tuple(value.shape), tuple(value.stride()), str(value.dtype)[6:], buffer=buffer))
            )
            continue
        arguments.append((p.name, Scalar(value)))
        if isinstance(value, int) and value == 1:
            signature[p.name], constexprs[p.name] = "constexpr", 1
        elif isinstance(value, int):
            signature[p.name] = "i32" if abs(value) < 2**31 else "i64"
            if value % 16 == 0:
                attrs[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[p.name] = "fp32"
    target = GPUTarget("cuda", int(arch[3:]), 32) if arch.startswith("sm_") else GPUTarget("hip", arch, 64)
    started = time.perf_counter()
    with whole_assembly_lines():
        kernel = triton.compile(source_of(fn, signature, constexprs, attrs), target=target, options=options)
    elapsed = (time.perf_counter() - started) * 1e3
    artefacts = {"ttir": kernel.asm["ttir"], "ttgir": kernel.asm["ttgir"]}
    if "cubin" in kernel.asm:
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder) / "kernel.cubin"
            cubin.write_bytes(kernel.asm["cubin"])
            artefacts["sass"] = tool("nvdisasm", "-gi", "-c", cubin)
            artefacts["resources"] = tool("cuobjdump", "--dump-resource-usage", cubin)
    if "amdgcn" in kernel.asm:
        artefacts["sass"] = kernel.asm["amdgcn"]
        artefacts["resources"] = "\n".join(re.findall(AMD_COUNTS, kernel.asm["amdgcn"], re.MULTILINE))
    file = Path(sys.modules[fn.fn.__module__].__file__).resolve()
    artefacts = {k: neutral(v, file) for k, v in artefacts.items()}
    metadata = {
        k: str(v)
        for k, v in kernel.metadata._asdict().items()
        if k in ("shared", "num_warps", "num_stages", "num_ctas", "name")
    }
    launch = RecordedLaunch(
        kernel_file=file.name,
        kernel=fn.fn.__qualname__,
        kernel_line=fn.fn.__code__.co_firstlineno + 1,
        arguments=tuple(arguments),
        constexprs=tuple(meta),
        options=tuple((k, Scalar(v)) for k, v in options.items()),
        grid=tuple(grid),
        call_site=CallSite(file.name, 1, ""),
    )
    return CompiledLaunch(launch, arch, triton.__version__, artefacts, metadata, round(elapsed, 1))


def tool(name, *args):
    return subprocess.run([BIN / name, *args], check=True, capture_output=True, text=True).stdout


def neutral(text, file):
    """Replace this machine's paths, and drop the opcode bytes that nobody reads."""
    text = text.replace(str(file.parent), "/golden")
    text = text.replace(str(Path(triton.__file__).parent), "/site-packages/triton")
    text = re.sub(r"^Fatbin elf code:.*?^host = \w+\n", "", text, flags=re.DOTALL | re.MULTILINE)
    return text.replace(tempfile.gettempdir(), "/golden")


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def ranking(module):
    """Launches whose order on an H200 is known: tiles of one matmul, blocks of one copy, warps of one row softmax."""
    a, c = (torch.empty(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    x, o = (torch.empty(1 << 26, device="cuda") for _ in range(2))
    rows, out = (torch.empty(8192, 8192, device="cuda") for _ in range(2))

    def mm(bm, bn, bk, w, s):
        grid = (triton.cdiv(4096, bm), triton.cdiv(4096, bn))
        return lambda: module.matmul[grid](
            a, a, c, 4096, 4096, 4096, 4096, 1, 4096, 1, bm, bn, bk, "tf32", num_warps=w, num_stages=s
        )

    def copy(block, w):
        return lambda: module.copy_tiny_block[(triton.cdiv(1 << 26, block),)](x, o, 1 << 26, block, num_warps=w)

    def softmax(block, w):
        return lambda: module.softmax_three_pass[(8192,)](rows, out, 8192, block, num_warps=w)

    tiles = [
        (32, 32, 32, 4, 2),
        (64, 64, 32, 4, 2),
        (64, 64, 32, 4, 3),
        (128, 128, 64, 4, 3),
        (128, 128, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (256, 256, 64, 4, 2),
        (64, 128, 64, 4, 4),
    ]
    cases = {f"matmul_{m}x{n}x{k}_w{w}_s{s}": mm(m, n, k, w, s) for m, n, k, w, s in tiles}
    cases |= {f"copy_{b}_w{w}": copy(b, w) for b, w in [(16, 4), (64, 4), (256, 4), (1024, 4), (8192, 8)]}
    return cases | {f"softmax_{b}_w{w}": softmax(b, w) for b, w in [(128, 1), (1024, 4), (1024, 8)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--set", default="pathologies", choices=["pathologies", "ranking", "samples", "blocks"])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    own = args.set in {"samples", "blocks"}
    module = load(DATA / (f"compilation/{args.set}.py" if own else "h200/pathologies.py"))
    found = {}
    with FakeTensorMode(allow_non_fake_inputs=True):
        cases = ranking(module) if args.set == "ranking" else module.cases()
        cases = {name: case[0] if isinstance(case, tuple) else case for name, case in cases.items()}
        captured = {name: capture(thunk)[0] for name, thunk in cases.items() if re.search(args.only, name)}
    for name, launch in captured.items():
        found[name] = encode(compile_one(*launch, args.arch))
        print(f"{name}: {found[name]['compile_ms']} ms", flush=True)
    args.out.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{args.out}: {args.out.stat().st_size} bytes, Triton {triton.__version__}")


if __name__ == "__main__":
    main()
