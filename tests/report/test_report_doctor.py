"""What doctor says of upgrades that a target lacks."""

from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import DoctorCheck, DoctorResult
from tritonforge.report.json_doctor import doctor_json
from tritonforge.report.text_doctor import doctor_text

TARGET = TargetInfo("lab", "gpu", "NVIDIA H200", "580", "2.11", "3.6")
WORKER = DoctorCheck("worker", ok=True, detail="Python 3.12")
NO_COUNTERS = DoctorCheck(
    "hardware counters", ok=False, detail="Only administrators may read them.", mend="Run as root.", optional=True
)


def text(*checks):
    return "\n".join("".join(span.text for span in line.spans) for line in doctor_text(DoctorResult(TARGET, checks)))


def test_a_missing_upgrade_is_no_failure_and_shows_its_mend():
    assert DoctorResult(TARGET, (WORKER, NO_COUNTERS)).ok
    said = text(WORKER, NO_COUNTERS)
    assert "– hardware counters" in said
    assert "→ Run as root." in said
    assert said.endswith("All that is needed works; 1 upgrade missing (–).")


def test_what_is_needed_still_fails_beside_a_missing_upgrade():
    broken = DoctorCheck("times", ok=False, detail="nothing was timed", mend="Try again.")
    assert not DoctorResult(TARGET, (WORKER, NO_COUNTERS, broken)).ok
    assert text(WORKER, NO_COUNTERS, broken).endswith("1 of 3 checks failed.")


def test_the_json_tells_upgrades_apart():
    found = doctor_json(DoctorResult(TARGET, (WORKER, NO_COUNTERS)))
    assert [check["optional"] for check in found["checks"]] == [False, True]
