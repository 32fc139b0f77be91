"""From the first byte to the last process: answers in every state, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lsp_client import LspError


def test_shutdown_and_exit_end_the_process_with_0(start):
    client = start()
    client.open("matmul.py")
    assert client.shut_down() == 0
    client.assert_nothing_left(2)


def test_exit_without_shutdown_ends_with_1(start):
    client = start()
    client.notify("exit")
    assert client.process.wait(10) == 1


def test_exit_before_initialize_ends_with_1(start):
    client = start(initialize=False)
    client.notify("exit")
    assert client.process.wait(10) == 1


def test_shutdown_before_initialize_is_answered(start):
    assert start(initialize=False).shut_down() == 0


def test_the_end_of_the_input_ends_the_process(start):
    client = start()
    client.process.stdin.close()
    assert client.process.wait(10) == 1
    client.assert_nothing_left(2)


def test_a_request_before_initialize_is_refused_and_a_notification_ignored(start):
    client = start(initialize=False)
    client.notify(
        "textDocument/didOpen",
        {"textDocument": {"uri": "file:///x.py", "languageId": "python", "version": 1, "text": ""}},
    )
    with pytest.raises(LspError) as error:
        client.request(
            "textDocument/hover", {"textDocument": {"uri": "file:///x.py"}, "position": {"line": 0, "character": 0}}
        )
    assert error.value.code == -32002
    client.initialize()
    with pytest.raises(LspError) as error:
        client.initialize()
    assert error.value.code == -32600


def test_every_request_after_shutdown_is_answered_with_an_error(start):
    client = start()
    uri = client.open("matmul.py")
    client.request("shutdown")
    for method, params in (("shutdown", None), ("textDocument/codeLens", {"textDocument": {"uri": uri}})):
        with pytest.raises(LspError) as error:
            client.request(method, params)
        assert error.value.code == -32600
    client.notify("exit")
    assert client.process.wait(10) == 0


def test_no_triton_and_no_torch_are_loaded(start):
    client = start()
    client.pull(client.open("matmul.py"))
    maps = Path(f"/proc/{client.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "libtriton" not in maps


def test_a_message_that_is_no_json_is_skipped(start):
    client = start()
    client.process.stdin.write(b"Content-Length: 3\r\n\r\n{x}")
    client.process.stdin.flush()
    client.send({"id": 900})
    client.send({"method": "$/telepathy", "params": {}})
    assert client.pull(client.open("matmul.py"))["items"]


def test_cancelling_a_request_that_is_unknown_or_done_harms_nothing(start):
    client = start()
    uri = client.open("matmul.py")
    client.notify("$/cancelRequest", {"id": 12345})
    client.notify("window/workDoneProgress/cancel", {"token": "nothing"})
    assert client.pull(uri)["items"]


PARENT = """
import subprocess, sys, time
server = subprocess.Popen([sys.executable, "-m", "tritonforge", "serve", "--stdio"], stdin=subprocess.PIPE)
print(server.pid, flush=True)
time.sleep(100)
"""


def test_nothing_is_left_when_the_process_that_started_it_is_killed(start, folder):
    # The pipe is also held by this test, so its end is not what the server notices.
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=folder)
    pid = int(parent.stdout.readline())
    inherited = os.open(f"/proc/{pid}/fd/0", os.O_WRONLY)
    until = time.monotonic() + 60
    while len(list(Path(f"/proc/{pid}/task").iterdir())) == 1 and time.monotonic() < until:
        time.sleep(0.05)  # the thread that looks for the parent is the first
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    os.close(inherited)
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_is_left_when_the_editor_that_it_was_told_of_is_gone(start):
    editor = subprocess.Popen(["sleep", "100"])
    client = start(initialize=False)
    client.initialize(processId=editor.pid)
    client.pull(client.open("matmul.py"))
    time.sleep(1.5)
    editor.kill()
    editor.wait()
    assert client.process.wait(10) == 1
    client.assert_nothing_left(2)


def test_an_editor_that_was_never_visible_does_not_end_it(start):
    gone = subprocess.Popen(["true"])
    gone.wait()
    client = start(initialize=False)
    client.initialize(processId=gone.pid)
    time.sleep(2.5)
    assert client.process.poll() is None


def test_one_client_is_served_on_a_socket(folder):
    server = subprocess.Popen(
        [sys.executable, "-m", "tritonforge", "serve", "--tcp", "127.0.0.1:0"], stderr=subprocess.PIPE, cwd=folder
    )
    address = next(line for line in server.stderr if b"listening on" in line).split()[-1].decode()
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 10) as connection:
        connection.sendall(b'Content-Length: 44\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"shutdown"}')
        assert b'"id": 1' in connection.recv(4096)
        connection.sendall(b'Content-Length: 33\r\n\r\n{"jsonrpc":"2.0","method":"exit"}')
        assert server.wait(10) == 0
    server.stderr.close()


def test_a_wrong_address_is_wrong_usage(folder):
    done = subprocess.run(
        [sys.executable, "-m", "tritonforge", "serve", "--tcp", "somewhere"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'somewhere' is no address" in done.stderr


class TestWhileAJobRuns:
    @pytest.fixture
    def busy(self, start):
        pytest.importorskip("triton", reason="needs torch and triton in this environment")
        client = start({"target": "offline"})
        uri = client.open("matmul.py")
        client.command("optimizeKernel", uri=uri, kernel="matmul_kernel", allowRun=True)
        client.wait(lambda m, p: m == "$/progress" and "compile" in p["value"].get("message", ""))
        assert len(client.processes()) > 3
        return client

    def test_shutdown_is_answered_and_takes_the_workers_along(self, busy):
        assert busy.shut_down() == 0
        busy.assert_nothing_left(2)

    def test_exit_alone_takes_the_workers_along(self, busy):
        busy.notify("exit")
        assert busy.process.wait(10) == 1
        busy.assert_nothing_left(5)

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
    def test_a_killed_server_takes_the_workers_along(self, busy, number):
        os.kill(busy.process.pid, number)
        busy.process.wait(10)
        busy.assert_nothing_left(5)

    def test_a_restart_ends_the_worker_and_the_next_job_works(self, busy):
        uri = next(iter(busy.texts))
        assert busy.command("restart") == {}
        busy.until(lambda: len(busy.processes()) == 1, 15)
        job = busy.command("profileKernel", uri=uri, allowRun=True)["jobId"]
        assert "predicted" in busy.outcome(job)
