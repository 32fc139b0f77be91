"""From a command line to a running worker, with everything that may stand in between."""

import asyncio
import os
import shutil
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tritonforge.domain.errors import TargetUnreachable
from tritonforge.domain.messages import Describe
from tritonforge.domain.target import Target
from tritonforge.jobs import JobError, connect
from tritonforge.targets import ProcessTransport
from tritonforge.targets.archive import worker_archive

DIGEST = worker_archive().digest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "tritonforge" / "worker"


async def greet(target=None, timeout=20.0, log=None):  # noqa: ASYNC109 - passed on
    target = target or Target("t")
    async with connect(target, transport=ProcessTransport(target, {"warm": []}, log), timeout=timeout) as worker:
        return worker.hello


def hello(*arguments, **options):
    return asyncio.run(greet(*arguments, **options))


def refusal(target, timeout=20.0):
    with pytest.raises(TargetUnreachable) as caught:
        hello(target, timeout=timeout)
    return str(caught.value)


def script(tmp_path, text):
    path = tmp_path / "command"
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)
    return str(path)


def test_the_worker_is_sent_once_and_found_in_the_cache_afterwards(cache):
    assert hello().executable == sys.executable
    (folder,) = cache.iterdir()
    assert folder.name == DIGEST
    before = (folder / "tritonforge" / "worker").stat().st_ino
    (folder / "tritonforge" / "worker" / ".nfs0001").touch()  # what a file system leaves there is no harm
    hello()
    assert (folder / "tritonforge" / "worker").stat().st_ino == before


def test_what_a_login_prints_is_skipped(tmp_path):
    noisy = script(
        tmp_path,
        """\
        #!/bin/sh
        echo "Welcome to gpu1"
        echo "stay calm" >&2
        printf 'tritonforge-worker and no newline'
        exec "$@"
        """,
    )
    assert hello(Target("t", command=(noisy,), python=sys.executable)).cores >= 1


def test_a_shell_that_echoes_its_commands_does_not_answer_for_the_worker(tmp_path):
    echoing = script(tmp_path, '#!/bin/sh\necho "$@"\ncat "$0"\nexec "$@"\n')
    assert hello(Target("t", command=(echoing,), python=sys.executable)).cores >= 1


def test_user_modules_in_the_current_folder_do_not_get_in_the_way(tmp_path, monkeypatch):
    for name in ("json", "socket", "select", "tritonforge", "zipfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken for the real one')\n")
    monkeypatch.chdir(tmp_path)
    assert hello().cores >= 1


def test_an_old_python_is_named_with_its_version():
    old = next(
        (str(p) for v in ("2.7", "3.6", "3.8", "3.9") for p in Path.home().glob(f".pyenv/versions/{v}.*/bin/python")),
        None,
    )
    if old is None:
        pytest.skip("there is no Python below 3.10 on this machine")
    text = refusal(Target("t", python=old))
    assert "runs Python " in text
    assert "too old for a worker (3.10). Name a newer interpreter" in text


def test_an_old_python_is_named_with_its_version_even_where_there_is_none(tmp_path):
    pretending = script(
        tmp_path,
        f"""\
        #!{sys.executable} -S
        import sys
        sys.version_info = (3, 8, 1)
        exec(sys.argv[3])
        """,
    )
    text = refusal(Target("t", python=pretending))
    assert "runs Python 3.8.1 (" in text


def test_another_system_is_told_apart(tmp_path):
    pretending = script(tmp_path, f"#!{sys.executable} -S\nimport sys\nsys.platform = 'darwin'\nexec(sys.argv[3])\n")
    assert "no Linux machine (darwin)" in refusal(Target("t", python=pretending))


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert hello().cores >= 1


def test_a_damaged_cache_is_replaced_or_passed_by(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (cache / DIGEST / "tritonforge").mkdir(parents=True)
    assert hello().cores >= 1
    shutil.rmtree(cache)
    cache.parent.mkdir(exist_ok=True)
    cache.touch()
    assert hello().cores >= 1


def test_workers_that_nobody_used_for_a_month_are_removed(cache):
    (cache / "old").mkdir(parents=True)
    os.utime(cache / "old", (time.time() - 40 * 86400,) * 2)
    (cache / "recent").mkdir()
    hello()
    assert {folder.name for folder in cache.iterdir()} == {DIGEST, "recent"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_worker_that_somebody_else_may_have_put_there_is_never_run(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    hello()
    main = cache / DIGEST / "tritonforge" / "worker" / "__main__.py"
    main.write_text("raise SystemExit('the wrong one')\n")
    os.chown(cache, 12345, -1)
    assert hello().cores >= 1


def test_the_cache_of_workers_is_shut_off_from_others(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    hello()
    assert cache.stat().st_mode & 0o777 == 0o700


def test_several_clients_may_start_at_once(cache):
    async def run():
        return await asyncio.gather(*(greet() for _ in range(4)))

    assert len(asyncio.run(run())) == 4
    assert [folder.name for folder in cache.iterdir()] == [DIGEST]


def test_a_command_that_is_not_there_is_one_sentence_and_a_mend():
    text = refusal(Target("lab", command=("no-such-command-here",)))
    assert text == (
        "Target 'lab': no-such-command-here cannot be started (No such file or directory). "
        "Correct `command` or `python` of the target."
    )


def test_a_command_that_fails_is_quoted(tmp_path):
    failing = script(tmp_path, "#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
    text = refusal(Target("lab", command=(failing,)))
    assert "ended with status 255 before a worker answered (last lines: Permission denied (publickey).)" in text


def test_a_command_that_never_answers_is_given_up_with_its_last_words(tmp_path):
    hanging = script(tmp_path, "#!/bin/sh\necho 'Password: ' >&2\nexec sleep 60\n")
    start = time.monotonic()
    text = refusal(Target("lab", command=(hanging,)), timeout=0.5)
    assert time.monotonic() - start < 4
    assert "did not answer within 0.5 s (last lines: Password:)" in text


def test_stderr_goes_to_the_log_and_never_to_the_terminal(tmp_path, capfd):
    lines = []
    noisy = script(tmp_path, '#!/bin/sh\necho "debug1: connecting" >&2\nexec "$@"\n')
    hello(Target("t", command=(noisy,), python=sys.executable), log=lines.append)
    assert "debug1: connecting" in lines
    assert capfd.readouterr() == ("", "")


def test_a_python_without_torch_connects_and_says_what_to_install():
    bare = next((str(p) for p in Path.home().glob(".pyenv/versions/3.10.*/bin/python")), None)
    if bare is None:
        pytest.skip("there is no bare Python 3.10 on this machine")

    async def run():
        target = Target("t", python=bare)
        async with connect(target, warm=()) as worker:
            with pytest.raises(JobError) as caught:
                await worker.run(Describe())
            return caught.value

    error = asyncio.run(run())
    assert error.kind == "unsupported"
    assert "Install torch and triton in this interpreter" in str(error)
