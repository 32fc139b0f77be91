"""Jobs: from a command to progress, a suggestion and an edit, on a real worker without a GPU."""

import subprocess
import sys
import threading

import pytest
from lsp_client import LspError

pytest.importorskip("triton", reason="needs torch and triton in this environment")
pytestmark = pytest.mark.triton

OFFLINE = {"target": "offline"}


def kernel_at(uri):
    return {"uri": uri, "kernel": "matmul_kernel"}


def answering(client, **titles):
    """Answer each question that begins with a key by the button of that title; others by closing them."""

    def answer(params):
        for start, title in titles.items():
            if params["message"].startswith(start):
                return next(a for a in params["actions"] if a["title"] == title)
        return None

    client.answers["window/showMessageRequest"] = answer


@pytest.fixture(scope="module")
def diffed(fresh_examples):
    """The example matmul as the command line's diff makes it."""
    folder = fresh_examples()
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "optimize", "matmul.py", "--target", "offline", "--diff"],
        cwd=folder, capture_output=True, check=True,
    )  # fmt: skip
    subprocess.run(["git", "apply", "-"], input=done.stdout, cwd=folder, check=True)
    return (folder / "matmul.py").read_text()


def test_optimize_asks_before_it_runs_anything_and_ends_in_the_edit_that_the_command_line_finds(start, diffed):
    client = start(OFFLINE)
    answering(client, No="Run")
    uri = client.open("matmul.py")
    job = client.command("optimizeKernel", **kernel_at(uri))["jobId"]

    begun = client.wait(lambda m, p: m == "$/progress" and p["value"]["kind"] == "begin")
    assert begun == {"token": job, "value": {"kind": "begin", "title": "Optimize matmul_kernel", "cancellable": True}}
    assert [lens["command"]["title"] for lens in client.lenses(uri)] == ["TritonForge: optimizing …", "Cancel"]
    with pytest.raises(LspError, match="under way already"):
        client.command("optimizeKernel", **kernel_at(uri))
    outcome = client.outcome(job)
    assert "faster (predicted), verified on" in outcome

    question, offer = client.all("window/showMessageRequest")
    assert question["message"] == (
        "No launch of matmul_kernel is known. Run the main block of matmul.py to record its launches?"
    )
    assert [a["title"] for a in question["actions"]] == ["Run", "Write a launch spec"]
    assert offer["message"].startswith(f"matmul_kernel: {outcome} (")
    reports = [p["value"] for p in client.all("$/progress") if p["value"]["kind"] == "report"]
    assert any("compile" in r["message"] and 0 <= (r.get("percentage") or 0) <= 100 for r in reports)
    assert client.all("workspace/codeLens/refresh")
    assert client.all("workspace/diagnostic/refresh")

    titles = [lens["command"]["title"] for lens in client.lenses(uri)]
    assert "predicted · " in titles[0]
    assert titles[0].endswith("of roofline · tile-too-small")
    assert titles[3].startswith("Apply ")
    found = client.pull(uri)["items"]
    tile = next(d for d in found if d["code"] == "TF203")
    assert tile["severity"] == 2  # what the compiler confirmed is a warning
    table = client.hover(uri, 11, 8)
    assert "| Bottleneck | tile-too-small: " in table
    assert "| Suggestion | " in table
    assert " registers" in table

    fix, rewrite = client.actions(uri, 32, [tile])[:2]
    assert (fix["kind"], rewrite["kind"]) == ("quickfix", "refactor.rewrite")
    assert "faster (predicted, verified on" in fix["title"]
    assert "edit" not in fix
    client.apply(client.request("codeAction/resolve", rewrite)["edit"])
    assert client.texts[uri] == diffed
    client.pull(uri)
    assert not any(lens["command"]["title"].startswith("Apply") for lens in client.lenses(uri))
    assert client.shut_down() == 0


def test_a_profile_shows_in_lens_hover_and_diagnostics_moves_with_the_code_and_goes_stale_with_it(start):
    client = start(OFFLINE)
    uri = client.open("matmul.py")
    outcome = client.outcome(client.command("profileKernel", allowRun=True, **kernel_at(uri))["jobId"])
    assert "of roofline · tile-too-small" in outcome
    original = client.texts[uri]

    assert client.lenses(uri)[0]["command"] == {"title": outcome, "command": ""}
    table = client.hover(uri, 11, 8)
    for row in ("| Time | **", "| Roofline | ", "| Resources | ", "| Occupancy | ", "| Launch | ", "grid 128×128"):
        assert row in table
    assert "machine instructions (sm_90): " in client.hover(uri, 32, 0)
    before = next(d for d in client.pull(uri)["items"] if d["code"] == "TF203")

    client.change(uri, "# one\n# two 🚀\n" + original)
    moved = next(d for d in client.pull(uri)["items"] if d["code"] == "TF203")
    assert moved["message"] == before["message"]
    assert moved["range"]["start"]["line"] == before["range"]["start"]["line"] + 2

    client.change(uri, original.replace("acc += tl.dot(a, b)", "acc += tl.dot(a, b) * 2"))
    stale = [d for d in client.pull(uri)["items"] if "(stale: found before an edit)" in d["message"]]
    assert all(d["severity"] == 4 for d in stale)
    assert client.lenses(uri)[0]["command"]["title"] == f"{outcome} · stale"

    client.change(uri, original)
    assert next(d for d in client.pull(uri)["items"] if d["code"] == "TF203") == before
    assert client.lenses(uri)[0]["command"]["title"] == outcome


def test_a_suggestion_moves_with_edits_above_and_is_refused_when_the_code_has_changed(start, diffed):
    client = start(OFFLINE)
    pressed = threading.Event()

    def apply_when_pressed(params):
        pressed.wait(100)
        return next(action for action in params["actions"] if action["title"] == "Apply")

    client.answers["window/showMessageRequest"] = apply_when_pressed
    uri = client.open("matmul.py")
    outcome = client.outcome(client.command("optimizeKernel", allowRun=True, **kernel_at(uri))["jobId"])
    assert "verified on" in outcome, (client.messages(), client.log)
    original = client.texts[uri]

    client.change(uri, original.replace("torch.empty((M, N)", "torch.zeros((M, N)"))
    client.command("applySuggestion", **kernel_at(uri))
    said = client.wait(lambda m, p: m == "window/showMessage" and "has changed since" in p["message"])
    assert said["message"].endswith("Run Optimize again.")

    client.change(uri, "# 🚀 above\n" + original)
    version = client.versions[uri]
    client.command("applySuggestion", **kernel_at(uri))
    client.until(lambda: client.versions[uri] > version)
    assert client.texts[uri] == "# 🚀 above\n" + diffed

    client.change(uri, original)
    version = client.versions[uri]
    pressed.set()  # the question that the search ended with is still there
    client.until(lambda: client.versions[uri] > version)
    assert client.texts[uri] == diffed

    client.change(uri, "# 🚀 above\n" + original)
    titles = [a["title"] for a in client.actions(uri, 33)]
    assert any("worst error" in title for title in titles)
    keep = next(a for a in client.actions(uri, 33) if a["title"].startswith("Keep matmul_kernel portable"))
    outcome = client.outcome(client.request("workspace/executeCommand", keep["command"])["jobId"])
    assert outcome.startswith("Applied. Accepted: the same on ")
    text = client.texts[uri]
    assert "\n@triton.autotune(\n    configs=[\n" in text
    assert '{"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}' in text
    assert "BLOCK_M=32" not in text


@pytest.mark.parametrize("how", ["progress", "command"])
def test_a_cancelled_search_ends_at_once_and_the_next_one_works(start, how):
    client = start(OFFLINE)
    uri = client.open("matmul.py")
    job = client.command("optimizeKernel", allowRun=True, **kernel_at(uri))["jobId"]
    client.wait(lambda m, p: m == "$/progress" and "compile" in p["value"].get("message", ""))
    if how == "progress":
        client.notify("window/workDoneProgress/cancel", {"token": job})
    else:
        assert client.command("cancelJob", jobId=job) == {"cancelled": True}
        assert client.command("cancelJob", jobId="nothing") == {"cancelled": False}
    client.outcome(job, timeout=10)
    assert client.lenses(uri)[-1]["command"]["title"] != "Cancel"
    outcome = client.outcome(client.command("profileKernel", **kernel_at(uri))["jobId"])
    assert "predicted" in outcome  # the calls were recorded by the first job: nothing has to be run again


def test_nothing_is_run_when_the_question_is_closed(start):
    client = start(OFFLINE)
    uri = client.open("matmul.py")
    job = client.command("optimizeKernel", **kernel_at(uri))["jobId"]
    assert client.outcome(job) == "Nothing was run"
    assert len(client.processes()) == 1


def test_a_spec_is_compiled_after_a_pause_without_a_question(start, folder):
    client = start(OFFLINE)
    text = (folder / "matmul.py").read_text()
    spec = "# tritonforge: launch a=fp16[1024, 1024] b=fp16[1024, 1024]\ndef matmul("
    uri = client.open("matmul.py", text.replace("def matmul(", spec))
    client.wait(lambda m, p: m == "workspace/diagnostic/refresh")
    assert "predicted" in client.lenses(uri)[0]["command"]["title"]
    assert client.all("window/showMessageRequest") == []
    assert client.all("$/progress") == []


def test_what_is_in_the_buffer_counts_not_what_is_on_disk(start, folder):
    text = (folder / "scale_shift.py").read_text()
    (folder / "scale_shift.py").write_text("raise SystemExit('the file on disk was run')\n")
    client = start(OFFLINE)
    uri = client.open("scale_shift.py", text)
    job = client.command("profileKernel", uri=uri, allowRun=True)["jobId"]
    assert "predicted" in client.outcome(job)


def test_printing_user_code_does_not_reach_the_protocol(start, folder):
    text = (folder / "scale_shift.py").read_text()
    noise = "import os, sys\nprint('Content-Length: 5\\r\\n\\r\\nnoise')\nos.write(1, b'raw noise\\n')\nsys.stderr.write('more')\n"
    future, _, rest = text.partition('"""\n')
    client = start(OFFLINE)
    uri = client.open("scale_shift.py", future + '"""\n' + noise + rest if rest else noise + text)
    job = client.command("recordLaunches", uri=uri)["jobId"]
    assert "recorded" in client.outcome(job)
    assert client.pull(uri)["kind"] == "full"


def test_a_failing_job_says_why_in_one_sentence(start, folder):
    client = start(OFFLINE)
    text = (folder / "matmul.py").read_text()
    uri = client.open("matmul.py", text.replace("torch.manual_seed(0)", "raise ValueError('no data here')"))
    assert client.outcome(client.command("profileKernel", allowRun=True, **kernel_at(uri))["jobId"]) == "Failed"
    (said,) = client.messages()
    assert "no data here" in said
    assert "\n" not in said


def test_a_target_that_does_not_start_is_said_and_can_be_mended(start, folder):
    client = start({"target": "offline", "interpreter": str(folder / "no-python")})
    uri = client.open("matmul.py")
    assert client.outcome(client.command("profileKernel", allowRun=True, **kernel_at(uri))["jobId"]) == "Failed"
    assert "cannot be started" in client.messages()[0]
    client.notify("workspace/didChangeConfiguration", {"settings": {"tritonforge": {"target": "offline"}}})
    assert "predicted" in client.outcome(client.command("profileKernel", allowRun=True, **kernel_at(uri))["jobId"])


def test_jobs_of_two_kernels_wait_for_each_other_and_both_end(start):
    client = start(OFFLINE)
    first, second = client.open("scale_shift.py"), client.open("row_softmax.py")
    jobs = [client.command("profileKernel", uri=uri, allowRun=True)["jobId"] for uri in (first, second)]
    assert jobs[0] != jobs[1]
    assert all("predicted" in client.outcome(job) for job in jobs)


def test_a_candidate_is_judged_as_a_text_or_a_file_and_the_verdict_can_be_asked_for(start, folder):
    client = start(OFFLINE)
    uri = client.open("scale_shift.py")
    text = client.texts[uri]
    about = {"uri": uri, "kernel": "scale_shift_kernel", "allowRun": True}
    for wrong, sentence in (
        ({}, 'Give either "text" or "file"'),
        ({"file": "nowhere.py"}, "nowhere.py cannot be read"),
        ({"text": "x = 1\n"}, "defines no kernel"),
    ):
        with pytest.raises(LspError, match=sentence):
            client.command("verifyCandidate", **about, **wrong)

    (folder / "faster.py").write_text(text.replace("BLOCK = 64", "BLOCK = 128"))
    same = client.command("verifyCandidate", **about, file="faster.py")["jobId"]
    assert client.outcome(same).startswith("Accepted: the same on ")
    verdict = client.command("verifyCandidate", jobId=same)["verdict"]
    assert verdict["accepted"]
    assert verdict["inputs"]

    # As it stands in the editor, not as it was saved.
    other = client.open("faster.py", text.replace("* scale", "* scale * 1.5"))
    wrong = client.command("verifyCandidate", **about, file=other)["jobId"]
    assert client.outcome(wrong).startswith("Refused: ")
    verdict = client.command("verifyCandidate", jobId=wrong)["verdict"]
    assert not verdict["accepted"]
    assert any("Refused" in message for message in client.messages())
    assert client.command("verifyCandidate", jobId="tritonforge-99") == {"verdict": None}
