"""Proposals that would do harm if they ran, as data: each touches a canary file, hangs, or reaches for something.

`CANARY` in a case stands for the path of a file; `BASE` is the file that they are proposals for. It is full of things
that the original may do and a proposal may not make its own use of.
"""

from __future__ import annotations

BASE = """\
import logging
import os
import subprocess
from functools import partial

import torch
import triton
import triton.language as tl

BLOCK = 64
HANDLERS = {"unlink": os.unlink, "touch": lambda path: open(path, "w")}
touch = partial(open, mode="w")
log = logging.getLogger(__name__)


def run_hook(command):
    return subprocess.call(command, shell=True)


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * scale, mask=mask)


def scale_plain(x, by, name="touch CANARY"):
    log.debug("scaling %s", name)
    if x.numel() == 0:
        return x
    command = "true"
    run_hook(command)
    out = torch.empty_like(x)
    n = out.numel()
    grid = (triton.cdiv(n, BLOCK),)
    scale_kernel[grid](x, out, by, n, BLOCK_SIZE=BLOCK)
    return out
"""
KERNEL_BODY = """\
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * scale, mask=mask)
"""
PARAMETERS = "x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr"
HOST_HEAD = 'def scale_plain(x, by, name="touch CANARY"):\n'
HOST_TAIL = """\
    out = torch.empty_like(x)
    n = out.numel()
    grid = (triton.cdiv(n, BLOCK),)
    scale_kernel[grid](x, out, by, n, BLOCK_SIZE=BLOCK)
    return out
"""


def kernel(
    first: str = "", *, decorators: str = "@triton.jit\n", parameters: str = PARAMETERS, body: str = KERNEL_BODY
):
    """Return the kernel with lines put before its body."""
    lines = "".join(f"    {line}\n" for line in first.split("\n") if line)
    return f"{decorators}def scale_kernel({parameters}):\n{lines}{body}"


def host(first: str = "", *, head: str = HOST_HEAD, tail: str = HOST_TAIL):
    """Return the kernel as it was, and the host function with lines put before its launch."""
    lines = "".join(f"    {line}\n" for line in first.split("\n") if line)
    return f"{kernel()}\n\n{head}{lines}{tail}"


CASES: dict[str, str] = {
    # --- things that happen when the file is imported
    "import at the top": "import shutil\n" + kernel(),
    "import from": "from os import system\n" + kernel(),
    "import under a known name": "import subprocess as logging\n" + kernel(),
    "star import": "from os import *\n" + kernel(),
    "call at module level": kernel() + "\nopen('CANARY', 'w')\n",
    "assignment at module level": kernel() + "\nx = open('CANARY', 'w')\n",
    "class at module level": kernel() + "\nclass A:\n    open('CANARY', 'w')\n",
    "if at module level": kernel() + "\nif True:\n    open('CANARY', 'w')\n",
    "default argument of the kernel": kernel(parameters="x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr = open('CANARY', 'w')"),
    "default argument through a known name": kernel(parameters="x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr = run_hook('touch CANARY')"),
    "annotation of the kernel": kernel(parameters="x_ptr, out_ptr, scale, n, BLOCK_SIZE: open('CANARY', 'w')"),
    "annotation with a condition": kernel(parameters="x_ptr, out_ptr, scale, n, BLOCK_SIZE: (tl.constexpr, open('CANARY', 'w'))[0]"),
    "return annotation": f"@triton.jit\ndef scale_kernel({PARAMETERS}) -> open('CANARY', 'w'):\n{KERNEL_BODY}",
    "keyword-only default": kernel(parameters=PARAMETERS + ", *, k=open('CANARY', 'w')"),
    "decorator that runs": kernel(decorators="@run_hook\n@triton.jit\n"),
    "decorator call": kernel(decorators="@touch('CANARY')\n@triton.jit\n"),
    "decorator that is a lambda": kernel(decorators="@(lambda f: open('CANARY', 'w'))\n@triton.jit\n"),
    "jit with arguments": kernel(decorators="@triton.jit(do_not_specialize=[open('CANARY', 'w')])\n"),
    "autotune hook": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64}, pre_hook=lambda a: open('CANARY', 'w'))], ['n'])\n@triton.jit\n"),
    "autotune pruning": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64})], ['n'], prune_configs_by={'early_config_prune': lambda c, a: open('CANARY', 'w')})\n@triton.jit\n"),
    "autotune key computed": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64})], [open('CANARY', 'w') and 'n'])\n@triton.jit\n"),
    "config value computed": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': open('CANARY', 'w') and 64})], ['n'])\n@triton.jit\n"),
    "configs in a comprehension": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': b}) for b in (64, open('CANARY', 'w'))], ['n'])\n@triton.jit\n"),
    "own benchmark function": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64})], ['n'], do_bench=run_hook)\n@triton.jit\n"),
    "heuristic that runs": kernel(decorators="@triton.heuristics({'BLOCK_SIZE': lambda a: open('CANARY', 'w') and 64})\n@triton.jit\n"),
    "heuristic by name": kernel(decorators="@triton.heuristics({'BLOCK_SIZE': run_hook})\n@triton.jit\n"),
    "heuristic with a default": kernel(decorators="@triton.heuristics({'BLOCK_SIZE': lambda a, b=open('CANARY', 'w'): 64})\n@triton.jit\n"),
    "helper with a decorator": "@run_hook\n@triton.jit\ndef helper(a):\n    return a\n\n\n" + kernel(),
    "helper that is no jit function": "def helper(a=open('CANARY', 'w')):\n    return a\n\n\n" + kernel(),
    # --- things that happen when the host function is called
    "open": host("open('CANARY', 'w')"),
    "exec": host("exec(\"open('CANARY', 'w')\")"),
    "eval of the default": host("eval(name)"),
    "compile": host("compile(name, name, 'exec')"),
    "dunder import": host("__import__('os').system('touch CANARY')"),
    "import in the function": host("import os\nos.system('touch CANARY')"),
    "os of the file": host("os.system('touch CANARY')"),
    "os with a text of the original": host("os.system(name)"),
    "remove a file": host("os.unlink('CANARY.keep')"),
    "subprocess of the file": host("subprocess.call(name, shell=True)"),
    "helper of the file, other argument": host("run_hook('touch CANARY')"),
    "helper of the file, known text": host("run_hook(name)"),
    "kept call, other value": host("command = name\nrun_hook(command)"),
    "kept call, other value before": host('command = name\ncommand = "true"\nrun_hook(command)'),
    "kept call without its guard": host('command = "true"\nrun_hook(command)'),
    "kept call in a loop": host('if x.numel() == 0:\n    return x\ncommand = "true"\nfor i in range(3):\n    run_hook(command)'),
    "kept call twice": host('if x.numel() == 0:\n    return x\ncommand = "true"\nrun_hook(command)\nrun_hook(command)'),
    "alias of a helper": host("f = run_hook\nf(name)"),
    "helper passed as a key": host("max([name], key=run_hook)"),
    "sorted with a key": host("sorted([name], key=run_hook)"),
    "map": host("list(map(run_hook, [name]))"),
    "helper as a grid": host(tail=HOST_TAIL.replace("scale_kernel[grid]", "scale_kernel[run_hook]")),
    "function of a module as a value": host("f = subprocess.call"),
    "function of a module as a grid": host(
        tail=HOST_TAIL.replace("grid = (triton.cdiv(n, BLOCK),)", "grid = subprocess.call"), first="subprocess.call"
    ),
    "parameter as a grid": host(tail=HOST_TAIL.replace("scale_kernel[grid]", "scale_kernel[name]")),
    "grid that is a tuple and something else": host(
        tail=HOST_TAIL.replace("    scale_kernel[grid]", "    for grid in (name,):\n        pass\n    scale_kernel[grid]")
    ),
    "element of a table as a grid": host(tail=HOST_TAIL.replace("scale_kernel[grid]", "scale_kernel[HANDLERS['touch']]")),
    "pointer from a number": kernel("p = n.to(tl.pointer_type(tl.float32))"),
    "partial of the file": host("touch('CANARY')"),
    "table of functions": host("HANDLERS['touch']('CANARY')"),
    "table of functions by launch": host("HANDLERS['touch'](name)"),
    "getattr": host("getattr(os, 'system')(name)"),
    "globals": host("globals()['run_hook'](name)"),
    "dunder globals": host("scale_kernel.__globals__['run_hook'](name)"),
    "dunder class": host("().__class__.__base__.__subclasses__()"),
    "builtins of a module": host("torch.__builtins__['open']('CANARY', 'w')"),
    "attribute of a module": host("torch.os.system(name)"),
    "load with pickle": host("torch.load(name)"),
    "save a tensor": host("torch.save(x, 'CANARY')"),
    "tensor to a file": host("x.numpy().tofile('CANARY')"),
    "tensor method with a function": host("x.apply_(run_hook)"),
    "network": host("torch.hub.download_url_to_file(name, 'CANARY')"),
    "environment": host("os.environ['LD_PRELOAD'] = name"),
    "environment by update": host("os.environ.update(HOOK=name)"),
    "format": host("'{0.__class__}'.format(x)"),
    "format of the original's text": host("name.format(x)"),
    "f-string": host("f\"{open('CANARY', 'w')}\""),
    "walrus": host("(f := open)('CANARY', 'w')"),
    "lambda called": host("(lambda: open('CANARY', 'w'))()"),
    "lambda default": host("g = lambda m, f=open('CANARY', 'w'): (1,)"),
    "grid that runs": host(tail=HOST_TAIL.replace("grid = (triton.cdiv(n, BLOCK),)", "grid = lambda meta: (open('CANARY', 'w') and 1,)")),
    "comprehension": host("[open('CANARY', 'w') for _ in range(1)]"),
    "generator": host("yield open('CANARY', 'w')"),
    "nested class": host("class A:\n    f = open('CANARY', 'w')"),
    "nested function with a decorator": host("@run_hook\ndef g(meta):\n    return (1,)"),
    "nested function with a default": host("def g(meta, f=open('CANARY', 'w')):\n    return (1,)"),
    "context manager": host("with open('CANARY', 'w'):\n    pass"),
    "exception handler": host("try:\n    1 / 0\nexcept Exception:\n    open('CANARY', 'w')"),
    "raise": host("raise SystemExit(open('CANARY', 'w'))"),
    "assert": host("assert open('CANARY', 'w')"),
    "global": host("global BLOCK\nBLOCK = 1"),
    "delete": host("del BLOCK"),
    "match": host("match open('CANARY', 'w'):\n    case _:\n        pass"),
    "starred call": host("print(*open('CANARY', 'w'))"),
    "keywords unpacked": host(tail=HOST_TAIL.replace("BLOCK_SIZE=BLOCK)", "**{'BLOCK_SIZE': open('CANARY', 'w') and 64})")),
    "rebinding a module": host("torch = subprocess\ntorch.empty_like(name)"),
    "rebinding a builtin": host("range = run_hook\nrange(name)"),
    "attribute set": host("torch.empty_like = run_hook"),
    "patching the kernel": host("scale_kernel.run = run_hook"),
    "changed default of the host function": host(head="def scale_plain(x, by, name=open('CANARY', 'w')):\n"),
    "changed decorator of the host function": host(head='@run_hook\ndef scale_plain(x, by, name="touch CANARY"):\n'),
    "async": host(head='async def scale_plain(x, by, name="touch CANARY"):\n'),
    "log with another text": host("log.debug(open('CANARY', 'w'))"),
    "breakpoint": host("breakpoint()"),
    "input": host("input()"),
    "exit": host("exit(0)"),
    "full-width letters": host("ｏｐｅｎ('CANARY', 'w')"),
    "full-width dunder": host("x.__ｃｌａｓｓ__"),
    "other function of the file": kernel() + "\n\ndef run_hook(command):\n    return open('CANARY', 'w')\n",
    # --- things that happen when the kernel is compiled or interpreted
    "open in the kernel": kernel("open('CANARY', 'w')"),
    "helper of the file in the kernel": kernel("run_hook('touch CANARY')"),
    "exec in the kernel": kernel("exec('CANARY')"),
    "import in the kernel": kernel("import os"),
    "static_print": kernel("tl.static_print('CANARY')"),
    "device_print": kernel("tl.device_print('CANARY')"),
    "inline assembly": kernel("tl.inline_asm_elementwise('trap;', '=r', [scale], dtype=tl.int32, is_pure=False, pack=1)"),
    "module below the language": kernel("tl.core.builtins.open('CANARY', 'w')"),
    "math's own imports": kernel("tl.math.core.warnings.sys.exit(0)"),
    "dunder of a value": kernel("scale.__class__"),
    "handle of a value": kernel("scale.handle.data.tofile('CANARY')"),
    "constexpr function": kernel("tl.constexpr_function(run_hook)('touch CANARY')"),
    "reduce with a function of the file": kernel("tl.reduce(scale, 0, run_hook)"),
    "hidden keyword": kernel("tl.load(x_ptr, _semantic=run_hook)"),
    "lambda in the kernel": kernel("f = lambda: open('CANARY', 'w')"),
    "nested function in the kernel": kernel("def f():\n    open('CANARY', 'w')"),
    "compile-time f-string": kernel("tl.static_assert(True, f\"{open('CANARY', 'w')}\")"),
    # --- things that never end, or eat the machine
    "endless loop on the host": host("while True:\n    pass"),
    "endless loop in the kernel": kernel("while True:\n    pass"),
    "huge power": host("n = 10 ** 10 ** 10"),
    "huge power in the kernel": kernel("k = 10 ** 10 ** 10"),
    "huge shift": host("n = 1 << 10000000000"),
    "huge list": host("n = [0] * 10000000000"),
    "huge text": host("n = name * 1000000000 + 'a' * 10000000000"),
    "huge number": host("n = " + "9" * 4000),
    "endless range": host("for i in range(10000000000):\n    pass"),
    "endless unrolling": kernel("for i in tl.static_range(1000000000):\n    pass"),
    "deep nesting": host("n = " + "(" * 400 + "1" + ")" * 400),
    "deep operators": host("n = " + "-" * 3000 + "1"),
    "loops written out in each other": kernel("for i in tl.static_range(512):\n    for j in tl.static_range(512):\n        scale = scale * 1.0"),
    "a loop written out by a factor": kernel("for i in tl.range(0, 8, loop_unroll_factor=4000000):\n    scale = scale * 1.0"),
    "tuning that takes for ever": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64}), triton.Config({'BLOCK_SIZE': 128})], ['n'], rep=9223372036854775807)\n@triton.jit\n"),
    "warming up for ever": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64}), triton.Config({'BLOCK_SIZE': 128})], ['n'], warmup=1000000000)\n@triton.jit\n"),
    "attributes without end": kernel("k = scale" + ".T" * 20000),
    "operators without end": kernel("k = " + "-" * 50000 + "1"),
    "comparisons without end": kernel("k = n" + " < n" * 9000),
    "lambdas without end": host("k = " + "lambda: " * 7000 + "1"),
    "blocks without end": kernel("\n".join("    " * i + "if n > 0:" for i in range(120)) + "\n" + "    " * 120 + "pass"),
    # --- things that only happen where nobody looks: when a kernel is tuned, with a config that was not verified
    "tuning that clears an input": kernel(decorators="@triton.autotune([triton.Config({'BLOCK_SIZE': 64}), triton.Config({'BLOCK_SIZE': 128})], ['n'], reset_to_zero=['x_ptr'])\n@triton.jit\n"),
    # --- names and scopes
    "name of a module in a comprehension": host("[os for os in [x]]\nos.system(name)"),
    "type alias": host("type X = open('CANARY', 'w')"),
    "type parameters": host(head="def scale_plain[T: open('CANARY', 'w')](x, by, name=\"touch CANARY\"):\n"),
    "kernel's parameter called tl": kernel(parameters="tl, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr"),
    "loop over tl": kernel("for tl in range(3):\n    pass"),
    "starred target": kernel("a, *b = 1, 2"),
    "annotation of a variable": kernel("k: open('CANARY', 'w') = 1"),
    "annotation of an attribute": host("x.y: open('CANARY', 'w') = 1"),
    "walrus in a grid": host(tail=HOST_TAIL.replace("grid = (triton.cdiv(n, BLOCK),)", "grid = lambda meta: ((f := open), f('CANARY', 'w'))")),
    "helper with the name of a builtin": "@triton.jit\ndef print(a):\n    return a\n\n\n" + kernel(),
    # --- things that mislead whoever reads the diff
    "letter that looks like another": kernel("sc\u0430le = scale"),
    "text from right to left": kernel("# \u202e }\u2066 harmless \u2069\u2066"),
    "invisible letter": host("o\u200bpen('CANARY', 'w')"),
    "form feed": kernel("x = 1\x0c"),
    "null": kernel("x = 1\x00"),
    "carriage return": kernel("x = 1 # hidden\ropen('CANARY', 'w')"),
}  # fmt: skip
"""At least forty kinds; every one must be refused before anything of it runs."""

MISLED: dict[str, str] = {
    "the library instead of the kernel": host(tail="    return x * by\n"),
    "a product by the library": host("y = 2 * x"),
    "a view compared": host("if x > 0:\n    by = 1.0"),
    "elements gathered": host("y = x[x]"),
    "a sign turned by the library": host("y = -x"),
    "the mask dropped": kernel(
        body="    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n"
        "    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * scale)\n"
    ),
    "a sum with a number by the library": host("by = by + x"),
}
"""Proposals that keep every word of the allow-list and cheat: the gate's rules about source are there for them."""
