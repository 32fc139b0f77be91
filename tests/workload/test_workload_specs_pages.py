"""The page about launch specs: every example on it can be read, and so can every form in its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.domain.launch import Distribution, ExactValues, Items, Scalar, Symbol, Tensor
from tritonforge.workload.specified import spec_calls, spec_problems
from tritonforge.workload.specs import parse_specs
from tritonforge.workload.specs.calls import Subject
from tritonforge.workload.specs.recipes import NAMES
from tritonforge.workload.specs.tables import table_calls

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "launch-specs.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(TOML,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def table(title: str) -> list[str]:
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[2:]
    return [form for row in rows for form in re.findall(r"`([^`]+)`", row)]


def numbers(name: str, calls) -> list[object]:
    return [dict(call.keywords)[name].value for call in calls]


@pytest.mark.parametrize("example", PYTHON, ids=range(len(PYTHON)))
def test_every_python_example_is_read(example):
    analysis = analyze(f"import triton\nimport triton.language as tl\n{example}", "k.py")
    assert analysis.specs
    assert spec_problems(analysis) == ()


def test_the_examples_of_several_sizes_make_several_calls():
    source = "import triton\n@triton.jit\ndef kern(x): pass\n" + PYTHON[1].replace("...", "kern[(1,)](q)")
    analysis = analyze(source, "k.py")
    calls = spec_calls(analysis, (), analysis.kernels[0])
    assert [dict(call.keywords)["k"].shape for call in calls] == [
        (1, 16, 8192, 128), (16, 16, 512, 128), (1, 8, 512, 64), (1, 8, 2048, 64), (1, 8, 8192, 64),
    ]  # fmt: skip


@pytest.mark.parametrize("form", [form for form in table("Sizes") if " in " in form])
def test_every_form_of_sizes_is_read(form):
    names = form.split(" in ")[0].split(", ")
    uses = " ".join(f"u{i}={name}" for i, name in enumerate(names))
    assert len(parse_specs(f"{uses} {form}", file="k.py", function="f")) > 1


@pytest.mark.parametrize("form", table("Recipes for values"))
def test_every_recipe_is_read(form):
    form = form.replace("(recipe", "(randint(0, 9)").replace("share", "0.5").replace("mean, std", "0, 1")
    form = (
        form.replace("low", "2")
        .replace("high", "7")
        .replace("total", "9")
        .replace("start", "1")
        .replace("value)", "1)")
    )
    dtype = "fp32" if re.search("normal|uniform|sparse", form) else "i32"
    (call,) = parse_specs(f"x={dtype}[3]{form}", file="k.py", function="f")
    assert isinstance(dict(call.keywords)["x"].values, Distribution | ExactValues)


def test_the_page_names_every_recipe():
    assert {re.match(r"~(\w+)", form)[1] for form in table("Recipes for values")} == set(NAMES)


def test_the_tables_of_the_page_are_read(tmp_path):
    (tmp_path / "tritonforge.toml").write_text(TOML)
    norm, add = load(tmp_path, environment={}).launches
    host = analyze(
        "import triton\ndef layer_norm(x, weight, eps, activation): pass\n# tritonforge: launch\n", "kernels/norm.py"
    )
    calls = table_calls(norm, Subject("kernels/norm.py", "layer_norm", host=host.functions[0]))
    assert [dict(call.keywords)["x"].shape for call in calls] == [(1, 4096), (128, 4096), (4096, 4096)]
    assert dict(calls[0].keywords)["activation"] == Scalar("silu")
    (kernel,) = analyze(
        "import triton\nimport triton.language as tl\n@triton.jit\ndef add_kernel(x, out, n, BLOCK: tl.constexpr):\n    pass\n",
        "kernels/add.py",
    ).kernels
    calls = table_calls(add, Subject("kernels/add.py", "add_kernel", kernel))
    assert numbers("n", calls) == [1024, 4096, 16384, 65536]
    assert calls[0].kernel_launch.grid == ("cdiv(n, BLOCK)",)


@pytest.mark.parametrize(
    ("toml", "line", "column", "says"),
    [
        ('x = "fp61[3]"', 4, 6, "unknown dtype"),
        ('x = "fp16[M]"\nM = "3 +"', 5, 9, "expected a value"),
        ("x = 'fp16[4, -1]'", 4, 14, "negative"),
        ('x = """\nfp16[4,\n  q]"""', 6, 3, "'q'"),
        ('x = "fp16[3]\\u0020~qq"', 4, 6, "no recipe"),
        ('x = "fp16[M]"\nsizes = { M = [1, "z"] }', 5, 9, "'z'"),
        ('x = "fp16[M]"\n[launch.sizes]\nM = "4..z"', 6, 9, "'z'"),
        ('x = "fp16[M]"\n[launch.sizes]\nM = 4', 6, 5, "several values"),
        ('x = ["fp16[3]", "fp61[3]"]', 4, 5, "unknown dtype"),
        ("x = { a = 1 }", 4, 5, "must be a text"),
        ('x = "fp16[3]"\n  wieght = 4', 5, 12, "Did you mean 'weight'?"),
        ("weight = 1", 4, 10, "does not give x"),
    ],
)  # fmt: skip
def test_an_error_in_a_table_points_into_the_toml_file(tmp_path, toml, line, column, says):
    (tmp_path / "tritonforge.toml").write_text(f'[[launch]]\nfile = "k.py"\nfunction = "f"\n{toml}\n')
    (found,) = load(tmp_path, environment={}).launches
    source = "import triton\n@triton.jit\ndef k(x): pass\ndef f(x, weight=1):\n    k[(1,)](x)\n"
    analysis = analyze(source, "k.py")
    with pytest.raises(Exception, match=r"tritonforge\.toml") as caught:
        spec_calls(analysis, (found,), analysis.kernels[0])
    assert (caught.value.position.line, caught.value.position.column) == (line, column), caught.value
    assert says in str(caught.value)


def keywords(text: str) -> dict[str, object]:
    (call,) = parse_specs(text, file="k.py", function="f")
    return dict(call.keywords)


def test_strides_views_and_offsets_are_those_of_pytorch():
    values = keywords(
        "M=4 K=6 a=fp16[M, K]:[K + 2, 1] b=fp16[K, M].T c=fp16[2, 3, 4].transpose(0, 2) d=fp16[M]@8 e=i32[4]@1 f=fp16[3].cpu"
    )
    assert values["a"].strides == (8, 1)
    assert (values["b"].shape, values["b"].strides) == ((4, 6), (1, 4))
    assert (values["c"].shape, values["c"].strides) == ((4, 3, 2), (1, 4, 12))
    assert (values["d"].offset, values["d"].alignment) == (8, 16)
    assert values["e"].alignment == 4
    assert values["f"].device == "cpu"


def test_arguments_that_name_one_tensor_share_its_memory_and_others_do_not():
    values = keywords("x=fp16[4, 6] out=x t=x.T other=fp16[4, 6] both=[x, other]")
    assert values["out"] == values["x"]
    assert values["x"].buffer == values["t"].buffer >= 0
    assert values["other"].buffer != values["x"].buffer
    assert values["both"] == Items("list", (values["x"], values["other"]))
    assert keywords("x=fp16[4]")["x"].buffer == -1


def test_values_of_every_other_kind_are_what_they_say():
    values = keywords("a=fp32[] b=desc(fp16[8, 4], [4, 2]) c=tl.float16 d=bf16 e=D**-0.5 D=64 f=cdiv(10, 4) g=0x10")
    assert values["a"] == Tensor((), (), "float32")
    assert values["b"].kind == "TensorDescriptor"
    assert values["c"] == Symbol("dtype", "tl.fp16")
    assert values["d"] == Symbol("dtype", "bfloat16")
    assert (values["e"], values["f"], values["g"]) == (Scalar(0.125), Scalar(3), Scalar(16))


def test_recipes_become_the_distributions_that_the_worker_draws():
    values = keywords(
        "o=i32[9]~offsets(T) T=100 m=i1[8]~mask(0.3) p=i64[8]~randperm a=i32[4]~arange(5) s=i32[8]~sorted(randint(0, 9), descending)"
    )
    assert values["o"].values == Distribution("offsets", low=0, high=100)
    assert values["m"].values == Distribution("bernoulli", mean=0.3)
    assert values["p"].values == Distribution("permutation", low=0)
    assert values["a"].values == Distribution("arange", low=5)
    assert values["s"].values == Distribution("uniform", low=0, high=8, order="descending")


def test_exact_values_are_the_bytes_of_the_tensor():
    import struct
    import zlib

    values = keywords(
        "a=i64[2]~values(1, -2) b=bf16[2]~values(1, 0.1) c=i1[2]~values(True, False) d=fp16[1]~values(0.5)"
    )
    packed = {name: zlib.decompress(tensor.values.data) for name, tensor in values.items()}
    assert packed["a"] == struct.pack("<qq", 1, -2)
    assert packed["b"] == struct.pack("<HH", 0x3F80, 0x3DCD)
    assert packed["c"] == b"\x01\x00"
    assert packed["d"] == struct.pack("<e", 0.5)


def test_a_grid_keeps_parameters_and_turns_sizes_into_numbers():
    (kernel,) = analyze(
        "import triton\nimport triton.language as tl\n@triton.autotune(configs=[triton.Config({'BLOCK': 64})], key=[])\n"
        "@triton.jit\ndef k(x, n, BLOCK: tl.constexpr):\n    tl.store(x + tl.arange(0, BLOCK), n)\n",
        "k.py",
    ).kernels
    calls = parse_specs(
        "x=fp16[n, B] n=64 B in [2, 4] grid=(triton.cdiv(n * 2, BLOCK), B * (n + 1), 2 ** B)",
        file="k.py", function="k", kernel=kernel,
    )  # fmt: skip
    assert [call.kernel_launch.grid for call in calls] == [
        ("cdiv(n * 2, BLOCK)", "2 * (n + 1)", "4"), ("cdiv(n * 2, BLOCK)", "4 * (n + 1)", "16"),
    ]  # fmt: skip


def test_equal_calls_are_made_once():
    assert len(parse_specs("x=fp16[M] M in [4, 2 + 2, 8]", file="k.py", function="f")) == 2


def test_a_spec_above_a_caller_of_the_host_function_counts_where_there_is_no_nearer_one():
    source = (
        "import triton\n@triton.jit\ndef k(x): pass\ndef host(x):\n    k[(1,)](x)\n"
        "# tritonforge: launch a=fp16[3]\ndef outer(a):\n    host(a)\n"
    )
    analysis = analyze(source, "k.py")
    assert [call.function for call in spec_calls(analysis, (), analysis.kernels[0])] == ["outer"]
    nearer = source.replace("def host", "# tritonforge: launch x=fp16[3]\ndef host")
    analysis = analyze(nearer, "k.py")
    assert [call.function for call in spec_calls(analysis, (), analysis.kernels[0])] == ["host"]


def test_a_table_may_name_an_autograd_function_by_what_calls_it(tmp_path):
    (tmp_path / "tritonforge.toml").write_text('[[launch]]\nfile = "k.py"\nfunction = "Op.apply"\nx = "fp16[4]"\n')
    source = (
        "import torch, triton\n@triton.jit\ndef k(x): pass\nclass Op(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        k[(1,)](x)\n"
    )
    analysis = analyze(source, "k.py")
    (call,) = spec_calls(analysis, load(tmp_path, environment={}).launches, analysis.kernels[0])
    assert (call.function, len(call.arguments), call.keywords) == ("Op.apply", 1, ())
