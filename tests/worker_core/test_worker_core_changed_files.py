"""A lane that has loaded a program notices that a file it imported has changed since."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="needs torch and triton in this environment")

from tritonforge.domain.messages import Program
from tritonforge.worker.loading import load

pytestmark = pytest.mark.triton


def test_a_program_is_loaded_anew_when_a_file_that_it_imports_has_changed(tmp_path):
    (tmp_path / "changed_sizes.py").write_text("SIZE = 1\n")
    (tmp_path / "changed_main.py").write_text("from changed_sizes import SIZE\n")
    program = Program(str(tmp_path), "changed_main.py")
    first = load(program)
    assert first.module.SIZE == 1
    assert load(program) is first
    (tmp_path / "changed_sizes.py").write_text("SIZE = 20\n")
    assert load(program).module.SIZE == 20


def test_a_test_imports_the_project_from_the_root_or_its_source_folder(tmp_path):
    for name, text in {
        "src/changed_pkg/__init__.py": "HERE = 'src'\n",
        "changed_top.py": "HERE = 'root'\n",
        "tests/deep/test_changed.py": "import changed_pkg, changed_top\nSEEN = changed_pkg.HERE, changed_top.HERE\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert load(Program(str(tmp_path), "tests/deep/test_changed.py")).module.SEEN == ("src", "root")
