"""Which functions are taken for kernels."""

from __future__ import annotations

import textwrap

import pytest

from tritonforge.analysis import analyze

BODY = "(x, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n    tl.store(x + i, tl.load(x + i))\n"


def names(source):
    found = analyze(textwrap.dedent(source), "f.py")
    assert found.errors == ()
    return [k.name for k in found.kernels]


@pytest.mark.parametrize(
    "head",
    [
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k",
        "import triton as t\nfrom triton import language as tl\n@t.jit\ndef k",
        "from triton import jit\nimport triton.language as tl\n@jit\ndef k",
        "from triton import jit as j\nimport triton.language as tl\n@j\ndef k",
        "from triton.runtime.jit import jit\nimport triton.language as tl\n@jit\ndef k",
        "import triton\nimport triton.language as tl\n@triton.jit()\ndef k",
        "import triton\nimport triton.language as tl\n@triton.jit(do_not_specialize=['n'])\ndef k",
        "import triton\nimport triton.language as tl\njit = triton.jit\n@jit\ndef k",
        "import triton\nimport triton.language as tl\nfast = triton.jit(noinline=True)\n@fast\ndef k",
        "import functools, triton\nimport triton.language as tl\nj = functools.partial(triton.jit, debug=True)\n@j\ndef k",
        "from vllm.triton_utils import tl, triton\n@triton.jit\ndef k",
        "import triton\nimport triton.language as tl\nfrom lib import libentry\n@libentry()\n@triton.jit\ndef k",
        "try:\n    import triton\n    import triton.language as tl\nexcept ImportError:\n    triton = None\n@triton.jit\ndef k",
        "@triton.jit\ndef k",
    ],
)
def test_triton_jit_is_recognised_however_it_is_named(head):
    assert names(head + BODY) == ["k"]


@pytest.mark.parametrize(
    "head",
    [
        "import numba\n@numba.jit\ndef k",
        "from numba import jit\n@jit\ndef k",
        "import jax\n@jax.jit\ndef k",
        "import torch\n@torch.jit.script\ndef k",
        "from torch import jit\n@jit\ndef k",
        "from triton.experimental import gluon\n@gluon.jit\ndef k",
        "import triton\nfrom numba import jit\n@jit\ndef k",
        "@jit\ndef k",
    ],
)
def test_jit_of_other_libraries_is_not_triton_s(head):
    assert names("import triton.language as tl\n" + head + BODY) == []


def test_both_kinds_of_jit_in_one_file_are_told_apart():
    source = f"""
import triton.language as tl
from triton import jit
from numba import jit as njit

@njit
def host(x, n, B):
    return x

@jit
def k{BODY}
"""
    assert names(source) == ["k"]


def test_kernels_nested_anywhere_carry_qualified_names():
    source = """
    import triton
    import triton.language as tl

    class Outer:
        class Inner:
            @staticmethod
            @triton.jit
            def a(x):
                tl.store(x, 1)

    def factory(flag):
        if flag:
            @triton.jit
            def b(x):
                tl.store(x, 1)
        else:
            try:
                @triton.jit
                def c(x):
                    tl.store(x, 1)
            finally:
                pass
        return b
    """
    assert names(source) == ["Outer.Inner.a", "factory.b", "factory.c"]


def test_call_forms_are_kernels_with_what_wraps_them():
    source = """
    import triton
    import triton.language as tl

    def plain(x, B: tl.constexpr):
        tl.store(x + tl.arange(0, B), 1)

    def tuned(x, B: tl.constexpr):
        tl.store(x + tl.arange(0, B), 1)

    first = triton.jit(plain)
    second = triton.autotune([triton.Config({"B": 64}, num_warps=2)], ["x"])(
        triton.heuristics({"FLAG": lambda a: True})(triton.jit(tuned)))
    first[(1,)](t, B=32)
    second[(2,)](t)
    """
    found = analyze(textwrap.dedent(source), "f.py")
    plain, tuned = found.kernels
    assert (plain.name, tuned.name) == ("plain", "tuned")
    assert plain.decorators == ("triton.jit",)
    assert [s.grid for s in plain.launch_sites] == ["(1,)"]
    assert [s.grid for s in tuned.launch_sites] == ["(2,)"]
    assert tuned.heuristics == ("FLAG",)
    assert tuned.autotune.configs[0].constexprs == (("B", "64"),)
    assert tuned.autotune.configs[0].options == (("num_warps", "2"),)
    assert tuned.autotune.key == ("x",)
    assert dict(tuned.launch_sites[0].constexprs)["B"].source == "autotune"


def test_one_function_jitted_twice_is_one_kernel_with_both_launches():
    source = """
    import triton
    import triton.language as tl
    def fn(x):
        tl.store(x, 1)
    a = triton.jit(fn)
    b = triton.jit(do_not_specialize=["x"])(fn)
    a[(1,)](t)
    b[(2,)](t)
    """
    found = analyze(textwrap.dedent(source), "f.py")
    (kernel,) = found.kernels
    assert [s.grid for s in kernel.launch_sites] == ["(1,)", "(2,)"]


def test_a_project_s_own_jit_wrapper_is_seen_through():
    source = """
    import triton
    import triton.language as tl
    def cached_jit(fn):
        return Cache(triton.jit(fn))
    @cached_jit
    def k(x):
        tl.store(x, 1)
    """
    assert names(source) == ["k"]


def test_helpers_are_not_entry_kernels_but_kernels_name_them():
    source = """
    import triton
    import triton.language as tl
    from .math import gelu

    @triton.jit
    def square(x):
        return x * x

    @triton.jit
    def write(p, x):
        tl.store(p, square(x))

    @triton.jit
    def kernel(p, B: tl.constexpr):
        write(p + tl.arange(0, B), gelu(1.0))
    """
    found = analyze(textwrap.dedent(source), "f.py")
    (kernel,) = found.kernels
    assert kernel.name == "kernel"
    assert [(h.name, h.range is not None) for h in kernel.helpers] == [
        ("write", True),
        ("gelu", False),
        ("square", True),
    ]
    assert [(a.kind, a.pointer, a.block) for a in kernel.accesses] == [("store", "p", True)]
    assert kernel.tiles == ("B",)


def test_a_launched_function_is_a_kernel_even_when_another_calls_it():
    source = """
    import triton
    import triton.language as tl
    @triton.jit
    def inner(p):
        tl.store(p, 1)
    @triton.jit
    def outer(p):
        inner(p)
    def host(t):
        inner[(1,)](t)
    """
    assert names(source) == ["inner", "outer"]


def test_two_kernels_of_one_name_are_both_listed():
    source = """
    import triton
    import triton.language as tl
    if FAST:
        @triton.jit
        def k(p):
            tl.store(p, 1)
    else:
        @triton.jit
        def k(p):
            tl.store(p, 2)
    k[(1,)](t)
    """
    found = analyze(textwrap.dedent(source), "f.py")
    assert [k.name for k in found.kernels] == ["k", "k"]
    assert found.kernels[0].range != found.kernels[1].range
    assert [len(k.launch_sites) for k in found.kernels] == [1, 1]


def test_stacked_decorators_are_listed_outermost_first_as_written():
    source = """
    import triton
    import triton.language as tl
    @libentry()
    @triton.heuristics(values={"EVEN": lambda a: a["n"] % a["B"] == 0})
    @triton.jit
    def k(p, n, B: tl.constexpr, EVEN: tl.constexpr):
        tl.store(p, 1)
    """
    (kernel,) = analyze(textwrap.dedent(source), "f.py").kernels
    assert kernel.decorators[0] == "libentry()"
    assert kernel.decorators[1].startswith("triton.heuristics(values=")
    assert kernel.decorators[2] == "triton.jit"
    assert kernel.heuristics == ("EVEN",)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ("[triton.Config({'B': 64}, num_warps=4), triton.Config(dict(B=128), 8)]", [("64", "4"), ("128", "8")]),
        ("[triton.Config({'B': b}, num_warps=w) for b in [32, 64] for w in (2,)]", [("32", "2"), ("64", "2")]),
        ("[triton.Config({'B': 2 ** i}, num_warps=4) for i in range(5, 7)]", [("32", "4"), ("64", "4")]),
        ("CONFIGS", [("16", "1")]),
        ("CONFIGS + [triton.Config({'B': 8}, num_warps=1)]", [("16", "1"), ("8", "1")]),
        ("make_configs()", []),
        ("[c for c in make_configs() if ok(c)]", []),
        ("[make_config() if NEW else triton.Config({'B': 8})]", []),
    ],
)
def test_autotune_configs_are_read_as_far_as_they_are_written_out(configs, expected):
    source = f"""
import triton
import triton.language as tl
CONFIGS = [triton.Config({{'B': 16}}, num_warps=1)]
@triton.autotune(configs={configs}, key=['n'], reset_to_zero=['p'], restore_value=('q',))
@triton.jit
def k(p, q, n, B: tl.constexpr):
    tl.store(p + tl.arange(0, B), tl.load(q))
"""
    (kernel,) = analyze(source, "f.py").kernels
    tune = kernel.autotune
    assert [(dict(c.constexprs)["B"], dict(c.options)["num_warps"]) for c in tune.configs] == expected
    assert not tune.varies
    assert (tune.key, tune.reset_to_zero, tune.restore_value) == (("n",), ("p",), ("q",))


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ("CONFIGS if NEW else [triton.Config({'B': 8}, num_warps=1)]", [("16", "1"), ("8", "1")]),
        ("[triton.Config({'B': b}, num_warps=w) for b in BLOCKS for w in (2,)]", [("32", "2"), ("64", "2")]),
        ("[triton.Config({'B': 64}, num_warps=w) for w in ([4, 8] if NEW else [2, 4])]", [("64", w) for w in "482"]),
        ("[triton.Config({'B': b}, num_warps=1) for b in (8, 16) if fits(b)]", [("8", "1"), ("16", "1")]),
        ("CONFIGS + make_configs() if NEW else CONFIGS", []),
    ],
)
def test_of_configs_that_conditions_choose_all_are_read_that_there_may_be(configs, expected):
    source = f"""
import triton
import triton.language as tl
from devices import NEW, fits
CONFIGS = [triton.Config({{'B': 16}}, num_warps=1)]
if NEW:
    BLOCKS = [32, 64]
else:
    BLOCKS = [32]
@triton.autotune(configs={configs}, key=['n'])
@triton.jit
def k(p, q, n, B: tl.constexpr):
    tl.store(p + tl.arange(0, B), tl.load(q))
"""
    (kernel,) = analyze(source, "f.py").kernels
    found = [(dict(c.constexprs)["B"], dict(c.options)["num_warps"]) for c in kernel.autotune.configs]
    assert found == expected
    assert kernel.autotune.varies is bool(expected)
