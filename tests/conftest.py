"""What several rooms' tests share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = (
    "test_workbench_story",
    "test_verify_proof",
    "test_lsp_neovim",
    "test_cli_end_to_end",
    "test_tracing_programs",
    "test_optimize_across",
    "test_cli_elsewhere",
    "test_optimize_replay",
    "test_lsp_jobs",
    "test_structural_gate",
)
"""Files whose tests take longest. They come first: left for the end, one of several processes would work on alone."""


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))  # stable: the others stay as they are


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
