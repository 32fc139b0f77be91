"""The process that Nsight Compute watches: makes launches one after the other, each timed and then counted once.

    [ncu … ] python score_child.py FOLDER

FOLDER has `items.json`, a list of `{"id", "program", "call", "kernel", "file", "variants": {title: options}}`. Lines of
JSON are appended to `done.jsonl` there: `{"begin": id}`, then `{"id", "times": {title: µs}, "counted": grid}` or
`{"id", "error"}`. It waits for a file `go`, which says until when (of `time.monotonic`) launches may begin,
before it touches the GPU, so that its imports cost no time, and leaves when one launch takes longer than `SECONDS`, for
no more can be told of a kernel that does not end.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import decode, encode
from tritonforge.domain.launch import Call, KernelLaunch, Scalar
from tritonforge.domain.messages import Program, Time

SECONDS = 25.0
SAMPLES = 12
FLUSHED_BYTES = 256 << 20
"""More than an L2 cache holds, five times over."""
WAITED_CYCLES = 100_000
"""How long the GPU is kept busy while the host prepares a sample."""


class Watchdog:
    """Ends the process when one item takes too long."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def restart(self) -> None:
        """Give the next item its time."""
        self.stop()
        self._timer = threading.Timer(SECONDS, os._exit, (4,))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Let the process take as long as it wants."""
        if self._timer is not None:
            self._timer.cancel()


def with_options(call: Call, options: dict[str, int]) -> Call:
    """Return a direct call with other options, or other constexprs where a name is one of its arguments."""
    launch = call.kernel_launch
    assert launch is not None
    names = {name for name, _ in call.keywords}
    keywords = tuple((n, Scalar(options[n]) if n in options else v) for n, v in call.keywords)
    kept = tuple((n, v) for n, v in launch.options if n not in options)
    added = tuple((n, Scalar(v)) for n, v in options.items() if n not in names)
    return dataclasses.replace(call, keywords=keywords, kernel_launch=KernelLaunch(launch.grid, (*kept, *added)))


def use_cache_of(file: str) -> None:
    """Let Triton find what was compiled for this file before (see `worker/compiling.py`)."""
    from tritonforge.worker.places import cache_folder

    digest = hashlib.sha256(os.path.realpath(file).encode()).hexdigest()[:16]
    os.environ["TRITON_CACHE_DIR"] = str(cache_folder("triton", f"{digest}-lines"))


def taken_of(item: dict[str, Any], options: dict[str, int]) -> Any:
    """Make a launch and return what repeats it."""
    from tritonforge.worker.timing.taking import take

    program, call = decode(Program, item["program"]), decode(Call, item["call"])
    call = with_options(call, options)
    (one,) = take(program, Time((program,), call, (item["kernel"],)))
    return one


def time_of(one: Any, flushed: Any) -> float:
    """Return the median time of a launch in µs, with L2 flushed before each sample."""
    import torch

    pairs = []
    for _ in range(SAMPLES):
        one.reset()
        flushed.zero_()
        torch.cuda._sleep(WAITED_CYCLES)  # noqa: SLF001 - there is no public way to keep a GPU busy
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        one.start()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) * 1e3 for start, end in pairs)


def measured(item: dict[str, Any], flushed: Any) -> dict[str, Any]:
    """Time a launch and its variants, and let the profiler see the launch once."""
    import torch

    one = taken_of(item, {})
    times: dict[str, Any] = {"": time_of(one, flushed)}
    for title, options in item["variants"].items():
        try:
            times[title] = time_of(taken_of(item, options), flushed)
        except Exception as error:  # a treatment may not compile, or need more than there is
            if "CUDA error" in str(error):
                raise
            times[title] = f"{type(error).__name__}: {error}"[:200]
    one.reset()
    torch.cuda.synchronize()
    cuda = torch.cuda.cudart()
    cuda.cudaProfilerStart()
    one.start()
    torch.cuda.synchronize()
    cuda.cudaProfilerStop()
    return {"id": item["id"], "times": times, "counted": list(one.launch.grid), "launch": encode(one.launch.options)}


def main(folder: Path) -> int:
    """Go through the items."""
    items = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    from tritonforge.worker.preparing import prepare_zygote

    prepare_zygote("compile")
    import torch

    import tritonforge.worker.timing.taking  # noqa: F401 - imported before the clock runs

    while not (folder / "go").exists():
        time.sleep(0.02)
    deadline = float((folder / "go").read_text(encoding="utf-8"))
    watchdog = Watchdog()
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    broken = False
    with (folder / "done.jsonl").open("a", encoding="utf-8") as told:

        def tell(row: dict[str, Any]) -> None:
            told.write(json.dumps(row) + "\n")
            told.flush()

        for item in items:
            if time.monotonic() > deadline:
                break
            tell({"begin": item["id"]})
            watchdog.restart()
            use_cache_of(item["file"])
            started = time.perf_counter()
            try:
                row = measured(item, flushed)
            except Exception as error:  # noqa: BLE001 - whatever a kernel brings up
                row = {"id": item["id"], "error": f"{type(error).__name__}: {error}"[:300]}
                broken = "CUDA" in row["error"] or "cuda-error" in repr(error)
            row["seconds"] = round(time.perf_counter() - started, 2)
            tell(row)
            if broken:
                break
            torch.cuda.empty_cache()
    watchdog.restart()  # the profiler writes its report when the process ends in good order
    return 5 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
