"""Specs, plain words, recordings, secrets and limits: the smaller parts around the same client."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json

import pytest
from llm_case import FILE, TEXT, Listed, faster, kernel_of, task, trial

from tritonforge.analysis import analyze
from tritonforge.config import LlmSettings, load
from tritonforge.domain.candidate import Suggestion
from tritonforge.domain.errors import UsageError
from tritonforge.domain.exchange import Answer, Exchange, Question, Usage
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.results import OptimizeResult
from tritonforge.rewrite.llm.assistant import Assistant, open_assistant
from tritonforge.rewrite.llm.engine import LlmEngine
from tritonforge.rewrite.llm.recording import Recorded, Recorder, line_of, read_recording
from tritonforge.rewrite.llm.secrets import Redactor, header_values, looks_secret_hidden
from tritonforge.rewrite.llm.specs import read_spec
from tritonforge.rewrite.llm.transport import ModelUnavailable
from tritonforge.rewrite.llm.waiting import backoff, retry_after
from tritonforge.rewrite.llm.words import MOST_WORDS, plain_words
from tritonforge.store import open_store
from tritonforge.workload.drafting import first_spec

SETTINGS = LlmSettings(model="listed")


def assistant(answers, root, store=None, settings=SETTINGS):
    transport = Listed(answers)
    return Assistant(settings, transport, root, store), transport


def draft(answers, tmp_path):
    helper, transport = assistant(answers, tmp_path)
    analysis = analyze(TEXT, FILE)
    return asyncio.run(helper.draft(TEXT, kernel_of(), analysis)), transport, first_spec(kernel_of(), analysis)


def test_a_drafted_spec_is_parsed_and_belongs_where_the_rule_made_one_does(tmp_path):
    made, transport, rule = draft(
        ["Sure:\n```\n# tritonforge: launch x=fp16[M, 4096]\n#   by=2.0 M=128\n```"], tmp_path
    )
    assert made.text == "x=fp16[M, 4096] by=2.0 M=128"
    assert (made.function, made.line, made.subject) == (rule.function, rule.line, rule.subject)
    assert made.comment().startswith("# tritonforge: launch x=fp16[M, 4096]")
    (question,) = transport.questions
    assert (question.purpose, question.about) == ("spec", "scale_kernel")
    for private in ("/home", "billing", "API_TOKEN", "sk-live", "kernels.py"):
        assert private not in question.prompt
    assert rule.text in question.prompt


@pytest.mark.parametrize(
    "bad",
    ["", "no block\nat all", "```\nx=fp16[\n```", "```\nx=nonsense[4] by=1\n```", "```\nx=fp16[1000000, 1000000] by=1.0\n```",
     "```\na\n```\n```\nb\n```", "```\nx=fp16[4] by=1.0 unknown_name=__import__('os')\n```"],
)  # fmt: skip
def test_a_spec_that_is_wrong_goes_back_once_and_then_the_rule_made_one_stays(tmp_path, bad):
    made, transport, _ = draft([bad], tmp_path)
    assert made is None
    assert len(transport.questions) == 2
    assert "was refused" in transport.questions[1].prompt
    made, _, _ = draft([bad, "```\nx=fp32[64] by=1.0\n```"], tmp_path)
    assert made.text == "x=fp32[64] by=1.0"


def test_a_spec_of_one_line_needs_no_fence():
    assert read_spec("x=fp32[64] by=1.0") == "x=fp32[64] by=1.0"


def test_without_a_model_there_is_no_draft(tmp_path):
    assert draft([ModelUnavailable("gone")], tmp_path)[0] is None


def result_of(given=None, *, with_best=True):
    given = given or task()
    transport = Listed([faster()])
    engine = LlmEngine(transport, SETTINGS)
    candidate = asyncio.run(engine.think(given))
    tried = trial(candidate, accepted=True)
    best = (
        Suggestion(tried, 2.0, (1.9, 2.1), "measured", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n") if with_best else None
    )
    result = OptimizeResult(
        given.kernel, TargetInfo("local", "gpu", "NVIDIA H200", "1", "2", "3"), given.launches, {"launch1": 150.0},
        "measured", best, (tried,), tuple(given.bottlenecks.values()), given.findings,
    )  # fmt: skip
    return result, engine


def test_a_result_is_put_into_plain_words_and_every_exchange_is_kept_with_its_trial(tmp_path):
    result, engine = result_of()
    with open_store(tmp_path) as store:
        helper, transport = assistant(
            ["It starts **too many** programs.\n\n```python\nimport os\n```"], tmp_path, store
        )
        finished = asyncio.run(helper.finished(engine, result, TEXT))
        assert finished.notes[0] == "In plain words, by listed: It starts too many programs."
        assert "was asked once" in finished.notes[1]
        (question,) = transport.questions
        for private in ("/home", "billing", "API_TOKEN", "hf_abc"):
            assert private not in question.prompt
        kept = store.exchanges_for(FILE, "scale_kernel")
        assert [one.exchange.question.purpose for one in kept] == ["proposal", "words"]
        assert kept[0].trial == result.trials[0]
        assert kept[1].trial is None
        replayed = open_assistant(LlmSettings(), tmp_path, store, replay="store")
        candidate = asyncio.run(replayed.engine().think(task()))
        assert candidate.edits == result.trials[0].candidate.edits


@pytest.mark.parametrize("answer", [ModelUnavailable("gone"), "", Answer("", Usage(), "refusal")])
def test_words_that_do_not_come_cost_nothing(tmp_path, answer):
    result, engine = result_of()
    helper, _ = assistant([answer], tmp_path)
    finished = asyncio.run(helper.finished(engine, result, TEXT))
    assert not any("plain words" in note for note in finished.notes)
    assert finished.best == result.best


def test_an_interrupted_search_asks_nothing_more(tmp_path):
    result, engine = result_of()
    helper, transport = assistant(["words"], tmp_path)
    asyncio.run(helper.finished(engine, dataclasses.replace(result, stopped_because="interrupted"), TEXT))
    assert not transport.questions


def test_words_are_plain_and_short():
    said = "# Title\n[click](javascript:x) ![i](http://e/x.png) see https://evil.example/a?b <script>x</script> \u202e**bold** `c` \x1b[31m"
    made = plain_words(said)
    assert made == "Title click i see x bold c 31m"
    assert len(plain_words("A sentence. " * 200)) <= MOST_WORDS
    assert plain_words("A sentence. " * 200).endswith(".")
    assert plain_words("word" * 1000).endswith("…")


def exchange(prompt="p", text="t", **changes):
    question = Question("proposal", "k", "i", prompt, 10)
    return dataclasses.replace(Exchange(question, Answer(text), "m", "e", "chat", {"seed": 0}), **changes)


def test_a_recording_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "r.jsonl"
    recorder = Recorder(Listed(["one", "two é\u2028"]), path)
    asked = [asyncio.run(recorder.ask(Question("proposal", "k", "i", f"p{n}", 10))) for n in range(2)]
    assert read_recording(path) == tuple(asked)
    assert all(json.loads(line)["question"]["about"] == "k" for line in path.read_text().splitlines())
    with pytest.raises(UsageError, match="cannot be written"):
        Recorder(Listed([""]), tmp_path / "no" / "r.jsonl")


def test_a_replay_answers_the_same_question_with_the_same_answer_whatever_the_order():
    recorded = Recorded([exchange("a", "1"), exchange("b", "2")], "r")

    def ask(prompt, about="k"):
        return asyncio.run(recorded.ask(Question("proposal", about, "i", prompt, 10)))

    assert ask("b").answer.text == "2"
    assert recorded.differing == 0
    assert ask("measured times differ").answer.text == "1"
    assert recorded.differing == 1
    with pytest.raises(ModelUnavailable, match="no further answer for k"):
        ask("a")
    with pytest.raises(ModelUnavailable, match="no further answer for other"):
        ask("a", about="other")


def test_a_line_of_a_recording_is_one_line():
    assert line_of(exchange(text="a\nb\u2028c")).count("\n") == 1


def test_what_looks_like_a_key_is_hidden_wherever_it_stands():
    for secret in (
        "sk-proj-abcdefghijkl0123",
        "ghp_abcdefghijklmnop0123",
        "hf_abcdefghijklmnop0123",
        "AKIAABCDEFGHIJKLMNOP",
    ):
        assert secret not in looks_secret_hidden(f"error: {secret}.")
    assert "hunter2" not in looks_secret_hidden("proxy http://me:hunter2@host:1 failed")
    redact = Redactor(["my-own-secret", "my-own-secret-longer"])
    assert redact("a my-own-secret-longer b") == "a <hidden> b"
    assert "my-own" not in repr(redact)


def test_headers_read_variables_and_refuse_what_no_header_holds():
    environment = {"TRITONFORGE_LLM_GATE": " secret \n"}
    assert header_values({"a": "env:TRITONFORGE_LLM_GATE", "b": "x"}, environment) == {"a": "secret", "b": "x"}
    with pytest.raises(UsageError, match="TRITONFORGE_LLM_NONE, which is not set"):
        header_values({"a": "env:TRITONFORGE_LLM_NONE"}, environment)
    with pytest.raises(UsageError, match="no header can hold"):
        header_values({"a": "x\r\nInjected: 1"}, environment)


def test_waiting_honours_what_a_server_asks_for():
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert retry_after({"Retry-After": "3"}, now) == 3.0
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}, now) == 0.25
    assert retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:10 GMT"}, now) == 10.0
    assert retry_after({"retry-after": "Thu, 01 Jan 2025 00:00:10 GMT"}, now) == 0.0
    for nonsense in ("soon", "-1", "inf", "nan", ""):
        assert retry_after({"retry-after": nonsense}, now) is None
    assert [0.75 * 0.5 * 2**n <= backoff(n + 1) <= 0.5 * 2**n for n in range(6)] == [True] * 6
    assert backoff(100) <= 30


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('api = "soap"', '\'api\' in [llm] must be "auto", "responses" or "chat"'),
        ("temperature = 3", "from 0 to 2"),
        ("stream = 1", "true or false"),
        ("max-cost = 1.0", "needs prices"),
        ("answer-tokens = 30000", "leaves less than half"),
        ('headers = { "X-A" = "env:AWS_SECRET_ACCESS_KEY" }', "must begin with TRITONFORGE_LLM_"),
        ('headers = { "X A" = "b" }', "is no header"),
        ('proxy = "host:1"', "the address of a proxy"),
        ("max-tokens = 10", "from 1000 up"),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_its_line(tmp_path, line, sentence):
    (tmp_path / "tritonforge.toml").write_text(f'[llm]\nmodel = "m"\n{line}\n')
    with pytest.raises(UsageError) as error:
        load(tmp_path, environment={})
    assert sentence in str(error.value)
    assert "tritonforge.toml:3" in str(error.value)


def test_every_setting_is_read(tmp_path):
    (tmp_path / "tritonforge.toml").write_text(
        '[llm]\nmodel = "m"\nbase-url = "http://x/v1"\nmax-rounds = 3\nmax-tokens = 5000\nmax-cost = 0.5\nmax-seconds = 60\n'
        'input-price = 1\noutput-price = 2.5\napi = "chat"\nstream = false\nstructured-output = true\ntemperature = "none"\n'
        'seed = 7\ntimeout = 9.5\nretries = 0\ncontext-tokens = 16384\nanswer-tokens = 2048\norganization = "o"\n'
        'project = "p"\nproxy = "http://proxy:1"\nheaders = { "X-Team" = "kernels" }\n'
    )
    llm = load(tmp_path, environment={}).llm
    assert llm == LlmSettings(
        "m", "http://x/v1", 3, 5000, 0.5, 60.0, 1.0, 2.5, "chat", stream=False, structured_output=True, temperature=None,
        seed=7, timeout=9.5, retries=0, context_tokens=16384, answer_tokens=2048, organization="o", project="p",
        proxy="http://proxy:1", headers={"X-Team": "kernels"},
    )  # fmt: skip
