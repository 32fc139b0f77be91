"""The classes of the 19 recorded launches as somebody gets them who has nothing but an Nsight Compute report."""

from __future__ import annotations

import lzma

import pytest
from diagnosis_h200 import DATA, LABELS

from tritonforge.analysis import analyze
from tritonforge.domain.profile import Profile

pytest.importorskip("ncu_report", reason="reads a .ncu-rep, which needs NVIDIA's ncu-report")


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profile]:
    from tritonforge.diagnosis.profile_report import Source, profile_report

    report = tmp_path_factory.mktemp("report") / "pathologies.ncu-rep"
    report.write_bytes(lzma.decompress((DATA / "h200" / "pathologies.ncu-rep.xz").read_bytes()))
    path = DATA / "h200" / "pathologies.py"
    text = path.read_text(encoding="utf-8")
    source = Source(str(path), text, analyze(text, "pathologies.py").kernels)
    return dict(zip(LABELS, profile_report(report, [source]).profiles, strict=True))


def test_the_classes_are_right_without_compiling_or_running_anything(profiles: dict[str, Profile]):
    wrong = {name: p.bottleneck for name, p in profiles.items() if p.bottleneck.kind not in LABELS[name]}
    assert len(wrong) <= 3, wrong


def test_a_kernel_that_moves_needless_bytes_at_full_speed_is_not_at_its_roofline(profiles: dict[str, Profile]):
    softmax = profiles["softmax_three_pass"]
    assert softmax.roofline is not None
    assert (softmax.roofline.fraction or 0) > 0.8
    assert softmax.bottleneck.kind == "redundant-traffic"
    assert "TF103" in {f.code for f in softmax.findings}
    assert "TF900" not in {f.code for f in softmax.findings}


def test_every_line_with_samples_has_heat(profiles: dict[str, Profile]):
    for name, profile in profiles.items():
        assert profile.lines_provenance == "measured", name
        assert sum(heat.share for heat in profile.lines.values()) == pytest.approx(1.0), name
