"""One story in a real VS Code workbench: a person opens the example, looks, optimises, applies and undoes.

`driver/` tells it once, in a browser; each test asserts what one step showed. Screenshots of every step are left in
`test-output/workbench/`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.triton, pytest.mark.timeout(330)]

ROOT = Path(__file__).parents[2]
VSIX = ROOT / "vscode-extension" / "tritonforge-0.1.0.vsix"
INSTALLATION = Path(
    os.environ.get("TRITONFORGE_WORKBENCH") or Path.home() / ".cache" / "tritonforge" / "workbench"
).expanduser()
# The environment of this test has the server already: making the extension's own is tested by itself.
MACHINE_SETTINGS = {"tritonforge.interpreter": sys.executable, "tritonforge.importStrategy": "fromEnvironment"}
USER_SETTINGS = {
    "tritonforge.target": "offline",
    # A clean picture, and nothing that talks to the network.
    "editor.hover.above": False,
    "editor.minimap.enabled": False,
    "editor.unicodeHighlight.ambiguousCharacters": False,
    "editor.occurrencesHighlight": "off",
    "files.autoSave": "off",
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "workbench.activityBar.location": "hidden",
    "workbench.colorTheme": "Default Dark Modern",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "chat.commandCenter.enabled": False,
    "chat.disableAIFeatures": True,
    "git.enabled": False,
}


def browser():
    named = os.environ.get("TRITONFORGE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def story(tmp_path_factory, fresh_examples):
    """What each step showed, by its name; the story may have ended early."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not (INSTALLATION / "installed").is_file() or browser() is None:
        pytest.skip(f"no VS Code workbench in {INSTALLATION}: run `make workbench` to install one")
    make = ["make", "vsix", f"PYTHON={sys.executable}"]
    built = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, f"`make vsix` failed:\n{built.stdout}{built.stderr}"
    folder = fresh_examples()
    arguments = {
        "installation": str(INSTALLATION),
        "chromium": browser(),
        "home": str(tmp_path_factory.mktemp("home")),
        "vsix": str(VSIX),
        "settings": {"machine": MACHINE_SETTINGS, "user": USER_SETTINGS},
        "folder": str(folder),
        "file": "matmul.py",
        "screenshots": str(ROOT / "test-output" / "workbench"),
    }
    driver = Path(__file__).parent / "driver" / "main.mjs"
    told = subprocess.run(
        [INSTALLATION / "bin" / "node", driver, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    steps = {}
    for line in told.stdout.splitlines():
        step = json.loads(line)
        steps[step["step"]] = step
    (ROOT / "test-output" / "workbench" / "story.json").write_text(json.dumps(steps, indent=2, ensure_ascii=False))
    return Story(steps, told.stderr)


class Story:
    def __init__(self, steps, stderr):
        self.steps = steps
        self.stderr = stderr

    def __getitem__(self, name):
        if name not in self.steps:
            last = list(self.steps.values())[-1:]
            pytest.fail(f"the story ended before {name!r}: {last} {self.stderr}")
        step = self.steps[name]
        assert "error" not in step, f"{step['error']} (see test-output/workbench/)"
        return step["result"]


def test_the_freshly_built_extension_starts_the_server_and_shows_the_target(story):
    assert story["start"]["states"][-1] == "TritonForge: offline"


def test_what_the_source_alone_shows_is_marked_before_anything_is_run(story):
    assert any(line.startswith(("def matmul_kernel", "acc += tl.dot")) for line in story["squiggle"]["lines"])


def test_a_lens_above_the_kernel_offers_to_profile_and_optimise(story):
    text = story["lens"]["text"]
    assert "Profile" in text
    assert "Optimize" in text


def test_hovering_a_kernel_that_was_never_run_says_what_the_source_alone_shows(story):
    assert "2 loads" in story["hover"]["text"]


def test_the_users_code_is_run_only_after_a_question(story):
    assert "Run the main block of matmul.py" in story["ask"]["text"]


def test_optimising_shows_its_steps_with_cancel(story):
    progress = story["progress"]
    assert progress["cancel"]
    assert "matmul_kernel" in progress["status"]


def test_a_verified_suggestion_says_how_much_faster_and_that_it_was_predicted(story):
    suggestion = story["suggestion"]
    assert "predicted" in suggestion["text"]
    assert "Apply" in suggestion["lens"]


def test_the_line_that_holds_the_kernel_back_is_underlined_and_listed_as_a_problem(story):
    assert story["suggestion"]["lines"] == ["acc += tl.dot(a, b)"]
    assert story["suggestion"]["problems"] == "Warnings: 1"


def test_hovering_the_kernel_then_shows_a_table_about_it(story):
    hover = story["hover_after"]
    assert hover["tables"] >= 1
    assert "predicted" in hover["text"]


def test_the_suggestion_is_a_code_action_on_the_kernel(story):
    assert any("faster (predicted, verified on" in title for title in story["code_action"]["titles"])


def test_applying_changes_the_launch_and_its_grid(story):
    applied = story["apply"]
    assert applied["before"] == (ROOT / "examples" / "matmul.py").read_text()
    assert "BLOCK_M=32, BLOCK_N=32, BLOCK_K=32" not in applied["after"]
    compile(applied["after"], "matmul.py", "exec")


def test_one_undo_takes_the_whole_suggestion_back(story):
    assert story["undo"]["after"] == (ROOT / "examples" / "matmul.py").read_text()
