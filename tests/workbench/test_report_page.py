"""The kernel report in a real browser: clicks, keys and hovers mark what belongs together; nothing else is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import story_arguments
from story_arguments import INSTALLATION

pytestmark = pytest.mark.timeout(120)

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a person saw who read the report of the samples."""
    browser = story_arguments.browser()
    if not (INSTALLATION / "installed").is_file() or browser is None:
        pytest.skip(f"no browser driver in {INSTALLATION}: run `make workbench` to install one")
    sys.path.insert(0, str(HERE.parent / "report"))
    try:
        import test_report_kernel as samples
    finally:
        sys.path.pop(0)
    page = tmp_path_factory.mktemp("page") / "report.html"
    page.write_text(samples.page(samples.searched()), encoding="utf-8")
    arguments = {"installation": str(INSTALLATION), "chromium": browser, "page": str(page)}
    told = subprocess.run(
        [INSTALLATION / "bin" / "node", HERE / "driver" / "report_page.mjs", json.dumps(arguments)],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_the_page_runs_under_its_own_policy_and_asks_for_nothing(seen):
    assert seen["problems"] == []
    assert seen["actions"] == 0, "buttons are for an editor"


def test_a_source_line_marks_its_rows_and_the_keys_move_on(seen):
    assert seen["hint"].startswith("Choose a line on either side")
    assert seen["click"] == {"status": "Line 13: 1 row of TTIR", "focused": "13", "marked": ["  %acc = tt.dot %a, %b"]}
    assert seen["up"] == {"status": "Line 12: nothing of TTIR", "focused": "12"}
    assert seen["end"] == "14"


def test_listings_are_tabs_of_which_one_is_shown(seen):
    assert seen["tabs"] == ["TTIR", "SASS"]
    assert seen["tab"] == {"focused": "SASS", "panels": 1}


def test_arrows_go_over_to_the_listing_and_back(seen):
    assert seen["crossed"] == {"focused": "13 10", "marked": ["0010  HMMA R4, R2, R8"]}
    assert seen["back"] == "13"


def test_a_row_marks_its_source_line_and_hovering_shows_what_belongs_to_a_line(seen):
    assert seen["row"]["status"].startswith("Line 11: 1 row of SASS")
    assert len(seen["row"]["source"]) == 1
    assert "tl.load(a_ptr + k" in seen["row"]["source"][0]
    assert seen["hover"] == ["0010  HMMA R4, R2, R8"]


def test_a_list_chooses_the_launch_and_a_finding_leads_to_its_line(seen):
    assert seen["launches"] == [True, False]
    assert seen["link"] == "13"
