"""What `bench_lsp.py` serves and how it types: a workspace, a large file, a client that notes when answers come."""

import contextlib
import os
import random
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lsp"))

from lsp_client import Client  # noqa: E402 - it lives beside the tests

KERNELS = 40
TYPED = '''\
@triton.jit
def typed_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Scale, λ and 🚀."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    for k in range(0, tl.cdiv(n, BLOCK)):
        x += tl.load(x_ptr + k)
    tl.store(o_ptr + i, tl.exp(x) / tl.sum(x, axis=0), mask=i < n)


def typed(x, o):
    typed_kernel[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), BLOCK=64)


'''


def example(name):
    return (ROOT / "examples" / f"{name}.py").read_text()


def large_file():
    """Return about 3,000 lines with 40 kernels and their host functions."""
    head, _, rest = example("matmul").partition("@triton.jit")
    kernel = ("@triton.jit" + rest).partition("if __name__")[0]
    parts = [kernel.replace("matmul", f"matmul_{n}") + "# filler\n" * 28 for n in range(KERNELS)]
    return head + "\n\n".join(parts)


def workspace(folder, files):
    """Write a workspace of `files` Python files: one in twenty has a kernel, one in ten is a test; and `large.py`."""
    (folder / ".git").mkdir()
    (folder / "large.py").write_text(large_file())
    softmax = example("row_softmax")
    for n in range(files - 1):
        package = folder / f"pkg{n % 40:02}"
        package.mkdir(exist_ok=True)
        if n % 20 == 0:
            text = softmax.replace("row_softmax", f"row_softmax_{n}")
        elif n % 10 == 5:
            text = f"from pkg{n % 40 - n % 40 % 20:02}.m{n - n % 20} import x\n\n\ndef test_it_{n}():\n    assert x\n"
        else:
            body = "".join(f"def f{k}(a, b={k}):\n    return a * {n} + b\n\n\n" for k in range(8))
            text = f"import os\nfrom pkg{(n + 1) % 40:02} import m{n + 1}\n\n\n{body}"
        (package / (f"test_m{n}.py" if n % 10 == 5 else f"m{n}.py")).write_text(text)
    for n in range(8):  # what the worker is kept busy with
        (folder / f"busy_{n}.py").write_text(example("matmul").replace("4096", str(2048 + 256 * n)))


class _Arrivals(dict):
    def __init__(self):
        super().__init__()
        self.at = {}

    def __setitem__(self, number, message):
        self.at[number] = time.perf_counter()
        super().__setitem__(number, message)


class TimedClient(Client):
    """A client that knows when each answer came."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self._responses = _Arrivals()

    def timed(self, method, params):
        """Ask, wait, and return milliseconds and the result."""
        begun = time.perf_counter()
        number = self.begin(method, params)
        result = self.end(number, 60)
        return (self._responses.at.pop(number) - begun) * 1000, result

    def collect(self, asked):
        """Return the milliseconds of requests that were sent at `asked[number]`."""
        took = []
        for number, begun in asked.items():
            self.end(number, 60)
            took.append((self._responses.at.pop(number) - begun) * 1000)
        return took

    def cpu_ms(self):
        """Return the CPU time that the server has used: of its main thread, and of all others, in milliseconds."""
        used = {"main": 0, "others": 0}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            used["main" if task.name == str(self.process.pid) else "others"] += ticks
        return tuple(ticks * 1000 // os.sysconf("SC_CLK_TCK") for ticks in used.values())

    def rss_mb(self):
        """Return the server's resident memory in megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


class Document:
    """The large file in the editor: edits by character, and what an editor asks for."""

    def __init__(self, client, name="large.py"):
        self.client = client
        self.uri = client.open(name)
        self.version = 1
        self.lines = client.texts[self.uri].split("\n")
        self.about = {"textDocument": {"uri": self.uri}}

    def put(self, line, column, text, end=None):
        """Put ASCII or λ text at a place (or in place of the characters up to column `end`); one character a key."""
        last = column if end is None else end
        row = self.lines[line]
        self.lines[line : line + 1] = (row[:column] + text + row[last:]).split("\n")
        units = [len(row[:c].encode("utf-16-le")) // 2 for c in (column, last)]
        where = {"start": {"line": line, "character": units[0]}, "end": {"line": line, "character": units[1]}}
        self._tell(where, text)

    def take_line(self, line):
        """Remove a line."""
        del self.lines[line]
        self._tell({"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}, "")

    def _tell(self, where, text):
        self.version += 1
        self.client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": self.uri, "version": self.version},
                "contentChanges": [{"range": where, "text": text}],
            },
        )

    def kernel_line(self, rng):
        """Return the line of some kernel's decorator."""
        return rng.choice([n for n, line in enumerate(self.lines) if line.startswith("@triton.jit")])

    def ask(self, what, line):
        """Return method and parameters of what an editor asks about a line."""
        at = {"line": line, "character": 8}
        if what == "diagnostics":
            return "textDocument/diagnostic", {**self.about, "identifier": "tritonforge"}
        if what == "hover":
            return "textDocument/hover", {**self.about, "position": at}
        if what == "code lens":
            return "textDocument/codeLens", self.about
        if what == "inlay hints":
            first = max(line - 30, 0)
            shown = {"start": {"line": first, "character": 0}, "end": {"line": line + 30, "character": 0}}
            return "textDocument/inlayHint", {**self.about, "range": shown}
        where = {"start": at, "end": at}
        return "textDocument/codeAction", {**self.about, "range": where, "context": {"diagnostics": []}}


def typist(document, rng):
    """Yield after every key of somebody who types kernels between others, and takes them out again."""
    while True:
        line = document.kernel_line(rng)
        start, column = line, 0
        document.put(line, 0, "\n")
        yield line
        for char in TYPED:
            document.put(line, column, char)
            yield line
            if char == "\n":
                line, column = line + 1, 0
            else:
                column += 1
        for _ in range(TYPED.count("\n") + 1):
            document.take_line(start)
            yield start


@contextlib.contextmanager
def busy(client):
    """Keep the worker of a server busy with searches, one after the other, until the end."""
    client.answers["window/showMessageRequest"] = None
    going = threading.Event()
    going.set()
    uris = [client.open(f"busy_{n}.py") for n in range(8)]
    begun = threading.Event()
    jobs = []

    def work():
        while going.is_set():
            for uri in uris:
                if not going.is_set():
                    return
                job = client.command("optimizeKernel", uri=uri, kernel="matmul_kernel", allowRun=True)["jobId"]
                jobs.append(job)

                def is_end(method, params, job=job):
                    token_ends = method == "$/progress" and params["token"] == job and params["value"]["kind"] == "end"
                    compiling = method == "$/progress" and "compile" in params["value"].get("message", "")
                    if compiling:
                        begun.set()
                    return token_ends or not going.is_set()

                with contextlib.suppress(AssertionError):
                    client.wait(is_end, 600)
                with client._condition:  # noqa: SLF001 - a benchmark's client must not remember an hour
                    client.received.clear()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(180), f"the worker does not get busy:\n{client.log}"
    try:
        yield jobs
    finally:
        going.clear()
        client.command("cancelJob", jobId=jobs[-1])
        with client._condition:  # noqa: SLF001
            client._condition.notify_all()  # noqa: SLF001
        thread.join(20)


def summary(times):
    """Return count, median, 95th and 99th percentile and the largest of some milliseconds."""
    ordered = sorted(times)

    def at(share):
        return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 2)

    return {
        "n": len(ordered), "median": round(statistics.median(ordered), 2), "p95": at(0.95), "p99": at(0.99),
        "max": round(ordered[-1], 2),
    }  # fmt: skip


def slope(samples):
    """Return megabytes an hour, with a 95 % interval, of (hours, megabytes) samples; the first fifth is warm-up.

    Least squares; the interval from residuals resampled in blocks, since one sample is much like the one before.
    """
    kept = samples[len(samples) // 5 :]
    xs, ys = [x for x, _ in kept], [y for _, y in kept]

    def fit(values):
        mx, my = statistics.fmean(xs), statistics.fmean(values)
        spread = sum((x - mx) ** 2 for x in xs)
        b = sum((x - mx) * (y - my) for x, y in zip(xs, values, strict=True)) / spread
        return b, my - b * mx

    b, a = fit(ys)
    left = [y - a - b * x for x, y in kept]
    size, rng, found = max(len(left) // 10, 1), random.Random(0), []
    for _ in range(1000):
        drawn = []
        while len(drawn) < len(left):
            at = rng.randrange(len(left) - size + 1)
            drawn += left[at : at + size]
        found.append(fit([a + b * x + e for x, e in zip(xs, drawn, strict=False)])[0])
    found.sort()
    return {"mb_per_hour": round(b, 2), "ci95": [round(found[25], 2), round(found[974], 2)]}
