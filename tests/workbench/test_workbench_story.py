"""Stories in a real VS Code workbench: a person opens a folder, trusts it, looks, optimises, applies, undoes, breaks things.

`driver/` tells them once, in a browser, in one workbench that the freshly built package is installed in; each test asserts
what one step showed. Screenshots of every step are left in `test-output/workbench/`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import story_arguments
from story_arguments import CELLS, INSTALLATION, ROOT, SECONDS

pytestmark = [pytest.mark.triton, pytest.mark.timeout(SECONDS + 180)]

SCREENSHOTS = ROOT / "test-output" / "workbench"
MATMUL = (ROOT / "examples" / "matmul.py").read_text()
KERNELS = ["head_norm_kernel", "matmul_kernel", "row_softmax_kernel", "scale_shift_kernel"]


@pytest.fixture(scope="module")
def story(tmp_path_factory, fresh_examples):
    """What each step showed, by its name; a story may have ended early."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not (INSTALLATION / "installed").is_file() or story_arguments.browser() is None:
        pytest.skip(f"no VS Code workbench in {INSTALLATION}: run `make workbench` to install one")
    make = ["make", "vsix", f"PYTHON={sys.executable}"]
    built = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, f"`make vsix` failed:\n{built.stdout}{built.stderr}"
    arguments = story_arguments.arguments(fresh_examples(), tmp_path_factory.mktemp("home"), SCREENSHOTS)
    driver = Path(__file__).parent / "driver" / "main.mjs"
    told = subprocess.run(
        [INSTALLATION / "bin" / "node", driver, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS + 90,
        check=False,
    )
    steps = {}
    for line in told.stdout.splitlines():
        step = json.loads(line)
        steps[step["step"]] = step
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "story.json").write_text(json.dumps(steps, indent=2, ensure_ascii=False), encoding="utf-8")
    return Story(steps, told.stderr)


class Story:
    def __init__(self, steps, stderr):
        self.steps = steps
        self.stderr = stderr

    def __getitem__(self, name):
        if name not in self.steps:
            ended = [f"{step['step']}: {step['error']}" for step in self.steps.values() if "error" in step]
            pytest.fail(f"the story ended before {name!r}. {' '.join(ended)} {self.stderr}")
        step = self.steps[name]
        assert "error" not in step, f"{step['error']} (see test-output/workbench/)"
        return step["result"]


# A folder that is not trusted


def test_the_freshly_built_package_is_installed_in_a_clean_workbench(story):
    assert story["install"]["extensions"] == ["tritonforge.tritonforge@0.1.0"]


def test_in_a_folder_that_is_not_trusted_the_source_is_read_and_nothing_runs(story):
    seen = story["restricted"]
    assert "Restricted Mode: kernels are only analysed" in seen["label"]
    assert "Restricted Mode" in seen["bar"]
    assert seen["lines"] == ["def matmul_kernel(", "acc += tl.dot(a, b)"]
    assert "2 loads" in seen["hover"]
    assert (seen["servers"], seen["workers"]) == (1, [])


def test_a_folder_that_is_not_trusted_offers_nothing_that_would_run_its_code(story):
    seen = story["restricted"]
    assert seen["lenses"] == 0
    assert "TritonForge: Restart Server" in seen["commands"]
    for title in ("Profile Kernel", "Optimize Kernel", "Record Launches", "Run Doctor", "Profile All Kernels"):
        assert not any(title in command for command in seen["commands"])
    assert seen["view"].startswith("Restricted Mode: kernels are only analysed.")
    assert [name for name in KERNELS if name not in seen["view"]] == []


def test_once_the_folder_is_trusted_the_target_and_the_lenses_appear(story):
    assert story["trusted"]["status"] == "TritonForge: offline"
    assert story["trusted"]["lens"].startswith("TritonForge: Profile | Optimize")


# A kernel


def test_what_the_source_alone_shows_is_marked_before_anything_is_run(story):
    assert story["squiggle"]["lines"] == ["def matmul_kernel(", "acc += tl.dot(a, b)"]


def test_a_lens_above_the_kernel_offers_to_profile_and_optimise(story):
    assert story["lens"]["text"].startswith("TritonForge: Profile | Optimize")


def test_hovering_a_kernel_that_was_never_run_says_what_the_source_alone_shows(story):
    assert "2 loads" in story["hover"]["text"]
    assert story["hover"]["tables"] == 0


def test_the_users_code_is_run_only_after_a_question(story):
    assert "Run the main block of matmul.py" in story["ask"]["text"]
    assert story["record"]["unanswered"].startswith("TritonForge: Profile | Optimize"), "nothing was run"


def test_recorded_launches_are_looked_at_in_the_background(story):
    assert "Report" in story["record"]["lens"]


def test_profiling_asks_nothing_any_more_and_shows_where_the_time_goes(story):
    seen = story["profile"]
    assert seen["questions"] == 0
    assert re.match(r"\d[\d.]* [µm]s predicted · \d+ % of roofline · tile-too-small \| Profile", seen["lens"])
    assert [line.partition(" = ")[0] for line in seen["hints"]] == ["a", "b"], "both loads are hot"


def test_optimising_shows_its_steps_with_cancel(story):
    seen = story["progress"]
    assert re.search(r"Cancel Optimize matmul_kernel: \w", seen["text"])
    assert seen["status"].startswith("Optimize matmul_kernel: ")
    assert seen["lens"] == "TritonForge: optimizing … | Cancel"


def test_a_cancelled_search_ends_and_can_be_begun_again(story):
    assert story["cancel"]["status"] == "TritonForge: offline"
    assert "Profile | Optimize | Report" in story["cancel"]["lens"]


def test_a_verified_suggestion_says_how_much_faster_and_that_it_was_predicted(story):
    seen = story["suggestion"]
    assert re.search(r"matmul_kernel: [\d.]+x faster \(predicted\), verified on \d+ inputs", seen["text"])
    assert re.search(r"Apply [\d.]+x \(predicted\) \| Show Diff$", seen["lens"])


def test_the_line_that_holds_the_kernel_back_is_underlined_and_listed_as_a_problem(story):
    assert story["suggestion"]["lines"] == ["acc += tl.dot(a, b)"]
    assert story["suggestion"]["problems"] == "Warnings: 1"


def test_hovering_the_kernel_then_shows_a_table_about_it(story):
    hover = story["hover_after"]
    assert hover["tables"] == 1
    for row in ("Suggestion", "Time", "Roofline", "Bottleneck", "Hot lines", "Resources", "Occupancy", "Launch"):
        assert row in hover["text"]


def test_the_suggestion_is_a_code_action_on_the_kernel(story):
    assert any("faster (predicted, verified on" in title for title in story["code_action"]["titles"])


def test_a_diff_editor_shows_the_suggestion_with_its_numbers_and_buttons(story):
    seen = story["diff"]
    assert re.match(r"matmul\.py · matmul_kernel: [\d.]+x faster \(predicted\), verified on \d+ inputs", seen["tab"])
    assert "BLOCK_M=32, BLOCK_N=32, BLOCK_K=32," in seen["removed"]
    assert any(re.match(r"BLOCK_M=\d+, BLOCK_N=\d+, BLOCK_K=\d+", line) for line in seen["added"])
    assert "BLOCK_M=32, BLOCK_N=32, BLOCK_K=32," not in seen["added"]
    assert [name for name in seen["buttons"] if name.endswith("Suggestion")] == [
        "Apply Suggestion",
        "Discard Suggestion",
    ]


def test_applying_it_there_changes_the_launch_and_its_grid_and_closes_the_diff(story):
    applied = story["apply"]
    assert applied["before"] == MATMUL
    assert "BLOCK_M=32, BLOCK_N=32, BLOCK_K=32" not in applied["after"]
    compile(applied["after"], "matmul.py", "exec")
    assert len(applied["tabs"]) == 1


def test_one_undo_takes_the_whole_suggestion_back(story):
    assert story["undo"]["after"] == MATMUL


# The report


def test_the_report_opens_beside_the_kernel_with_its_charts_listings_and_buttons(story):
    seen = story["report"]
    assert (seen["tab"], seen["title"]) == ("Report: matmul_kernel", "matmul_kernel")
    assert seen["tabs"] == ["TTIR", "TTGIR", "PTX", "SASS"]
    assert seen["figures"] == ["Roofline", "Trials over time"]
    assert re.fullmatch(r"Apply [\d.]+x", seen["buttons"][0])
    assert seen["buttons"][1:] == ["Profile", "Optimize", "Export HTML"]
    assert {"Roofline", "Trials over time", "Findings", "Launches"} <= set(seen["headings"])


def test_a_source_line_marks_its_machine_code_and_is_shown_in_the_editor(story):
    seen = story["report_line"]
    number = MATMUL.splitlines().index("        acc += tl.dot(a, b)") + 1
    assert (seen["number"], seen["shown"]) == (str(number), str(number))
    assert seen["status"] == f"Line {number}: {len(seen['marked'])} rows of SASS"
    assert all("MMA" in row for row in seen["marked"])


@pytest.mark.parametrize("theme", ["light", "contrast", "dark"])
def test_the_report_can_be_read_in_every_kind_of_theme(story, theme):
    seen = story[f"report_{theme}"]
    background, text = (_luminance(seen[name]) for name in ("background", "colour"))
    assert (background > text) == (theme == "light")
    ratio = (max(background, text) + 0.05) / (min(background, text) + 0.05)
    assert ratio >= (7 if theme == "contrast" else 4.5), seen  # WCAG 2.2, 1.4.6 and 1.4.3


def _luminance(colour):
    """The relative luminance of `rgb(…)`, as WCAG 2.2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_report_is_exported_as_one_page_that_loads_nothing(story):
    seen = story["report_export"]
    assert seen["proposed"].endswith("/matmul_kernel-report.html")
    assert "default-src 'none'" in seen["text"]
    assert seen["text"].rstrip().endswith("</html>")


# The Kernels view


def test_a_click_on_the_status_bar_offers_what_can_be_done(story):
    rows = " ".join(story["menu"]["rows"])
    for entry in ("Select Target", "Select Interpreter", "Show Kernels", "Run Doctor", "Restart Server", "Show Output"):
        assert entry in rows


def test_the_kernels_view_lists_all_kernels_with_what_is_known_of_them(story):
    labels = story["kernels"]["labels"]
    assert "row_softmax_kernel, no launch known" in labels
    known = next(label for label in labels if label.startswith("matmul_kernel"))
    assert re.search(
        r"predicted, \d+ % of roofline, tile-too-small, [\d.]+x faster \(predicted\), verified on \d+", known
    )
    assert [name for name in KERNELS if not any(label.startswith(name) for label in labels)] == []


def test_a_kernel_is_profiled_from_its_row(story):
    seen = story["kernels_profile"]
    assert "Run the main block of row_softmax.py to record its launches?" in seen["asked"]
    assert re.search(r"µs predicted · \d+ % of roofline", seen["row"])


def test_a_suggestion_that_is_discarded_beside_its_source_is_gone_and_the_source_is_as_it_was(story):
    seen = story["discard"]
    assert seen["lens"].endswith("Profile | Optimize | Report")
    assert seen["text"] == MATMUL


# A notebook


def test_a_kernel_in_one_cell_that_is_launched_in_another_is_one_kernel(story):
    seen = story["notebook"]
    assert seen["cells"] == len(CELLS)
    assert seen["lens"].startswith("TritonForge: Profile | Optimize")
    assert "1 load, 1 store, 1 launch site" in seen["hover"]


def test_a_notebooks_kernel_is_profiled_after_a_question(story):
    seen = story["notebook_profile"]
    assert "Run the module-level calls of scale.ipynb to record its launches?" in seen["asked"]
    assert re.match(r"[\d.]+ µs predicted · \d+ % of roofline", seen["lens"])


# What goes wrong


def test_a_wrong_key_in_the_file_of_settings_is_said_with_its_line_and_the_mend(story):
    assert "tritonforge.toml:2: unknown key 'ignor'" in story["file_wrong"]["text"]
    assert "Did you mean 'ignore'?" in story["file_wrong"]["text"]
    assert "Optimize" in story["file_wrong"]["lens"]


def test_a_wrong_setting_of_the_editor_is_said_and_its_default_used(story):
    seen = story["settings_wrong"]
    assert "Editor settings: 'seconds' in [limits] must be a number of seconds above 0, not 'soon'." in seen["text"]
    assert "Optimize" in seen["lens"]


def test_a_killed_server_comes_back_with_what_was_known(story):
    assert story["killed"]["status"] == "TritonForge: offline"
    assert re.search(r"predicted · \d+ % of roofline", story["killed"]["lens"])


def test_restarting_the_server_replaces_it_and_keeps_what_was_known(story):
    assert story["restarted"]["servers"] == 1
    assert story["restarted"]["status"] == "TritonForge: offline"
    assert re.search(r"predicted · \d+ % of roofline", story["restarted"]["lens"])


def test_the_extension_sets_up_the_server_it_brings_in_an_environment_of_its_own(story):
    seen = story["own_server"]
    assert "Setting up TritonForge (once)" in seen["text"]
    assert "globalStorage/tritonforge.tritonforge/server/0.1.0-" in seen["command"]
    assert seen["status"] == "TritonForge: offline"
    assert "Optimize" in seen["lens"]


def test_closing_the_workbench_leaves_no_process_behind(story):
    assert story["end"]["left"] == []
