"""What in a workspace gets to a kernel: odd imports, re-exports, aliases, and whatever a folder may hold."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritonforge.analysis import analyze
from tritonforge.analysis.imports import scan_imports
from tritonforge.analysis.outline import outline
from tritonforge.store import open_store
from tritonforge.workload.index import WorkspaceIndex

KERNEL = """\
import triton
import triton.language as tl

@triton.jit
def k(x, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
"""
HOST = "def launch(x):\n    k[(1,)](x, 4, BLOCK=64)\n"
TEST = "def test_it():\n    launch(1)\n"


def make(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return WorkspaceIndex(root)


def ways(index, file="pkg/kernels.py", name="k"):
    analysis = analyze((index.files.root / file).read_bytes(), file)
    kernel = next(kernel for kernel in analysis.kernels if kernel.name == name)
    return index.ways(kernel)


def names(index, **more):
    return [f"{way.file}::{way.entry.name}" for way in ways(index, **more)]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"pkg/kernels.py": KERNEL + HOST, "t/test_a.py": "from pkg.kernels import launch\n" + TEST}, "a wrapper"),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "import pkg.kernels\ndef test_it():\n    pkg.kernels.launch(1)\n",
            },
            "a dotted import",
        ),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "import pkg.kernels as o\ndef test_it():\n    o.launch(1)\n",
            },
            "a module under another name",
        ),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "from pkg import kernels\ndef test_it():\n    kernels.launch(1)\n",
            },
            "a module from its package",
        ),
        (
            {
                "pkg/__init__.py": "from .ops import *\n",
                "pkg/kernels.py": KERNEL,
                "pkg/ops.py": "from .kernels import k as kk\ndef launch(x):\n    kk[(1,)](x, 4, BLOCK=64)\n",
                "t/test_a.py": "from pkg import launch\n" + TEST,
            },
            "a star through the package",
        ),
        (
            {
                "pkg/__init__.py": "from . import nn\n",
                "pkg/nn/__init__.py": "from ..ops import launch as act\n",
                "pkg/kernels.py": KERNEL,
                "pkg/ops.py": "from pkg.kernels import k\n" + HOST,
                "t/test_a.py": "import pkg\ndef test_it():\n    pkg.nn.act(1)\n",
            },
            "re-exports under other names",
        ),
        (
            {
                "pkg/kernels.py": KERNEL,
                "pkg/ops.py": (
                    "from .kernels import k\nclass Op:\n    @staticmethod\n    def forward(ctx, x):\n"
                    "        k[(1,)](x, 4, BLOCK=64)\nlaunch = Op.forward\n"
                ),
                "t/test_a.py": "from pkg.ops import launch\n" + TEST,
            },
            "a class method behind an alias",
        ),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "def test_it():\n    from pkg.kernels import launch\n    launch(1)\n",
            },
            "an import inside the test",
        ),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": (
                    "try:\n    from pkg.kernels import launch\nexcept ImportError:\n    launch = None\n" + TEST
                ),
            },
            "an import that may fail",
        ),
        (
            {
                "src/pkg/__init__.py": "",
                "src/pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "from pkg.kernels import launch\n" + TEST,
            },
            "a source folder",
        ),
        ({"kernels.py": KERNEL + HOST, "test_a.py": "from kernels import *\n" + TEST}, "a file beside it"),
        (
            {
                "pkg/kernels.py": KERNEL,
                "pkg/ops.py": "from . import kernels\nTABLE = {'k': kernels.k}\ndef launch(x):\n    TABLE['k'][(1,)](x, 4, BLOCK=64)\n",
                "t/test_a.py": "from pkg.ops import (  # it\n    launch,\n)\n" + TEST,
            },
            "a table of kernels",
        ),
        (
            {
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "from pkg.kernels import launch\nimport pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n):\n    launch(n)\n",
            },
            "a parametrised test",
        ),
        (
            {
                "pkg/a.py": "from .kernels import launch\nfrom .b import other\n",
                "pkg/b.py": "from .a import launch\nother = launch\n",
                "pkg/kernels.py": KERNEL + HOST,
                "t/test_a.py": "from pkg.b import other as launch\n" + TEST,
            },
            "imports in a circle",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_test_elsewhere_is_found_through(tmp_path, files, why):
    index = make(tmp_path, files)
    file = next(name for name, text in files.items() if text.startswith(KERNEL))
    assert [name.rpartition("/")[2] for name in names(index, file=file)] == ["test_a.py::test_it"], why


@pytest.mark.parametrize(
    "text",
    [
        "from pkg.other import launch\n" + TEST,  # a function of the same name
        "from pkg.kernels import unrelated\ndef test_it():\n    unrelated()\n",
        "def test_it():\n    launch(1)\n",  # not imported at all
        "# from pkg.kernels import launch\n" + TEST,
        "from ....... import launch\n" + TEST,
    ],
)
def test_what_does_not_get_to_the_kernel_is_not_offered(tmp_path, text):
    other = "def launch(x):\n    return x\n"
    index = make(
        tmp_path,
        {"pkg/kernels.py": KERNEL + HOST + "def unrelated():\n    pass\n", "pkg/other.py": other, "t/test_a.py": text},
    )
    assert names(index) == []


def test_the_own_file_comes_first_then_the_nearest_tests_then_benchmarks_and_programs(tmp_path):
    call = "from pkg.kernels import launch\n"
    index = make(
        tmp_path,
        {
            "pkg/__init__.py": "from .kernels import launch\n",
            "pkg/kernels.py": KERNEL + HOST + "if __name__ == '__main__':\n    launch(1)\n",
            "pkg/far.py": "from pkg.kernels import launch\ndef deeper(x):\n    launch(x)\n",
            "a/test_far.py": "from pkg.far import deeper\ndef test_far():\n    deeper(1)\n",
            "bench/bench_k.py": call + "def bench_it():\n    launch(1)\n",
            "demo.py": call + "if __name__ == '__main__':\n    launch(1)\n",
            "tests/test_b.py": call + "def test_near():\n    launch(1)\n",
            "tests/test_c.py": call + "class TestC:\n    def test_in_class(self):\n        launch(1)\n",
        },
    )
    assert names(index) == [
        "pkg/kernels.py::__main__",
        "tests/test_b.py::test_near",
        "a/test_far.py::test_far",
        "bench/bench_k.py::bench_it",
        "demo.py::__main__",
        "tests/test_c.py::TestC.test_in_class",
    ]
    by_name = {way.entry.name: way for way in ways(index)}
    assert by_name["test_far"].through == ("deeper", "launch")
    assert not by_name["TestC.test_in_class"].alone
    assert by_name["TestC.test_in_class"].command == (
        "tritonforge trace -- python -m pytest tests/test_c.py::TestC::test_in_class"
    )
    assert ways(index)[4].command == "tritonforge trace -- python demo.py"


def test_a_test_through_a_fixture_is_found_and_left_to_the_test_runner(tmp_path):
    test = "import pytest\nfrom pkg.kernels import launch\n@pytest.fixture\ndef result():\n    return launch(1)\ndef test_it(result):\n    assert result\n"
    index = make(tmp_path, {"pkg/kernels.py": KERNEL + HOST, "tests/test_f.py": test})
    (way,) = ways(index)
    assert (way.entry.name, way.alone) == ("test_it", False)


def test_hidden_folders_environments_and_links_in_a_circle_are_left_out(tmp_path):
    test = "from pkg.kernels import launch\n" + TEST
    index = make(
        tmp_path,
        {
            "pkg/kernels.py": KERNEL + HOST,
            ".hidden/test_a.py": test,
            "node_modules/test_b.py": test,
            "myenv/pyvenv.cfg": "",
            "myenv/lib/test_c.py": test,
            "build/test_d.py": test,
            "tests/test_e.py": test,
        },
    )
    (tmp_path / "tests" / "loop").symlink_to(tmp_path)
    (tmp_path / "tests" / "broken.py").symlink_to("nowhere.py")
    (tmp_path / "tests" / "round.py").symlink_to("round.py")
    (tmp_path / "tests" / "folder.py").mkdir()
    (tmp_path / "tests" / "large.py").write_text("#" * (1 << 20) + "\n")
    os.mkfifo(tmp_path / "tests" / "pipe.py")
    assert names(index) == ["tests/test_e.py::test_it"]
    assert index.files.unreadable == 3
    assert index.files.too_large == 1


def test_a_second_process_reads_only_what_has_changed(tmp_path):
    files = {"pkg/kernels.py": KERNEL + HOST, "tests/test_a.py": "from pkg.kernels import launch\n" + TEST}
    make(tmp_path, files)
    for path in tmp_path.rglob("*.py"):
        os.utime(path, (1, 1))

    def ask():
        with open_store(tmp_path) as store:
            index = WorkspaceIndex(tmp_path, store)
            return names(index), index.files.scanned

    assert ask() == (["tests/test_a.py::test_it"], 2)
    assert ask() == (["tests/test_a.py::test_it"], 0)
    (tmp_path / "tests" / "test_a.py").write_text("from pkg.kernels import launch\ndef test_other():\n    launch(1)\n")
    assert ask() == (["tests/test_a.py::test_other"], 1)
    (tmp_path / "tests" / "test_a.py").unlink()
    assert ask()[0] == []


def test_a_damaged_memory_of_the_index_costs_a_look_and_nothing_else(tmp_path):
    make(tmp_path, {"pkg/kernels.py": KERNEL + HOST, "tests/test_a.py": "from pkg.kernels import launch\n" + TEST})
    for damage in ({"format": 1, "files": {"a.py": 3}}, {"format": 99}, [], {"format": 1, "files": None}):
        with open_store(tmp_path) as store:
            store.put_index(damage)
            assert names(WorkspaceIndex(tmp_path, store)) == ["tests/test_a.py::test_it"]


def test_files_that_somebody_says_have_changed_are_looked_at_without_a_walk(tmp_path):
    index = make(tmp_path, {"pkg/kernels.py": KERNEL + HOST})
    index.changed([])
    assert names(index) == []
    test = tmp_path / "tests" / "test_a.py"
    make(tmp_path, {"tests/test_a.py": "from pkg.kernels import launch\n" + TEST})
    assert names(index) == [], "nobody said so yet"
    index.changed([test, tmp_path / "gone.py", tmp_path / ".git" / "x.py", tmp_path.parent / "outside.py"])
    assert names(index) == ["tests/test_a.py::test_it"]
    shutil.rmtree(test.parent)
    index.changed([test])
    assert names(index) == []


@given(st.binary(max_size=400) | st.text(alphabet="from import.*as(), \n\\#ab:=\t", max_size=200).map(str.encode))
def test_no_content_of_a_file_is_too_odd(data):
    assert all(isinstance(module, str) for module in scan_imports(data))
    outline(data)


def test_a_workspace_of_odd_files_still_answers(tmp_path):
    odd = {
        "bad/null.py": b"from pkg.kernels import launch\n\0\xff\xfe",
        "bad/latin.py": b"# -*- coding: no-such -*-\nfrom pkg.kernels import launch\n",
        "bad/half.py": "from pkg.kernels import launch\ndef test_half(:\n    launch(\n\ndef test_whole():\n    launch(1)\n",
        "bad/deep.py": "from pkg.kernels import launch\nx = launch" + "(" * 5000,
        "bad/empty.py": "",
        "bad/a b;c.py": "from pkg.kernels import launch\ndef test_odd_name():\n    launch(1)\n",
    }
    index = make(tmp_path, {"pkg/kernels.py": KERNEL + HOST, **odd})
    found = ways(index)
    assert {"test_whole", "test_odd_name"} <= {way.entry.name for way in found}
    (quoted,) = [way.command for way in found if way.entry.name == "test_odd_name"]
    assert "'bad/a b;c.py'::test_odd_name" in quoted
