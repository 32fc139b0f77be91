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
from tritonforge.domain.errors import UsageError
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
        (status(302, {"Location": "http://127.0.0.1:1/"}), "redirects to another address"),
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


def answering(code, body, headers=None, kind="application/json"):
    return lambda handler, _: handler.send(code, body, headers, kind)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirect_takes_code_or_a_header_to_another_address(code):
    with ScriptedModel([reply("stolen")]) as elsewhere:
        moved = answering(code, b"", {"Location": f"{elsewhere.base_url}/chat/completions"})
        with pytest.raises(ModelUnavailable, match="redirects to another address, which nobody has agreed to"):
            ask([moved], retries=0, headers={"X-Key": "secret-of-a-gateway"})
        assert elsewhere.requests == []


@pytest.mark.parametrize("purpose", ["spec", "words"])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_only_a_proposal_is_structured_and_only_it_is_recorded_so(purpose, api):
    question = Question(purpose, "kernel", "Be fast.", "Here is a kernel.", 512)
    exchange, server = ask([reply("words")], question=question, structured_output=True, api=api)
    assert exchange.sent["structured"] is False
    assert not {"response_format", "text"} & server.requests[0].body.keys()


def test_a_broken_body_of_an_error_is_one_failure_and_no_crash():
    for bad in (answering(500, b"no gzip", {"Content-Encoding": "gzip"}), error_cut_off):
        exchange, server = ask([bad], retries=1, pauses=[])
        assert exchange.error.startswith("the connection broke off (")
        assert len(server.requests) == 2


def error_cut_off(handler, _):
    handler.send_response(500)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")
    handler.close_connection = True


def error_without_end(handler, _):
    handler.send_response(500)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    while not handler.model.stopped.is_set():
        handler.wfile.write(b"x" * 20_000)


def test_an_error_that_never_ends_is_read_no_further():
    exchange, _ = ask([error_without_end], retries=0, timeout=60.0)
    assert exchange.error == "the endpoint answered 500"


def test_nothing_is_asked_to_be_packed_and_what_unpacks_to_too_much_is_left(monkeypatch):
    import gzip

    body = json.dumps({"choices": [{"message": {"content": "y" * 9_000_000}, "finish_reason": "stop"}]}).encode()
    exchange, server = ask([answering(200, gzip.compress(body), {"Content-Encoding": "gzip"})], retries=0)
    assert exchange.error == "the answer has more than 8,000,000 bytes"
    assert server.requests[0].headers["accept-encoding"] == "identity"
    unknown = answering(200, b"packed", {"Content-Encoding": "zstd"})
    assert ask([unknown], retries=0)[0].error == "the endpoint's answer is no JSON"


def test_an_endpoints_words_steer_no_terminal_and_its_numbers_no_limit():
    exchange, _ = ask([status(400, error={"message": "\x1b]0;owned\x07 no\n::error::x \u202e"})], retries=0)
    assert exchange.error == "the endpoint answered 400: ]0;owned no ::error::x"
    usage = {"prompt_tokens": 10**300, "completion_tokens": True}
    choice = {"message": {"content": "x"}, "finish_reason": "\x1b[31m" + "stop" * 100}
    exchange, _ = ask([answering(200, json.dumps({"choices": [choice], "usage": usage}).encode())], retries=0)
    assert exchange.answer.usage.estimated
    assert exchange.answer.finish.isprintable()
    assert len(exchange.answer.finish) <= 40


def test_a_character_that_is_cut_in_the_middle_is_put_together_and_one_that_breaks_off_is_no_answer():
    event = 'data: {"choices":[{"delta":{"content":"é€😀"},"finish_reason":"stop"}]}\n\n'.encode()

    def by_byte(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        for at in range(len(event)):
            handler.wfile.write(event[at : at + 1])
            handler.wfile.flush()

    assert ask([by_byte], retries=0)[0].answer.text == "é€😀"
    cut = answering(200, event[: event.index("😀".encode()) + 2], None, "text/event-stream")
    assert ask([cut], retries=0)[0].answer is None


@pytest.mark.parametrize(
    "address", ["http://[::1", "http://h:99999/v1", "http://\x1b[31m/", "ftp://h/v1", "https://", "http://u:pw@[::1"]
)
def test_an_address_that_is_none_is_one_sentence_without_it(address):
    settings = LlmSettings(model="m", base_url=address)
    with pytest.raises(UsageError) as caught:
        OpenAiTransport(settings, environment={})
    assert str(caught.value).startswith("The model's address is none. Set base-url in [llm]")
    assert plain_endpoint(settings) == ""
