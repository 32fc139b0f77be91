"""How fast the language server answers on a 3,000-line file with 40 kernels in a workspace of 2,000 files.

Run `python benchmarks/bench_lsp.py [--json FILE]`: starts, requests, keystrokes, a minute of typing at 20 keys a second
and memory, while a worker searches in the same workspace (`--idle` leaves it out). `--minutes 60` makes the memory run
an hour of such use, as fast as it goes. Times are milliseconds from the request's first byte to the answer's last, as
the client sees them; each line ends with its target and whether that was met.
"""

import argparse
import contextlib
import gc
import itertools
import json
import os
import platform
import random
import tempfile
import time
from pathlib import Path

from lsp_load import KERNELS, Document, TimedClient, busy, slope, summary, typist, workspace

KEYS_PER_SECOND = 20
ASKED = ("hover", "code lens", "code action")
TARGETS = {
    "start to first diagnostics": ("p95", 1500),
    "hover": ("p95", 20),
    "code lens": ("p95", 20),
    "code action": ("p95", 20),
    "keystroke to diagnostics: comment": ("p95", 100),
    "keystroke to diagnostics: in a kernel": ("p95", 100),
    "keystroke to diagnostics: half-typed": ("p95", 100),
    "keystroke to diagnostics: line above all": ("p95", 100),
    "typing: any answer": ("max", 100),
}
OFFLINE = {"target": "offline"}


def starts(folder, count):
    initialized, first = [], []
    for _ in range(count):
        begun = time.perf_counter()
        client = TimedClient(folder)
        client.initialize(OFFLINE)
        initialized.append((time.perf_counter() - begun) * 1000)
        document = Document(client)
        _, report = client.timed(*document.ask("diagnostics", 0))
        assert report["items"]
        first.append((time.perf_counter() - begun) * 1000)
        client.shut_down()
        client.close()
    return {"start to initialize answered": summary(initialized), "start to first diagnostics": summary(first)}


def requests(client, document, count):
    rng = random.Random(0)
    for what in (*ASKED, "diagnostics", "inlay hints"):
        client.timed(*document.ask(what, 20))  # features are loaded with their first request
    took = {what: [] for what in (*ASKED, "inlay hints")}
    for _ in range(count):
        line = document.kernel_line(rng) + rng.randrange(40)
        for what, times in took.items():
            times.append(client.timed(*document.ask(what, line))[0])
    return {what: summary(times) for what, times in took.items()}


def keystrokes(client, document, count):
    rng = random.Random(1)

    def after(put):
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            undo = put()
            client.timed(*document.ask("diagnostics", 0))
            times.append((time.perf_counter() - begun) * 1000)
            undo()
            client.timed(*document.ask("diagnostics", 0))
        return summary(times)

    def line_with(text):
        return rng.choice([n for n, line in enumerate(document.lines) if text in line])

    def comment():
        line = line_with("# filler")
        document.put(line, 8, "x")
        return lambda: document.put(line, 8, "", 9)

    def in_a_kernel():
        line = line_with("acc += tl.dot(a, b)")
        column = document.lines[line].index("(a, b)") + 2
        document.put(line, column, "1")
        return lambda: document.put(line, column, "", column + 1)

    def half_typed():
        line = line_with("acc += tl.dot(a, b)")
        column = len(document.lines[line])
        document.put(line, column, "(")
        return lambda: document.put(line, column, "", column + 1)

    def above_all():
        document.put(0, 0, f"# {document.version}\n")
        return lambda: document.take_line(0)

    return {
        "keystroke to diagnostics: comment": after(comment),
        "keystroke to diagnostics: in a kernel": after(in_a_kernel),
        "keystroke to diagnostics: half-typed": after(half_typed),
        "keystroke to diagnostics: line above all": after(above_all),
    }


def typing(client, document, seconds):
    """Type at 20 keys a second, whatever the server does, and ask what an editor asks meanwhile."""
    asked = {what: {} for what in ("diagnostics", "inlay hints", *ASKED)}
    # What this client keeps of a minute's answers takes its own collector 100 ms and more, in which no answer is read.
    gc.collect()
    gc.disable()
    before = client.cpu_ms()

    def send(what, line):
        begun = time.perf_counter()
        asked[what][client.begin(*document.ask(what, line))] = begun

    late = 0.0
    begun = time.perf_counter()
    for key, line in zip(range(int(seconds * KEYS_PER_SECOND)), typist(document, random.Random(2)), strict=False):
        send("diagnostics", line)
        if key % 5 == 0:  # editors wait for a pause before they ask for these
            send("code lens", line)
            send("inlay hints", line)
        if key % 10 == 3:
            send("code action", line)
        if key % 20 == 7:
            send("hover", line)
        wait = begun + (key + 1) / KEYS_PER_SECOND - time.perf_counter()
        late = max(late, -wait)
        time.sleep(max(wait, 0.0))
    took = {what: client.collect(sent) for what, sent in asked.items()}
    gc.enable()
    found = {f"typing: {what}": summary(times) for what, times in took.items()}
    found["typing: any answer"] = summary(list(itertools.chain.from_iterable(took.values())))
    found["typing: any answer"]["client late by ms"] = round(late * 1000, 1)
    main_ms, others_ms = (now - then for now, then in zip(client.cpu_ms(), before, strict=True))
    # What holds the interpreter's lock beside the thread that answers: next to nothing, whatever the machine does.
    print(f"the server's CPU while typing: {main_ms} ms of the thread that answers, {others_ms} ms of all others")
    found["typing: any answer"]["server CPU ms"] = {"answering": main_ms, "other threads": others_ms}
    return found


def memory(client, document, minutes):
    """Type the keys of so many minutes as fast as they are answered; memory is sampled every ten seconds' worth."""
    samples, begun = [], time.perf_counter()
    keys = int(minutes * 60 * KEYS_PER_SECOND)
    for key, line in zip(range(keys), typist(document, random.Random(3)), strict=False):
        client.timed(*document.ask("diagnostics", line))
        if key % 5 == 0:
            client.timed(*document.ask("code lens", line))
            client.timed(*document.ask("inlay hints", line))
        if key % 20 == 7:
            client.timed(*document.ask("hover", line))
            client.timed(*document.ask("code action", line))
        if key % (10 * KEYS_PER_SECOND) == 0:
            samples.append((key / KEYS_PER_SECOND / 3600, client.rss_mb()))
    rss = [round(megabytes, 1) for _, megabytes in samples]
    every = max(len(samples) // 30, 1)
    print("\nminutes of use: megabytes of the server")
    print("  ".join(f"{hours * 60:.1f}: {megabytes:.1f}" for hours, megabytes in samples[::every]), flush=True)
    found = {
        "minutes of use": minutes, "took_s": round(time.perf_counter() - begun, 1), "keys": keys,
        "rss_mb": {"first": rss[0], "last": rss[-1], "max": max(rss)},
        "rss_mb_over_time": [[round(hours * 60, 2), round(mb, 1)] for hours, mb in samples],
    }  # fmt: skip
    if len(samples) >= 10:
        found["slope"] = slope(samples)
    return found


def closing(client):
    """Return milliseconds from `shutdown` to the last process gone."""
    begun = time.perf_counter()
    client.shut_down()
    client.assert_nothing_left()
    took = (time.perf_counter() - begun) * 1000
    client.close()
    return summary([took])


def show(rows, *, head=False):
    """Print rows, and return whether they meet their targets."""
    if head:
        print(f"\n{'milliseconds':<44} {'n':>6} {'median':>9} {'p95':>9} {'p99':>9} {'max':>9}  target")
    met = True
    for name, row in rows.items():
        target = TARGETS.get(name)
        verdict = ""
        if target is not None:
            good = row[target[0]] < target[1]
            met = met and good
            verdict = f"{target[0]} < {target[1]} {'met' if good else 'MISSED'}"
        numbers = " ".join(f"{row[column]:9.1f}" for column in ("median", "p95", "p99", "max"))
        print(f"{name:<44} {row['n']:6} {numbers}  {verdict}".rstrip(), flush=True)
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--requests", type=int, default=300, help="of each kind")
    parser.add_argument("--keys", type=int, default=100, help="of each kind of keystroke")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="of typing at 20 keys a second")
    parser.add_argument("--minutes", type=float, default=2, help="of use in the memory run")
    parser.add_argument("--idle", action="store_true", help="no busy worker")
    parser.add_argument("--json", type=Path, help="write everything there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace(folder, given.files)
        load = os.getloadavg()
        lines = (folder / "large.py").read_text().count("\n") + 1
        print(f"{lines} lines, {KERNELS} kernels, {given.files} files")
        print(f"{os.cpu_count()} cores, load average before: {load[0]:.1f}", flush=True)
        rows, met = {}, True

        def take(found):
            nonlocal met
            met = show(found, head=not rows) and met
            rows.update(found)

        take(starts(folder, given.starts))
        client = TimedClient(folder)
        client.initialize(OFFLINE)
        document = Document(client)
        with contextlib.nullcontext() if given.idle else busy(client):
            take(requests(client, document, given.requests))
            take(keystrokes(client, document, given.keys))
            take(typing(client, document, given.seconds))
            used = memory(client, document, given.minutes)
            load_during = os.getloadavg()
            # Closed in the middle of a search: the worker's processes go, too.
        take({"shutdown to the last process gone": closing(client)})
    print(f"\nmemory: {json.dumps(used)}")
    if given.json:
        about = {
            "lines": lines, "kernels": KERNELS, "files": given.files, "worker_busy": not given.idle,
            "cores": os.cpu_count(), "load_average": {"before": load, "during": load_during},
            "python": platform.python_version(), "machine": platform.machine(),
        }  # fmt: skip
        given.json.write_text(json.dumps({"about": about, "milliseconds": rows, "memory": used}, indent=1) + "\n")
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
