"""How fast the language server answers: start, initialize, first diagnostics, and requests on a large file.

Run `python benchmarks/bench_lsp.py`; times are milliseconds, median and 95th percentile.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lsp"))

from lsp_client import Client  # noqa: E402 - it lives beside the tests

STARTS = 5
KERNELS = 40
KEYS = 100


def large_file():
    """Return about 3,000 lines with 40 kernels."""
    example = (ROOT / "examples" / "matmul.py").read_text()
    head, _, rest = example.partition("@triton.jit")
    kernel = ("@triton.jit" + rest).partition("if __name__")[0]
    parts = [kernel.replace("matmul", f"matmul_{n}") + "# filler\n" * 30 for n in range(KERNELS)]
    return head + "\n\n".join(parts)


def timed(work):
    begun = time.perf_counter()
    result = work()
    return (time.perf_counter() - begun) * 1000, result


def show(name, times):
    ordered = sorted(times)
    print(f"{name:<44} {statistics.median(ordered):8.1f} {ordered[int(0.95 * (len(ordered) - 1))]:8.1f}")


def start(folder):
    begun = time.perf_counter()
    client = Client(folder)
    client.initialize()
    answered = time.perf_counter()
    client.pull(client.open("large.py"))
    first = time.perf_counter()
    client.shut_down()
    client.close()
    return (answered - begun) * 1000, (first - begun) * 1000


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = large_file()
        (folder / "large.py").write_text(text)
        print(f"{len(text.splitlines())} lines, {KERNELS} kernels{'median':>42} {'p95':>8}")
        starts = [start(folder) for _ in range(STARTS)]
        show("process start to initialize answered", [a for a, _ in starts])
        show("process start to first diagnostics", [b for _, b in starts])
        client = Client(folder)
        client.initialize()
        uri = client.open("large.py")
        client.pull(uri)
        after_key, hovers, lenses, actions = [], [], [], []
        for n in range(KEYS):
            line = text.count("\n") - 5
            at = {"line": line, "character": 0}
            edit = {"range": {"start": at, "end": at}, "newText": "# k"[n % 3]}
            took, _ = timed(lambda edit=edit: (client.edit(uri, [edit]), client.pull(uri)))
            after_key.append(took)
            hovers.append(timed(lambda: client.hover(uri, 11, 8))[0])
            lenses.append(timed(lambda: client.lenses(uri))[0])
            actions.append(timed(lambda: client.actions(uri, 20))[0])
        show("keystroke to diagnostics", after_key)
        show("hover", hovers)
        show("code lenses", lenses)
        show("code actions", actions)
        client.shut_down()
        client.close()


if __name__ == "__main__":
    main()
