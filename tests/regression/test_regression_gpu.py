"""`check` on a real GPU: nothing is said of an unchanged kernel, and a slower wrapper is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tritonforge.cli.main import run

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
ROOT = Path(__file__).parents[2]


def checked(capsys, *arguments):
    code = run(["check", "--target", "local", "--format", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_an_unchanged_kernel_is_ok_and_a_slower_wrapper_has_regressed(tmp_path, monkeypatch, capsys):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    file = tmp_path / "softmax.py"
    shutil.copy(ROOT / "examples" / "row_softmax.py", file)
    monkeypatch.chdir(tmp_path)
    assert run(["check", "softmax.py", "--update", "--target", "local"]) == 0
    capsys.readouterr()
    (entry,) = json.loads((tmp_path / ".tritonforge" / "baseline.json").read_text())["kernels"][0]["entries"]
    assert len(entry["time_us"]["runs"]) >= 5
    assert entry["gpu"] == torch.cuda.get_device_name()
    code, report = checked(capsys)
    assert (code, report["compared"], report["results"][0]["status"]) == (0, "measured", "ok")
    file.write_text(file.read_text().replace("block=128", "block=32"))
    code, report = checked(capsys, "--no-gate")
    (found,) = report["results"]
    assert (code, found["status"]) == (1, "regressed")
    assert found["changes"]["config.BLOCK"] == [128, 32]
    assert "side by side" in found["reasons"][0]
    assert found["ratio_ci95"][0] > 1.03
