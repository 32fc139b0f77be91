"""Launch sites in every form that real files use, and where each value of a launch is set."""

from __future__ import annotations

import pytest
from analysis_snippets import cut, look, only_kernel, only_site, source_of, value

OTHER = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)

@triton.jit
def other(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), n)

"""


@pytest.mark.parametrize(
    ("body", "grid", "kind"),
    [
        ("def f(x, n):\n    kernel[(4, 2)](x, n, BLOCK=64)", "(4, 2)", "tuple"),
        ("def f(x, n):\n    kernel[n,](x, n, BLOCK=64)", "n,", "tuple"),
        ("def f(x, n):\n    kernel[[n]](x, n, BLOCK=64)", "[n]", "tuple"),
        ("def f(x, n):\n    kernel[4, 2](x, n, 64)", "4, 2", "tuple"),
        (
            "def f(x, n):\n    kernel[lambda m: (triton.cdiv(n, m['BLOCK']),)](x, n, BLOCK=64)",
            "lambda m: (triton.cdiv(n, m['BLOCK']),)",
            "lambda",
        ),
        ("def f(x, n):\n    g = lambda m: (n,)\n    kernel[g](x, n, BLOCK=64)", "lambda m: (n,)", "lambda"),
        (
            "def f(x, n):\n    def g(m):\n        return (n,)\n    kernel[g](x, n, BLOCK=64)",
            "def g(m):\n        return (n,)",
            "function",
        ),
        ("def f(x, n):\n    g = (n, 1)\n    kernel[g](x, n, BLOCK=64)", "(n, 1)", "variable"),
        ("def f(x, n, g):\n    kernel[g](x, n, BLOCK=64)", "g", "variable"),
        ("def f(x, n):\n    g = make(n)\n    kernel[g](x, n, BLOCK=64)", "make(n)", "call"),
        ("def f(x, n):\n    kernel.run(x, n, grid=(7,), BLOCK=64, warmup=False)", "(7,)", "tuple"),
        ("def f(x, n):\n    kernel.warmup(x, n, grid=(7,), BLOCK=64)", "(7,)", "tuple"),
        ("def f(x, n):\n    go = kernel[(7,)]\n    go(x, n, BLOCK=64)", "(7,)", "tuple"),
        ("def f(x, n):\n    kernel.fn[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("def f(x, n):\n    torch.library.wrap_triton(kernel)[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("def f(x, n):\n    k = kernel\n    k[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("TABLE = {'a': kernel}\ndef f(x, n):\n    TABLE['a'][(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("TABLE = {'a': kernel}\ndef f(x, n, w):\n    TABLE.get(w)[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        (
            (
                "class M:\n    def __init__(self):\n        self.k = kernel\n"
                "    def f(self, x, n):\n        self.k[(7,)](x, n, BLOCK=64)"
            ),
            "(7,)",
            "tuple",
        ),
        ("class M:\n    k = kernel\n    def f(self, x, n):\n        M.k[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("def go(k, x, n):\n    k[(7,)](x, n, BLOCK=64)\ndef f(x, n):\n    go(kernel, x, n)", "(7,)", "tuple"),
        ("def pick():\n    return kernel\ndef f(x, n):\n    pick()[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
        ("def f(x, n):\n    with torch.cuda.device(0):\n        kernel[(7,)](x, n, BLOCK=64)", "(7,)", "tuple"),
    ],
)
def test_a_launch_is_found_with_its_grid_and_block(body, grid, kind):
    source, found = source_of(body), look(body)
    site = only_site(found)
    assert (site.grid, site.grid_kind) == (grid, kind)
    assert cut(source, site.grid_range) == grid
    given = value(site, "BLOCK")
    assert (given.source, given.text) == ("literal", "64")
    assert cut(source, given.origin) == "64"


@pytest.mark.parametrize(
    "body",
    [
        "def f(x, n, c):\n    k = kernel if c else other\n    k[(1,)](x, n, BLOCK=64)",
        "def f(x, n, c):\n    if c:\n        k = kernel\n    else:\n        k = other\n    k[(1,)](x, n, BLOCK=64)",
        "def f(x, n, c):\n    (kernel if c else other)[(1,)](x, n, BLOCK=64)",
        "T = {1: kernel, 2: other}\ndef f(x, n, c):\n    T[c][(1,)](x, n, BLOCK=64)",
        "def f(x, n):\n    for k in (kernel, other):\n        k[(1,)](x, n, BLOCK=64)",
    ],
)
def test_an_alias_of_two_kernels_launches_both(body):
    found = look(body, kernel=OTHER)
    assert [(k.name, len(k.launch_sites)) for k in found.kernels] == [("kernel", 1), ("other", 1)]


def test_subscripts_and_calls_of_other_things_are_no_launches():
    found = look("def f(x, d):\n    d['kernel'](x)\n    x[0](1)\n    kernels[1](x)\n    subprocess.run(x, grid=1)")
    assert only_kernel(found).launch_sites == ()


def test_a_launch_at_module_level_has_no_host():
    assert only_site(look("kernel[(1,)](x, 3, BLOCK=64)")).host is None


def test_a_launch_inside_a_lambda_belongs_to_the_function_around_it():
    site = only_site(look("class A:\n    def f(self, x):\n        return lambda: kernel[(1,)](x, 3, 64)"))
    assert site.host == "A.f"


@pytest.mark.parametrize(
    ("body", "source_kind", "origin"),
    [
        ("def f(x, n):\n    kernel[(1,)](x, n, BLOCK=64)", "literal", "64"),
        ("def f(x, n):\n    kernel[(1,)](x, n, 64)", "literal", "64"),
        ("def f(x, n):\n    B = 64\n    kernel[(1,)](x, n, BLOCK=B)", "local", "64"),
        ("def f(x, n):\n    A, B = 1, 64\n    kernel[(1,)](x, n, BLOCK=B)", "local", "64"),
        ("def f(x, n):\n    B: int = 64\n    kernel[(1,)](x, n, BLOCK=B)", "local", "64"),
        ("def f(x, n):\n    A = 64\n    B = A\n    kernel[(1,)](x, n, BLOCK=B)", "local", "64"),
        ("SIZE = 64\ndef f(x, n):\n    kernel[(1,)](x, n, BLOCK=SIZE)", "module", "64"),
        ("SIZE = 64\ndef f(x, n):\n    B = SIZE\n    kernel[(1,)](x, n, BLOCK=B)", "module", "64"),
        ("SIZE = 32 * 2\ndef f(x, n):\n    kernel[(1,)](x, n, BLOCK=SIZE)", "module", "32 * 2"),
        ("class C:\n    B = 64\ndef f(x, n):\n    kernel[(1,)](x, n, BLOCK=C.B)", "module", "64"),
        ("def f(x, n, b=64):\n    kernel[(1,)](x, n, BLOCK=b)", "parameter", "64"),
        ("def f(x, n, *, b=64):\n    kernel[(1,)](x, n, BLOCK=b)", "parameter", "64"),
        ("def f(x, n, b):\n    kernel[(1,)](x, n, BLOCK=b)", "parameter", None),
        (
            "def f(x, n):\n    B = triton.next_power_of_2(n)\n    kernel[(1,)](x, n, BLOCK=B)",
            "next_power_of_2",
            "triton.next_power_of_2(n)",
        ),
        (
            "def f(x, n):\n    B = min(8, triton.next_power_of_2(n))\n    kernel[(1,)](x, n, BLOCK=B)",
            "next_power_of_2",
            "min(8, triton.next_power_of_2(n))",
        ),
        ("def f(x, n):\n    B = pick(n)\n    kernel[(1,)](x, n, BLOCK=B)", "call", "pick(n)"),
        ("def f(x, n):\n    B, w = pick(n)\n    kernel[(1,)](x, n, BLOCK=B)", "call", None),
        (
            "def f(x, n):\n    B = 64 if n > 9 else 32\n    kernel[(1,)](x, n, BLOCK=B)",
            "expression",
            "64 if n > 9 else 32",
        ),
        (
            "def f(x, n):\n    B = 64\n    if n > 9:\n        B = 32\n    kernel[(1,)](x, n, BLOCK=B)",
            "expression",
            None,
        ),
        ("def f(x, n):\n    B = 64\n    B *= 2\n    kernel[(1,)](x, n, BLOCK=B)", "expression", None),
        ("def f(x, n):\n    for B in (32, 64):\n        kernel[(1,)](x, n, BLOCK=B)", "expression", None),
        ("from cfg import B\ndef f(x, n):\n    kernel[(1,)](x, n, BLOCK=B)", "module", None),
        ("def f(x, n, **kw):\n    kernel[(1,)](x, n, **kw)", "kwargs", None),
        ("def f(x, *args):\n    kernel[(1,)](*args)", "kwargs", None),
        ("def f(x, n):\n    kw = {'BLOCK': 64}\n    kernel[(1,)](x, n, **kw)", "kwargs", "64"),
        ("def f(x, n):\n    kw = dict(BLOCK=64)\n    kernel[(1,)](x, n, **kw)", "kwargs", "64"),
        ("def f(x, n):\n    B = 64\n    def g():\n        kernel[(1,)](x, n, BLOCK=B)\n    g()", "local", "64"),
        ("def f(x, n):\n    kernel[(1,)](x, n)", "absent", None),
    ],
)
def test_a_block_is_followed_to_the_place_where_it_is_set(body, source_kind, origin):
    source = source_of(body)
    given = value(only_site(look(body)), "BLOCK")
    assert given.source == source_kind
    assert (cut(source, given.origin) if given.origin is not None else None) == origin


def test_options_are_described_like_constexprs():
    body = "def f(x, n):\n    w = 8\n    kernel[(1,)](x, n, 64, num_warps=w, num_stages=3, waves_per_eu=2)"
    source, site = source_of(body), only_site(look(body))
    assert (value(site, "num_warps").source, cut(source, value(site, "num_warps").origin)) == ("local", "8")
    assert value(site, "num_stages").text == "3"
    assert value(site, "num_ctas").source == "absent"
    assert value(site, "waves_per_eu").text == "2"


def test_a_kernel_s_own_default_is_used_when_nothing_is_given():
    kernel = """
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr = 256):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1)

"""
    body = "def f(x):\n    kernel[(1,)](x)"
    given = value(only_site(look(body, kernel=kernel)), "BLOCK")
    assert (given.source, given.text) == ("default", "256")
    assert cut(source_of(body, kernel=kernel), given.origin) == "256"


def test_autotuned_and_heuristic_values_say_so():
    kernel = """
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=4)], key=["n"])
@triton.heuristics({"EVEN": lambda a: True})
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1)

"""
    site = only_site(look("def f(x, n):\n    kernel[(1,)](x, n)", kernel=kernel))
    kinds = {name: value(site, name).source for name in ("BLOCK", "EVEN", "num_warps", "num_stages", "num_ctas")}
    assert kinds == {
        "BLOCK": "autotune",
        "EVEN": "heuristic",
        "num_warps": "autotune",
        "num_stages": "autotune",
        "num_ctas": "absent",
    }


def test_keyword_only_and_positional_arguments_map_to_parameters():
    site = only_site(look("def f(a, m):\n    kernel[(1,)](a, BLOCK=64, n=m + 1)"))
    assert dict(site.arguments) == {"x_ptr": "a", "n": "m + 1", "BLOCK": "64"}
