"""The real `openai` client against a local server that misbehaves: every answer is read or refused, and nothing hangs."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from scripted_model import (
    ScriptedModel,
    cut_off,
    disconnect,
    dripping,
    endless,
    events_of,
    hang,
    raw,
    reply,
    status,
    truncated,
)

from tritonforge.config import LlmSettings
from tritonforge.domain.exchange import Question
from tritonforge.rewrite.llm.client import OpenAiTransport, plain_endpoint
from tritonforge.rewrite.llm.transport import ModelUnavailable

pytest.importorskip("openai")

QUESTION = Question("proposal", "kernel", "Be fast.", "Here is a kernel.", 512)
KEY = "sk-test-0123456789abcdef"
WHOLE = "a" * 3000 + "z"


def ask(script, *, question=QUESTION, environment=None, said=None, pauses=None, **settings):
    """Put one question to a scripted server; returns the exchange and the server."""
    given = {"model": "m", "timeout": 20.0, "retries": 2, **settings}

    async def pause(seconds):
        if pauses is not None:
            pauses.append(seconds)

    async def go():
        with ScriptedModel(script) as server:
            chosen = LlmSettings(**{"base_url": server.base_url, **given})
            transport = OpenAiTransport(chosen, environment=environment or {"OPENAI_API_KEY": KEY}, pause=pause)
            try:
                say = said.append if said is not None else lambda _: None
                return await transport.ask(question, say=say), server
            finally:
                await transport.close()

    return asyncio.run(go())


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("structured", [True, False])
def test_both_apis_answer_streamed_and_whole_with_and_without_structure(api, stream, structured):
    exchange, server = ask([reply(WHOLE)], api=api, stream=stream, structured_output=structured)
    assert exchange.answer.text == WHOLE
    assert exchange.answer.finish == "stop"
    assert (exchange.answer.usage.prompt_tokens, exchange.answer.usage.estimated) == (1000, False)
    (request,) = server.requests
    assert request.path == ("/v1/responses" if api == "responses" else "/v1/chat/completions")
    sent = request.body
    assert sent["temperature"] == 0.0
    assert sent.get("seed") == (0 if api == "chat" else None)
    shape = sent.get("response_format") or sent.get("text", {}).get("format")
    assert (shape is not None) == structured
    assert exchange.sent == {
        "temperature": 0.0,
        "seed": 0 if api == "chat" else None,
        "stream": stream,
        "structured": structured,
    }
    assert (exchange.api, exchange.model, exchange.attempts) == (api, "m", 1)


def test_an_answer_that_was_cut_off_says_so():
    for api in ("chat", "responses"):
        exchange, _ = ask([reply("half", finish="length")], api=api)
        assert (exchange.answer.text, exchange.answer.finish) == ("half", "length")


def test_without_a_count_tokens_are_estimated_and_said_to_be():
    exchange, _ = ask([reply(WHOLE, usage=False)])
    assert exchange.answer.usage.estimated
    assert exchange.answer.usage.answer_tokens >= len(WHOLE) / 4


@pytest.mark.parametrize(
    "bad",
    [status(429), status(500), status(503), status(408), truncated(WHOLE), disconnect(), raw(b"{"), raw(b"[1]"),
     raw(b"data: {broken\n\n", "text/event-stream"), raw(b"", "text/event-stream"), raw(b"\xff\xfe\x00", "text/event-stream"),
     cut_off(b'{"choices": ['), raw(json.dumps({"error": {"message": "overloaded"}}).encode())],
    ids=["429", "500", "503", "408", "truncated stream", "disconnect", "invalid json", "no object", "broken event",
         "empty stream", "bytes", "cut off", "error in the body"],
)  # fmt: skip
def test_what_passes_is_tried_again(bad):
    said, pauses = [], []
    exchange, server = ask([bad, bad, reply(WHOLE)], said=said, pauses=pauses)
    assert exchange.answer.text == WHOLE
    assert exchange.attempts == len(server.requests) == 3
    assert len(pauses) == 2
    assert 0.3 < pauses[0] <= 0.5 < pauses[1] <= 1.0
    assert any("asking again" in line for line in said)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (status(429), "answered 429"),
        (status(500), "answered 500"),
        (truncated(WHOLE), "broke off"),
        (raw(b"{"), "no JSON"),
        (raw(b'{"choices": []}'), "broke off"),
    ],
)
def test_what_does_not_pass_is_given_up_with_the_reason(bad, reason):
    exchange, server = ask([bad])
    assert exchange.answer is None
    assert reason in exchange.error
    assert len(server.requests) == 3


def test_retry_after_is_honoured():
    pauses = []
    exchange, _ = ask([status(429, {"Retry-After": "7"}), reply("x")], pauses=pauses)
    assert exchange.answer.text == "x"
    assert pauses == [7.0]
    exchange, server = ask([status(429, {"Retry-After": "86400"}), reply("x")])
    assert "asks to wait 86400 s" in exchange.error
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", [hang(), dripping()], ids=["silence", "a letter now and then"])
def test_an_answer_that_does_not_end_is_given_up_in_time(behaviour):
    started = time.monotonic()
    exchange, _ = ask([behaviour], timeout=0.4, retries=0)
    assert "within 0.4 s" in exchange.error
    assert time.monotonic() - started < 30


def test_an_endless_answer_is_cut():
    exchange, _ = ask([endless()])
    assert exchange.answer.finish == "length"
    assert len(exchange.answer.text) == 1_000_000


def test_a_cancellation_ends_the_wait_within_a_second():
    async def go():
        with ScriptedModel([hang()]) as server:
            transport = OpenAiTransport(LlmSettings(model="m", base_url=server.base_url), environment={})
            task = asyncio.create_task(transport.ask(QUESTION))
            while not server.requests:  # noqa: ASYNC110 - the server lives in a thread
                await asyncio.sleep(0.01)
            task.cancel()
            _, pending = await asyncio.wait([task], timeout=1.0)
            await transport.close()
            return task, pending

    task, pending = asyncio.run(go())
    assert not pending
    assert task.cancelled()


def test_a_parameter_that_an_endpoint_does_not_take_is_left_out_and_recorded_as_not_sent():
    def refusing(name):
        return status(400, error={"message": f"Unsupported parameter: '{name}'", "param": name, "code": "unsupported"})

    script = [refusing("temperature"), refusing("max_tokens"), refusing("seed"), reply("x"), reply("y")]
    exchange, server = ask(script)
    assert exchange.answer.text == "x"
    assert exchange.sent["temperature"] is None
    assert exchange.sent["seed"] is None
    assert exchange.attempts == 1
    assert "max_completion_tokens" in server.requests[-1].body
    assert not {"temperature", "seed", "max_tokens"} & set(server.requests[-1].body)


def test_an_endpoint_that_knows_one_api_only_is_asked_through_that():
    exchange, server = ask([status(404), reply("x")], api="auto")
    assert exchange.answer.text == "x"
    assert [request.path for request in server.requests] == ["/v1/chat/completions", "/v1/responses"]
    assert exchange.api == "responses"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (status(401, error={"message": f"Incorrect API key provided: {KEY}"}), "the key was refused"),
        (status(403), "the key was refused"),
        (status(404, error={"message": "no model m", "code": "model_not_found"}), "Check model"),
        (status(400, error={"message": "maximum context length is 2048", "code": "context_length_exceeded"}), "context-tokens"),
        (status(429, error={"message": "no credit", "code": "insufficient_quota"}), "no credit left"),
        (status(302, {"Location": "http://127.0.0.1:1/"}), "cannot be reached"),
    ],
)  # fmt: skip
def test_what_will_not_change_ends_the_asking_with_the_mend(answer, sentence):
    with pytest.raises(ModelUnavailable) as failed:
        ask([answer], retries=0)
    assert sentence in str(failed.value)


def test_a_server_that_is_not_there_ends_the_asking():
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        ask([reply("x")], base_url="http://127.0.0.1:9/v1", retries=1)


def test_secrets_are_in_no_message_no_exception_and_no_record():
    secret = "hunter2-hunter2"
    environment = {"OPENAI_API_KEY": KEY, "TRITONFORGE_LLM_GATEWAY": secret}
    echo = status(401, error={"message": f"bad key {KEY} with {secret} and Bearer {KEY}"})
    for behaviour in (echo, status(400, error={"message": f"bad {KEY} {secret}"}), raw(json.dumps({"error": {"message": f"{KEY} {secret}"}}).encode())):  # fmt: skip
        shown = []
        try:
            exchange, server = ask(
                [behaviour], environment=environment, said=shown, headers={"X-Gateway": "env:TRITONFORGE_LLM_GATEWAY"}
            )
            shown += [repr(exchange), exchange.error]
            assert server.requests[0].headers["x-gateway"] == secret
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        except ModelUnavailable as error:
            shown += ["".join(traceback.format_exception(error)), repr(error)]
        assert shown
        assert not any(one in text for text in shown for one in (KEY, secret)), shown


def test_headers_of_organisation_and_project_go_along():
    _, server = ask([reply("x")], organization="org", project="proj")
    headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org", "proj")


def test_a_proxy_is_used():
    with ScriptedModel([reply("by proxy")]) as proxy:
        address = proxy.base_url.removesuffix("/v1")
        exchange, server = ask([reply("direct")], proxy=address, base_url="http://model.invalid/v1")
    assert exchange.answer.text == "by proxy"
    assert not server.requests
    assert proxy.requests[0].path.startswith("http://model.invalid/v1")


def test_the_environments_proxy_is_used(monkeypatch):
    with ScriptedModel([reply("by proxy")]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        exchange, _ = ask([reply("direct")], base_url="http://model.invalid/v1")
    assert exchange.answer.text == "by proxy"


def test_the_key_comes_from_the_keyring_where_the_environment_has_none(monkeypatch):
    import keyring

    asked = []
    monkeypatch.setattr(keyring, "get_password", lambda service, name: asked.append((service, name)) or "from-the-ring")
    _, server = ask([reply("x")], environment={"PATH": ""})
    assert server.requests[0].headers["authorization"] == "Bearer from-the-ring"
    assert asked == [("tritonforge", asked[0][1])]
    assert asked[0][1].startswith("http://127.0.0.1:")


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'tritonforge\[llm\]'"):
        ask([reply("x")])


def test_the_address_that_people_see_holds_no_password():
    settings = LlmSettings(model="m", base_url="https://alice:secret@host.example:8443/v1/?key=abc")
    assert plain_endpoint(settings) == "https://host.example:8443/v1"


def test_a_refusal_of_the_model_is_told_from_silence():
    event = {"choices": [{"index": 0, "delta": {"refusal": "I cannot"}, "finish_reason": "stop"}]}
    body = b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"
    exchange, _ = ask([raw(body, "text/event-stream")])
    assert exchange.answer.finish == "refusal"


def test_events_of_the_script_are_what_is_read(tmp_path):
    # The server's own events, so that a test of reading them says something.
    class Request:
        path = "/v1/chat/completions"

    assert sum("usage" in event for event in events_of(Request, "x")) == 1
