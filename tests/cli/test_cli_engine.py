"""`optimize --engine`: a whole run against a local server that misbehaves, recorded, and replayed without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from scripted_model import ScriptedModel, block, raw, reply, status, truncated

from tritonforge.cli.main import run
from tritonforge.store import open_store

KERNEL = '''\
@triton.jit
def scale_shift_kernel(x_ptr, y_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    """Compute x * scale + y, BLOCK_SIZE elements a program."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale {op} y, mask=mask)


def scale_shift(x, y, scale):
    """Return x * scale + y for two contiguous CUDA tensors of one shape."""
    out = torch.empty_like(x)
    n_elements = out.numel()
    block = {block}
    grid = (triton.cdiv(n_elements, block),)
    {host}scale_shift_kernel[grid](x, y, out, scale, n_elements, BLOCK_SIZE=block)
    return out
'''


def code(block=1024, op="+", host="", title=""):
    return (f"# title: {title}\n" if title else "") + KERNEL.format(block=block, op=op, host=host)


def optimize(capsys, *arguments):
    capsys.readouterr()
    result = run(["optimize", *arguments])
    out, err = capsys.readouterr()
    return result, out, err


@pytest.fixture
def workspace(fresh_examples, monkeypatch):
    folder = fresh_examples()
    monkeypatch.chdir(folder)
    for name in ("TRITONFORGE_LLM_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder


def settings(folder, url, **more):
    lines = "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in more.items())
    (folder / "tritonforge.toml").write_text(f'[llm]\nmodel = "scripted"\nbase-url = "{url}"\n{lines}')


def test_without_a_model_the_engine_says_what_to_name(workspace, capsys):
    result, _, err = optimize(capsys, "scale_shift.py", "--engine", "llm")
    assert result == 2
    assert "No model is named." in err
    assert "TRITONFORGE_LLM_MODEL" in err


def test_a_recording_without_a_model_is_wrong_usage(workspace, capsys):
    result, _, err = optimize(capsys, "scale_shift.py", "--replay-llm", "x.jsonl")
    assert result == 2
    assert "--engine llm" in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "cannot be read"), ("", "is empty"), ("{}\n", ":1 is no exchange"), ("\n{", ":2 is no exchange")],
)
def test_a_recording_that_cannot_be_used_is_named_with_its_line(workspace, capsys, content, sentence):
    if content is not None:
        (workspace / "r.jsonl").write_text(content)
    result, _, err = optimize(capsys, "scale_shift.py", "--engine", "llm", "--replay-llm", "r.jsonl")
    assert result == 2
    assert sentence in err
    assert "Traceback" not in err


def test_without_the_package_one_sentence_says_what_to_install(workspace, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    settings(workspace, "http://127.0.0.1:9/v1")
    result, _, err = optimize(capsys, "scale_shift.py", "--engine", "both")
    assert result == 2
    assert "pip install 'tritonforge[llm]'" in err
    assert err.count("\n") == 1


@pytest.mark.triton
def test_a_model_that_cannot_be_asked_is_an_error_when_nothing_else_was(workspace, capsys):
    pytest.importorskip("triton")
    pytest.importorskip("openai")
    (workspace / "tritonforge.toml").write_text('[llm]\nmodel = "m"\nbase-url = "http://127.0.0.1:9/v1"\nretries = 0\n')
    result, out, err = optimize(capsys, "scale_shift.py", "--target", "offline", "--engine", "llm")
    assert result == 2
    assert "http://127.0.0.1:9/v1: the endpoint cannot be reached" in err
    assert not out


@pytest.mark.triton
def test_a_whole_run_with_everything_that_goes_wrong_is_recorded_and_replays_offline(workspace, capsys, monkeypatch):
    pytest.importorskip("triton")
    pytest.importorskip("openai")
    canary = workspace / "canary"
    script = [
        status(429, {"Retry-After": "0.01"}),
        status(500, {"Retry-After": "0.01"}),
        truncated("a" * 3000),
        raw(b"{broken"),
        reply(""),
        reply("word " * 40_000),
        reply(block(code(host=f"open({str(canary)!r}, 'w')\n    "))),
        reply(block(code(block=1000))),
        reply(block(code(op="-"))),
        reply(block(code(title="larger blocks"))),
        reply("It starts **far too many** programs; see https://example.com/x."),
    ]
    recording = workspace / "recorded.jsonl"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    # Each refused or wrong answer is a round: six of them, after four failures that passed.
    with ScriptedModel(script) as server:
        settings(workspace, server.base_url, max_rounds=6, max_seconds=60, input_price=1.0, output_price=2.0)
        arguments = ("scale_shift.py", "--target", "offline", "--budget", "200", "--engine", "llm", "--format", "json")
        result, out, err = optimize(capsys, *arguments, "--record-llm", str(recording))
    assert result == 0, err
    assert "are sent to scripted at http://127.0.0.1:" in err
    assert not canary.exists()
    (found,) = json.loads(out)["results"]
    reasons = {trial["title"]: trial["reason"] for trial in found["trials"]}
    assert reasons["proposal 1 of scripted"] == "refused before it ran: the answer is empty"
    assert "no fenced Python block" in reasons["proposal 2 of scripted"]
    assert "the proposal uses open" in reasons["proposal 3 of scripted"]
    assert "power of 2" in reasons["scale_shift rewritten (proposal 4 of scripted)"]
    assert reasons["scale_shift_kernel and scale_shift rewritten (proposal 5 of scripted)"].startswith("refused: ")
    assert found["best"]["title"] == "larger blocks (proposal 6 of scripted)"
    assert found["best"]["origin"] == "llm"
    assert found["best"]["verdict"]["accepted"]
    assert {trial["origin"] for trial in found["trials"]} == {"llm"}
    assert "asked 6 times (max-rounds)" in found["stopped_because"]
    exchanges = [json.loads(line) for line in recording.read_text().splitlines()]
    assert [one["question"]["purpose"] for one in exchanges] == ["proposal"] * 6 + ["words"]
    assert exchanges[0]["attempts"] == 5
    told = recording.read_text() + out + err
    assert "sk-test" not in told
    assert str(workspace) not in recording.read_text().replace(str(canary), ""), "no path went out"
    with open_store(workspace) as store:
        kept = store.exchanges_for("scale_shift.py", "scale_shift_kernel")
    assert [one.trial is not None for one in kept[:6]] == [True] * 6
    assert kept[5].trial.verdict.accepted
    assert kept[5].exchange.sent["seed"] == 0
    # Replayed: no server, no key, no network. The same trials come of it.
    monkeypatch.delenv("OPENAI_API_KEY")
    (workspace / "tritonforge.toml").write_text("[llm]\nmax-rounds = 6\n")
    result, out, err = optimize(capsys, *arguments, "--replay-llm", str(recording))
    assert result == 0, err
    assert "are sent to" not in err
    (again,) = json.loads(out)["results"]
    assert [(t["title"], t["accepted"]) for t in again["trials"]] == [
        (t["title"], t["accepted"]) for t in found["trials"]
    ]
    assert again["best"]["edits"] == found["best"]["edits"]


def test_a_launch_spec_is_drafted_shown_and_not_run(workspace, capsys):
    pytest.importorskip("openai")
    text = (workspace / "scale_shift.py").read_text()
    (workspace / "scale_shift.py").write_text(text[: text.index("def test_scale_shift")])
    spec = "x=fp32[n] y=fp32[n] scale=0.5 n=1048577"
    script = [reply("```\nx=fp99[n]\n```"), reply(f"```text\n# tritonforge: launch {spec}\n```")]
    with ScriptedModel(script) as server:
        settings(workspace, server.base_url)
        result, _, err = optimize(capsys, "scale_shift.py", "--target", "offline", "--engine", "both")
    assert result == 4
    assert f"# tritonforge: launch {spec}" in err
    assert "nothing of it was run" in err
    assert "fp99" in server.requests[1].prompt, "what was wrong with the first one went back"
    assert (workspace / "scale_shift.py").read_text() == text[: text.index("def test_scale_shift")]
