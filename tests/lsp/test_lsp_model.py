"""The language model in the editor: asked about once for each workspace and address, and nothing is sent before."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from scripted_model import ScriptedModel, block, reply

from tritonforge.backend.asking import Asking
from tritonforge.config import Settings
from tritonforge.config.settings import LlmSettings
from tritonforge.lsp import model
from tritonforge.lsp.consents import Consents

SPEC = "# tritonforge: launch x=fp32[1048577] y=fp32[1048577] scale=0.5\n"
RIGHT = '''\
# title: larger blocks
@triton.jit
def scale_shift_kernel(x_ptr, y_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    """Compute x * scale + y, BLOCK_SIZE elements a program."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale + y, mask=mask)


def scale_shift(x, y, scale):
    """Return x * scale + y for two contiguous CUDA tensors of one shape."""
    out = torch.empty_like(x)
    n_elements = out.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    scale_shift_kernel[grid](x, y, out, scale, n_elements, BLOCK_SIZE=1024)
    return out
'''
WORDS = "It starts too many programs. [Click](http://evil.example) <b>here</b> to **see**."


class Asked:
    """A client that answers a question as told, and remembers it."""

    def __init__(self, answer):
        self.answer, self.questions = answer, []

    async def ask(self, question, *answers):
        self.questions.append((question, answers))
        return self.answer

    def warn(self, sentence):
        raise AssertionError(sentence)


def state_with(folder, answer, environment, *, trusted=True, url="https://user:secret@models.example/v1"):
    llm = LlmSettings(model="gpt", base_url=url) if url else LlmSettings()
    return SimpleNamespace(
        settings=lambda root: Settings(root, llm=llm),
        options=SimpleNamespace(trusted=trusted),
        consents=Consents(environment),
        client=Asked(answer),
        workspaces=SimpleNamespace(of=lambda root: SimpleNamespace(store=lambda: None)),
    )


def assistant(state, folder):
    snapshot = SimpleNamespace(root=folder, path=folder / "a.py", name="a.py")
    return asyncio.run(model._assistant(state, snapshot, None))


def test_the_question_says_what_is_sent_and_where_and_is_asked_once(tmp_path):
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    state = state_with(tmp_path, model.SEND, environment)
    assert assistant(state, tmp_path) is not None
    ((question, answers),) = state.client.questions
    assert "https://models.example/v1" in question
    assert "secret" not in question
    assert "gpt" in question
    assert answers == (model.SEND, model.NOT_NOW, model.NEVER)
    again = state_with(tmp_path, None, environment)
    assert assistant(again, tmp_path) is not None
    assert not again.client.questions, "another server of the same user knows"
    kept = json.loads((tmp_path / "state" / "tritonforge" / "llm-consent.json").read_text())
    assert kept == {f"{tmp_path} -> https://models.example/v1": True}


def test_another_address_and_another_workspace_are_asked_about_again(tmp_path):
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert assistant(state_with(tmp_path, model.SEND, environment), tmp_path)
    for state, folder in (
        (state_with(tmp_path, None, environment, url="http://127.0.0.1:9/v1"), tmp_path),
        (state_with(tmp_path, None, environment), tmp_path / "other"),
    ):
        assert assistant(state, folder) is None
        assert len(state.client.questions) == 1


@pytest.mark.parametrize(("answer", "kept"), [(model.NOT_NOW, False), (None, False), (model.NEVER, True)])
def test_whoever_does_not_agree_is_not_sent_anything(tmp_path, answer, kept):
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    state = state_with(tmp_path, answer, environment)
    assert assistant(state, tmp_path) is None
    assert assistant(state, tmp_path) is None
    assert len(state.client.questions) == (2 if answer is None else 1)
    later = state_with(tmp_path, model.SEND, environment)
    assert (assistant(later, tmp_path) is None) == kept


def test_two_searches_that_begin_together_ask_once(tmp_path):
    state = state_with(tmp_path, model.SEND, {"XDG_STATE_HOME": str(tmp_path / "state")})
    snapshot = SimpleNamespace(root=tmp_path, path=tmp_path / "a.py", name="a.py")

    async def ask():
        return await asyncio.gather(*(model._agreed(state, snapshot.root, "gpt", "there", None) for _ in range(2)))

    assert asyncio.run(ask()) == [True, True]
    assert len(state.client.questions) == 1


def test_a_search_that_is_cancelled_while_a_model_words_its_result_keeps_it():
    class Slow:
        async def words(self, *_):
            self.asked.set()
            await asyncio.Event().wait()

        async def kept(self, _, result):
            return result

    async def run():
        assistant = Slow()
        assistant.asked = asyncio.Event()
        searching = Asking((), assistant, object())
        task = asyncio.create_task(searching.finished("the result", ""))
        await assistant.asked.wait()
        task.cancel()
        return await task, searching.words

    assert asyncio.run(run()) == ("the result", "")


def test_without_a_model_or_trust_nobody_is_asked(tmp_path):
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    for state in (
        state_with(tmp_path, model.SEND, environment, url=None),
        state_with(tmp_path, model.SEND, environment, trusted=False),
    ):
        assert assistant(state, tmp_path) is None
        assert not state.client.questions


def test_a_damaged_consent_is_none(tmp_path):
    folder = tmp_path / "state" / "tritonforge"
    folder.mkdir(parents=True)
    for damage in ("[", "[]", '{"x": "yes"}'):
        (folder / "llm-consent.json").write_text(damage)
        consents = Consents({"XDG_STATE_HOME": str(tmp_path / "state")})
        assert consents.asked(tmp_path, "http://x") is None


@pytest.mark.triton
def test_a_search_asks_first_then_tries_what_the_model_proposes_and_shows_its_words(
    start, folder, monkeypatch, tmp_path
):
    pytest.importorskip("triton")
    pytest.importorskip("openai")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    text = (folder / "scale_shift.py").read_text().replace("def scale_shift(", SPEC + "def scale_shift(", 1)
    (folder / "scale_shift.py").write_text(text)
    with ScriptedModel([reply(block(RIGHT)), reply(WORDS)]) as server:
        llm = {"model": "scripted", "base-url": server.base_url, "max-rounds": 1}
        client = start({"target": "offline", "settings": {"llm": llm}})
        before = []

        def answer(params):
            if params["message"].startswith("Ask the language model"):
                before.append(len(server.requests))
                return next(a for a in params["actions"] if a["title"] == model.SEND)
            return None

        client.answers["window/showMessageRequest"] = answer
        uri = client.open("scale_shift.py")
        job = client.command("optimizeKernel", uri=uri, kernel="scale_shift_kernel")["jobId"]
        outcome = client.outcome(job)
        assert "faster (predicted)" in outcome
        assert before == [0], "nothing was sent before the answer"
        assert len(server.requests) == 2
        assert "scale_shift_kernel" in server.requests[0].prompt
        line = next(n for n, one in enumerate(text.split("\n")) if one.startswith("def scale_shift_kernel"))
        shown = client.hover(uri, line, 6)
        assert "In a language model's words:* It starts too many programs. Click here to see." in shown
        assert "evil" not in shown
