"""A large file is analysed for the first time beside the event loop: whoever asks about another one does not wait."""

import asyncio
import json
import threading

from in_process import InProcess

from tritonforge.lsp import documents
from tritonforge.lsp.serving import _hand_on

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scale_{n}(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for k in range(0, n):
        x += tl.load(x_ptr + k)
    tl.store(x_ptr + i, x * 2, mask=i < n)


"""
SMALL = KERNEL.format(n=0)
LARGE = "".join(KERNEL.format(n=n) for n in range(40)) + "# filler\n" * 4000


def wire(*messages):
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


def opened(uri, text):
    return {
        "method": "textDocument/didOpen",
        "params": {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}},
    }


def asked(number, uri):
    return {"id": number, "method": "textDocument/diagnostic", "params": {"textDocument": {"uri": uri}}}


def typed(uri, text):
    return {
        "method": "textDocument/didChange",
        "params": {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]},
    }


def test_questions_about_a_file_that_is_analysed_for_the_first_time_wait_and_others_do_not(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    large, small = (tmp_path / "large.py").as_uri(), (tmp_path / "small.py").as_uri()
    going_on, real, threads = threading.Event(), documents.analyze, []

    def slow(text, file, memo):
        threads.append((file, threading.current_thread() is threading.main_thread()))
        if file == "large.py" and len(threads) == 1:
            assert going_on.wait(60)
        return real(text, file, memo)

    monkeypatch.setattr(documents, "analyze", slow)

    async def run():
        server = InProcess(tmp_path)
        reader = asyncio.StreamReader()
        handing = asyncio.create_task(_hand_on(reader, server.server))

        def answers():
            return {
                m["id"]: m["result"]["items"]
                for m in server.wire.messages
                if "result" in m and "id" in m and m["id"] > 1
            }

        async def until(condition):
            async with asyncio.timeout(60):
                while not condition():  # noqa: ASYNC110 - the wire is a list
                    await asyncio.sleep(0.01)

        reader.feed_data(wire(opened(large, LARGE), asked(101, large), opened(small, SMALL), asked(102, small)))
        await until(lambda: 102 in answers())
        assert set(answers()) == {102}
        # What is typed meanwhile counts, and is taken over from what was found before it.
        reader.feed_data(wire(typed(large, "# above\n" + LARGE)))
        await asyncio.sleep(0.05)
        going_on.set()
        await until(lambda: 101 in answers())
        lines = {item["range"]["start"]["line"] for item in answers()[101]}
        expected = {item["range"]["start"]["line"] + 1 for item in _alone(tmp_path, large, LARGE)}
        handing.cancel()
        await server.close()
        return lines, expected

    lines, expected = asyncio.run(run())
    assert lines == expected
    assert lines
    assert threads[0] == ("large.py", False)
    assert ("small.py", True) in threads


def _alone(folder, uri, text):
    server = InProcess(folder)
    server.receive(opened(uri, text))
    return server.request("textDocument/diagnostic", {"textDocument": {"uri": uri}})["items"]


def test_what_is_asked_of_one_text_is_answered_together_however_fast_one_types(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    uri, real, texts = (tmp_path / "small.py").as_uri(), documents.analyze, []

    async def run():
        server = InProcess(tmp_path)
        reader = asyncio.StreamReader()
        handing = asyncio.create_task(_hand_on(reader, server.server))

        def typing(text, file, memo):
            texts.append(text)
            reader.feed_data(wire(typed(uri, f"# {len(texts)}\n{SMALL}")))  # the next key, while this is analysed
            return real(text, file, memo)

        monkeypatch.setattr(documents, "analyze", typing)
        reader.feed_data(wire(opened(uri, SMALL), *(asked(number, uri) for number in range(101, 106))))
        async with asyncio.timeout(60):
            while sum("result" in m and m.get("id", 0) > 100 for m in server.wire.messages) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        handing.cancel()
        await server.close()

    asyncio.run(run())
    assert texts == [SMALL]
