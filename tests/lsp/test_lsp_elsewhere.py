"""A kernel whose only launch is in a test of another file: it is found, offered, run on a click, and kept fresh."""

import subprocess

import pytest

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""
OPS = """\
import torch
import triton

from .kernels import scale_kernel


def scale(x):
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out
"""
TEST = """\
import torch

from pkg import scale


def test_scale():
    scale(torch.randn(1000, device="cuda"))


def test_scale_of_more():
    for n in (4096, 1 << 20):
        scale(torch.randn(n, device="cuda"))
"""
OFFLINE = {"target": "offline"}
ABOUT = {"kernel": "scale_kernel"}


@pytest.fixture
def folder(tmp_path):
    """A package whose kernel is launched by a wrapper in another file, re-exported, and called by a test alone."""
    for name, text in {
        "pkg/__init__.py": "from .ops import scale\n",
        "pkg/kernels.py": KERNELS,
        "pkg/ops.py": OPS,
        "tests/test_ops.py": TEST,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def lenses(client, uri):
    return [lens["command"] for lens in client.lenses(uri)]


def offered(client, uri):
    """The titles of actions at the kernel that would run something."""
    return [a["title"] for a in client.actions(uri, 5) if a["title"].startswith("Run ")]


def test_tests_elsewhere_are_offered_and_nothing_is_run_or_written_by_looking(start, folder):
    client = start(OFFLINE)
    uri = client.open("pkg/kernels.py")
    client.until(lambda: offered(client, uri))
    assert offered(client, uri) == [
        "Run test_scale of tests/test_ops.py to record launches of scale_kernel",
        "Run test_scale_of_more of tests/test_ops.py to record launches of scale_kernel",
    ]
    run = lenses(client, uri)[-1]
    assert run["title"] == "Run test_scale to record launches"
    assert run["arguments"][0] == {"uri": uri, **ABOUT, "file": "tests/test_ops.py", "entry": "test_scale"}
    assert not (folder / ".tritonforge").exists()
    assert not list(folder.rglob("*.pyc"))


def test_a_test_that_is_written_later_is_offered_once_the_client_says_so(start, folder):
    (folder / "tests" / "test_ops.py").unlink()
    client = start(OFFLINE)
    uri = client.open("pkg/kernels.py")
    (registered,) = client.wait(lambda m, _: m == "client/registerCapability")["registrations"]
    assert {"globPattern": "**/*.py"} in registered["registerOptions"]["watchers"]
    client.until(lambda: client.all("workspace/codeLens/refresh"))
    assert offered(client, uri) == []

    def saved(kind):
        change = {"uri": client.uri("tests/test_ops.py"), "type": kind}
        client.notify("workspace/didChangeWatchedFiles", {"changes": [change]})

    (folder / "tests" / "test_ops.py").write_text(TEST)
    saved(1)
    client.until(lambda: offered(client, uri))
    (folder / "tests" / "test_ops.py").unlink()
    saved(3)
    client.until(lambda: not offered(client, uri))


def test_an_untrusted_workspace_is_offered_nothing_to_run(start):
    client = start({"trusted": False})
    uri = client.open("pkg/kernels.py")
    assert offered(client, uri) == []


@pytest.mark.triton
def test_a_click_records_the_test_elsewhere_and_the_kernel_is_profiled_on_it(start, folder):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    client = start(OFFLINE)
    uri = client.open("pkg/kernels.py")
    asked = []

    def answer(params):
        asked.append(params)
        return next((a for a in params["actions"] if a["title"] == "Run"), None)

    client.answers["window/showMessageRequest"] = answer
    outcome = client.outcome(client.command("profileKernel", uri=uri, **ABOUT)["jobId"])
    assert "predicted" in outcome
    (question,) = asked
    assert question["message"] == (
        "No launch of scale_kernel is known. Run test_scale of tests/test_ops.py, which calls scale, to record its launches?"
    )
    assert offered(client, uri) == [], "its launches are known now"

    # A second test is run by its own click: the kernel is then judged on the launches of both.
    more = client.command("recordLaunches", uri=uri, **ABOUT, file="tests/test_ops.py", entry="test_scale_of_more")
    assert client.outcome(more["jobId"]) == "2 launches of scale_kernel recorded"
    client.outcome(client.command("profileKernel", uri=uri, **ABOUT)["jobId"])
    known = client.command("pinLaunch", uri=uri, **ABOUT)["launches"]
    assert [launch["rank"] for launch in known] == [1, 2, 3]
    assert "1048576" in known[0]["text"]
    assert len(asked) == 1, "nothing is asked where launches are known"

    # A pinned launch is what lens and hover show, now and after the next profile.
    client.command("pinLaunch", uri=uri, **ABOUT, launch=known[2]["id"])
    client.until(lambda: client.command("pinLaunch", uri=uri, **ABOUT)["launches"][0]["id"] == known[2]["id"])
    client.outcome(client.command("profileKernel", uri=uri, **ABOUT)["jobId"])
    pinned = client.command("pinLaunch", uri=uri, **ABOUT)["launches"][0]
    assert pinned["id"] == known[2]["id"]
    assert pinned["text"].rpartition(" ")[2] == "n=4096"
    assert "n=4096" in client.hover(uri, 5, 6)
    titles = [a["title"] for a in client.actions(uri, 5)]
    assert f"Pin launch {known[0]['text']} of scale_kernel" in titles

    # The wrapper is edited elsewhere: what was recorded is old, and the user is asked.
    (folder / "pkg" / "ops.py").write_text(OPS.replace("torch.empty_like(x)", "torch.zeros_like(x)"))
    client.outcome(client.command("profileKernel", uri=uri, **ABOUT)["jobId"])
    assert asked[-1]["message"].startswith(
        "The launches of scale_kernel were recorded earlier, and scale of pkg/ops.py changed since. Run test_scale"
    )
    assert [a["title"] for a in asked[-1]["actions"]] == ["Run", "Use the old ones"]


@pytest.mark.triton
def test_an_entry_that_does_not_get_to_the_kernel_is_not_run(start):
    pytest.importorskip("triton", reason="needs torch and triton in this environment")
    client = start(OFFLINE)
    uri = client.open("pkg/kernels.py")
    job = client.command("recordLaunches", uri=uri, **ABOUT, file="pkg/../../evil.py", entry="test_x")["jobId"]
    assert client.outcome(job) == "Failed"
    assert client.messages()[-1].startswith("test_x of pkg/../../evil.py does not run scale_kernel")
