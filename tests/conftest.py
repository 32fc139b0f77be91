"""What several rooms' tests share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def fresh_examples(tmp_path_factory):
    """Return what makes a git repository with the examples, as a user would have them.

    It is made anew at one path each time: compiled kernels are cached by the path of their file, so only the first test
    that optimises an example pays for its compilations.
    """

    def make() -> Path:
        folder = tmp_path_factory.getbasetemp() / "shared" / "examples"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in (ROOT / "examples").glob("*.py"):
            shutil.copy(file, folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        return folder

    return make
