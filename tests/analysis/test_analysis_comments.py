"""Launch specs, suppressions, and what in a file can be run."""

from __future__ import annotations

import textwrap

import pytest
from analysis_snippets import IMPORTS, KERNEL, look, only_kernel, source_of

from tritonforge.analysis import analyze

JIT = "import triton\n\n\n@triton.jit\ndef last(x):\n"


def specs(source):
    return [(s.text, s.function) for s in analyze(textwrap.dedent(source), "f.py").specs]


def test_specs_belong_to_the_function_below_them():
    source = """
    import triton
    # tritonforge: launch x=float16[1024] n=1024
    #tritonforge:launch n = 7
    # another comment

    @triton.jit
    # tritonforge: launch between=1
    def k(x, n):
        pass

    class A:
        # tritonforge: launch y=1
        @staticmethod
        def f(y):
            # tritonforge: launch inside=1
            return y
    # tritonforge: launch end=1
    """
    assert specs(source) == [
        ("x=float16[1024] n=1024", "k"),
        ("n = 7", "k"),
        ("between=1", "k"),
        ("y=1", "A.f"),
        ("inside=1", None),
        ("end=1", None),
    ]


def test_a_spec_knows_its_place_in_code_points():
    (spec,) = analyze("s = 'é'  # tritonforge: launch a=1\ndef f(): pass\n", "f.py").specs
    assert (spec.line, spec.column) == (1, 32)


def test_comment_lines_with_three_blanks_continue_a_spec_and_keep_their_columns():
    source = (
        "class A:\n    # tritonforge: launch x=fp16[M]\n    #   M=4  # why\n    #\ty=1\n    # prose\n    #   z=1\n"
        "    def f(x): pass\n"
    )
    (spec,) = analyze(source, "f.py").specs
    assert spec.text.split("\n") == ["x=fp16[M]", "        M=4  # why", "      y=1"]
    assert (spec.line, spec.column, spec.function) == (2, 27, "A.f")


def test_a_spec_may_begin_on_its_second_line_and_another_may_follow():
    source = "# tritonforge: launch\n#   a=1\n#   tritonforge: launch b=2\n# tritonforge: launch c=3\ndef f(): pass\n"
    assert specs(source) == [("\n    a=1", "f"), ("b=2", "f"), ("c=3", "f")]


def test_functions_that_a_spec_can_call_are_listed_with_how_to_call_them():
    body = """
    def op(x, /, n: int = 4, *, flag, **rest): pass
    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, eps=1e-5): pass
    class Module:
        def forward(self, x): pass
        @staticmethod
        def make(x):
            def inside(): pass
    """
    found = {f.name: f for f in look(textwrap.dedent(body)).functions}
    assert {name: f.called_as for name, f in found.items()} == {
        "op": "op", "Op.forward": "Op.apply", "Module.forward": None, "Module.make": "Module.make",
    }  # fmt: skip
    assert [(p.name, p.annotation, p.default) for p in found["op"].parameters] == [
        ("x", None, None), ("n", "int", "4"), ("flag", None, None),
    ]  # fmt: skip
    assert (found["op"].positional, found["op"].open) == (True, True)
    assert [p.name for p in found["Op.forward"].parameters] == ["x", "eps"]


def test_text_in_a_string_is_no_spec():
    assert specs('s = """\n# tritonforge: launch a=1\n"""\nt = "# tritonforge: launch b=1"\n') == []


def test_specs_of_a_half_typed_file_are_kept():
    source = (
        "# tritonforge: launch a=1\ndef f(a):\n    return a\n\nx = (\n# tritonforge: launch b=1\ndef g(b):\n    pass\n"
    )
    assert specs(source)[0] == ("a=1", "f")
    assert [text for text, _ in specs(source)] == ["a=1", "b=1"]


def suppressions(source):
    return [(s.line, s.codes, s.whole_kernel) for s in only_kernel(analyze(source, "f.py")).suppressions]


def test_a_suppression_on_a_line_is_for_that_line():
    source = (IMPORTS + KERNEL).replace("BLOCK)\n", "BLOCK)  # tritonforge: ignore[TF203, tf304]\n", 1)
    assert suppressions(source) == [(8, ("TF203", "TF304"), False)]


def test_a_suppression_above_the_decorators_is_for_the_kernel():
    source = IMPORTS + "# tritonforge: ignore[TF502]\n# and why\n" + KERNEL.lstrip()
    assert suppressions(source) == [(5, ("TF502",), True)]


def test_a_bare_ignore_silences_everything():
    source = IMPORTS + "# tritonforge: ignore\n" + KERNEL.lstrip()
    assert suppressions(source) == [(5, (), True)]


def test_a_suppression_at_the_launch_counts_and_one_elsewhere_does_not():
    source = source_of("kernel[(1,)](x, 3, 64)  # tritonforge: ignore[TF404]\ny = 1  # tritonforge: ignore[TF1]\n")
    assert suppressions(source) == [(11, ("TF404",), False)]


LAUNCH = "def f(x, n=4):\n    kernel[(1,)](x, n, BLOCK=64)\n"


def entries(body):
    return [(e.kind, e.name) for e in look(body).entries]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if __name__ == '__main__':\n    f(1)\n", [("main", "__main__")]),
        ("if '__main__' == __name__:\n    f(1)\n", [("main", "__main__")]),
        ("if __name__ == '__main__':\n    print(1)\n", []),
        ("f(1)\n", [("module", "<module>")]),
        ("x = [f(i) for i in range(3)]\n", [("module", "<module>")]),
        ("kernel[(1,)](x, 3, 64)\n", [("module", "<module>")]),
        ("torch.library.register('f', f)\nlater = lambda: f(1)\n", []),
        ("triton.testing.do_bench(lambda: f(1))\n", [("module", "<module>")]),
        ("def test_a():\n    f(1)\n", [("function", "test_a")]),
        ("def test_a(size=4):\n    f(size)\n", [("function", "test_a")]),
        ("def test_a(size):\n    f(size)\n", []),
        ("def main():\n    f(1)\ndef bench_b():\n    main()\n", [("function", "main"), ("function", "bench_b")]),
        ("def run():\n    f(1)\n", []),
        ("def test_a():\n    pass\n", []),
        ("import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(x):\n    f(x)\n", [("function", "test_a")]),
        ("import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(x, fixture):\n    f(x)\n", []),
        ("import pytest\n@pytest.fixture\ndef main():\n    f(1)\n", []),
        ("from mylib import op\ndef test_a():\n    op(1)\n", [("function", "test_a")]),
        ("def test_a():\n    torch.zeros(1)\n", []),
        (
            (
                "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        f(x)\n"
                "def op(x):\n    return Op.apply(x)\ndef test_a():\n    op(1)\n"
            ),
            [("function", "test_a")],
        ),
        (
            "def test_a():\n    f(1)\nif __name__ == '__main__':\n    test_a()\nf(2)\n",
            [("main", "__main__"), ("module", "<module>"), ("function", "test_a")],
        ),
    ],
)
def test_entries_are_what_can_be_run_to_reach_a_launch(body, expected):
    assert entries(LAUNCH + body) == expected


@pytest.mark.parametrize(
    ("comment", "silenced", "marked", "mend"),
    [
        ("lunch x=fp16[8]", [], ["lunch"], "Did you mean 'launch'?"),
        ("Ignore[TF203]", [], ["Ignore"], "Did you mean 'ignore'?"),
        ("ignore-next[TF203]", [], ["ignore-next"], "Did you mean 'ignore'?"),
        ("see the docs", [], ["see"], "Known words: ignore, launch."),
        ("[TF203]", [], ["[TF203]"], "Known words: ignore, launch."),
        ("ignore[TF3O4]", [("TF3O4",)], ["TF3O4"], "Did you mean TF304?"),
        ("ignore TF3O4, too", [("TF3O4",)], ["TF3O4"], "Did you mean TF304?"),
        (
            "ignore[TF203, tile-to-small]",
            [("TF203", "tile-to-small")],
            ["tile-to-small"],
            "Did you mean tile-too-small?",
        ),
        ("ignore[]", [], ["[]"], "Write ignore[TF203]."),
    ],
)
def test_what_of_a_comment_does_nothing_is_marked_with_the_nearest_that_would(comment, silenced, marked, mend):
    line = f"    x = 1  # tritonforge: {comment}"
    found = analyze(f"{JIT}{line}\n", "f.py")
    assert [s.codes for s in found.kernels[0].suppressions] == silenced
    problems = found.comment_problems
    assert [line[p.range.start.column - 1 : p.range.end.column - 1] for p in problems] == marked
    assert all(p.message.endswith(mend) for p in problems)


@pytest.mark.parametrize(
    "comment",
    ["ignore", "ignore[TF203]", "ignore[TF2, tile-too-small] until 2027-03-01", "ignore(tf203)", "ignore (measured)",
     "ignore[data-race]: they all write the same", "launch x=fp16[8]"],
)  # fmt: skip
def test_what_does_something_is_not_marked(comment):
    assert analyze(f"{JIT}    x = 1  # tritonforge: {comment}\n", "f.py").comment_problems == ()
