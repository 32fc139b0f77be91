"""One story in a real Neovim."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton
STORY = Path(__file__).parent / "neovim" / "story.lua"


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed (apt-get install neovim)")
def test_neovim_shows_diagnostics_hovers_optimizes_and_applies(folder, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {STORY}", "matmul.py"],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "TRITONFORGE_PYTHON": sys.executable, "HOME": str(home), "XDG_CACHE_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    original = (Path(__file__).resolve().parents[2] / "examples" / "matmul.py").read_text()
    changed = (folder / "matmul.py").read_text()
    assert changed != original
    assert len(changed.splitlines()) == len(original.splitlines())
    compile(changed, "matmul.py", "exec")
