"""What `analyze` costs for a kernel and an architecture: compiled anew, found again, and beside plain `triton.compile`.

    python benchmarks/bench_analyze.py [OUT.json] [--arch ARCH]… [--only PATTERN] [--repeat N]

The kernels are the examples, the golden samples (`tests/data/compilation/samples.py`) and the cases of
`tests/data/h200/pathologies.py`, one launch each. *Uncached* is the wall time from a call that is known to what was
concluded of it: the call repeated, compiled, disassembled, read, predicted and judged, one after the other, with
nothing of it on disk. The worker is running and has compiled another kernel for the architecture. *Cached* is the same
from a store that holds it, with everything that it depends on looked at again. *Plain* is `triton.compile` of the same
launch in a process that has compiled before, with an empty cache: no disassembly, and nobody reads the result.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.config import load
from tritonforge.diagnosis.architectures import require_architectures
from tritonforge.diagnosis.assessment import assess, yardstick
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.diagnose import diagnose
from tritonforge.domain.codec import decode, encode
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, KernelLaunch, RecordedLaunch
from tritonforge.jobs.session import open_session
from tritonforge.store import open_store
from tritonforge.store.keys import tool_hash
from tritonforge.workload.subject import Subject

ROOT = Path(__file__).resolve().parents[1]
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx950")
FILES = (
    *(ROOT / "examples" / name for name in ("matmul.py", "row_softmax.py", "scale_shift.py")),
    ROOT / "tests" / "data" / "compilation" / "samples.py",
    ROOT / "tests" / "data" / "h200" / "pathologies.py",
)


@dataclass(frozen=True)
class Case:
    """One launch of one kernel of a file."""

    name: str
    file: str
    kernel: Kernel
    call: Call


def examples(module):
    """Return what launches the kernel of an example, by its name, as `cases()` of the other files does."""
    import torch

    def half(*shape):
        return torch.empty(*shape, dtype=torch.float16, device="cuda")

    calls = {
        "matmul": lambda: module.matmul(half(4096, 4096), half(4096, 4096)),
        "row_softmax": lambda: module.row_softmax(torch.empty(8192, 4096, device="cuda")),
        "scale_shift": lambda: module.scale_shift(
            torch.empty(1 << 24, device="cuda"), torch.empty(1 << 24, device="cuda"), 0.5
        ),
    }
    return {name: calls[name] for name in calls if hasattr(module, name)}


def plain(archs, only):
    """Print, as JSON, every launch and how long plain `triton.compile` takes for it (ms); run in its own process."""
    from compile_golden import capture, compile_one
    from compile_golden import load as load_module
    from torch._subclasses.fake_tensor import FakeTensorMode

    found = {}
    for path in FILES:
        module = load_module(path)
        with FakeTensorMode(allow_non_fake_inputs=True):
            cases = module.cases() if hasattr(module, "cases") else examples(module)
            thunks = {name: case[0] if isinstance(case, tuple) else case for name, case in cases.items()}
            captured = {name: capture(thunk)[0] for name, thunk in thunks.items() if re.search(only, name)}
        for name, launch in captured.items():
            times = {}
            for arch in archs:
                if not found:  # the first compilation for an architecture pays for what all share
                    compile_one(*launch, arch)
                    shutil.rmtree(os.environ["TRITON_CACHE_DIR"], ignore_errors=True)
                try:
                    compiled = compile_one(*launch, arch)
                    times[arch] = compiled.compile_ms
                    recorded = encode(compiled.launch)
                except Exception as error:  # noqa: BLE001 - whatever a compiler raises
                    print(f"{name} does not compile plainly for {arch}: {str(error)[:80]}", file=sys.stderr)
            found[name] = {"file": path.name, "launch": recorded, "ms": times}
    json.dump(found, sys.stdout)


def cases_of(found, folder):
    """Return the cases of what `plain` has found, their files copied into `folder`."""
    analyses = {}
    for path in FILES:
        shutil.copy(path, folder)
        analyses[path.name] = analyze(path.read_bytes(), path.name)
    cases = []
    for name, one in found.items():
        launch = decode(RecordedLaunch, one["launch"])
        kernel = next(kernel for kernel in analyses[one["file"]].kernels if kernel.name == launch.kernel)
        direct = KernelLaunch(tuple(str(extent) for extent in launch.grid), launch.options)
        call = Call(name, one["file"], kernel.name, (), (*launch.arguments, *launch.constexprs), kernel_launch=direct)
        cases.append(Case(name, one["file"], kernel, call))
    return cases


async def measure(cases, archs, folder, repeat):
    """Return (case, architecture, uncached ms, cached ms of `repeat` runs, error) for each case and architecture."""
    rows = []
    tool_hash()
    with open_store(folder) as store:
        async with open_session(load(folder), "offline", warm=("compile",)) as session:
            await require_architectures(session, archs, store)
            for case in cases:
                text = (folder / case.file).read_text(encoding="utf-8")
                program = Subject(str(folder), case.file, text, case.kernel, (case.call,)).program()

                async def judged(arch, case=case, program=program):
                    started = time.perf_counter()
                    assessed = await assess(
                        session, program, case.kernel, (case.call,), yardstick(session, arch), arch=arch,
                        earlier=CompiledCalls(store, session),
                    )  # fmt: skip
                    diagnose(case.kernel, [one.case for one in assessed])
                    return (time.perf_counter() - started) * 1e3, assessed

                for arch in archs:
                    uncached, assessed = await judged(arch)
                    error = next((one.compilation.error for one in assessed if one.compilation.error), None)
                    # What does not compile is not kept.
                    cached = [] if error or not assessed else [(await judged(arch))[0] for _ in range(repeat)]
                    rows.append((case.name, arch, uncached, cached, error or (None if assessed else "no launch")))
            return rows, session.info


def spread(values):
    """Return the median and the 95th percentile."""
    if len(values) < 2:
        return {"n": len(values), "p50": values[0] if values else None, "p95": None}
    return {"n": len(values), "p50": statistics.median(values), "p95": statistics.quantiles(values, n=20)[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--arch", action="append", dest="archs")
    parser.add_argument("--only", default="", help="A pattern of the kernels' names.")
    parser.add_argument("--repeat", type=int, default=5, help="How often each is found again.")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    archs = tuple(arguments.archs or ARCHS)
    if arguments.plain:
        plain(archs, arguments.only)
        return
    with tempfile.TemporaryDirectory(prefix="tritonforge-bench-") as scratch:
        folder, load_before = Path(scratch) / "workspace", os.getloadavg()[0]
        folder.mkdir()
        (folder / "tritonforge.toml").write_text("")
        command = [sys.executable, __file__, "--plain", "--only", arguments.only, *(f"--arch={arch}" for arch in archs)]
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{scratch}/plain"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        os.environ["TRITONFORGE_CACHE_DIR"] = f"{scratch}/cache"
        os.environ.pop("TRITON_CACHE_DIR", None)
        rows, target = asyncio.run(measure(cases_of(found, folder), archs, folder, arguments.repeat))
    good = [row for row in rows if row[4] is None]
    both = [row for row in good if row[1] in found[row[0]]["ms"]]
    summary = {
        "uncached_ms": spread([row[2] for row in good]),
        "cached_ms": spread([one for row in good for one in row[3]]),
        "plain_ms": spread([found[row[0]]["ms"][row[1]] for row in both]),
        "by_arch": {
            arch: {
                "uncached_ms": spread([row[2] for row in good if row[1] == arch]),
                "cached_ms": spread([one for row in good if row[1] == arch for one in row[3]]),
                "plain_ms": spread([found[row[0]]["ms"][row[1]] for row in both if row[1] == arch]),
            }
            for arch in archs
        },
    }
    print(f"{'':10}{'uncached p50':>14}{'p95':>9}{'cached p50':>13}{'p95':>9}{'plain p50':>12}{'p95':>9}   (ms)")
    for name, part in (("all", summary), *summary["by_arch"].items()):
        numbers = [part[key][p] for key in ("uncached_ms", "cached_ms", "plain_ms") for p in ("p50", "p95")]
        shown = [f"{value:.1f}" if value is not None else "-" for value in numbers]
        print(
            f"{name:10}" + "".join(f"{one:>{width}}" for one, width in zip(shown, (14, 9, 13, 9, 12, 9), strict=True))
        )
    for name, arch, _, _, error in rows:
        if error:
            print(f"{name} on {arch}: {error}")
    if arguments.out:
        report = {
            "date": time.strftime("%Y-%m-%d"), "machine": platform.platform(), "cores": os.cpu_count(),
            "load_before": load_before, "python": platform.python_version(), "torch": target.torch,
            "triton": target.triton, "kernels": len(found), "architectures": list(archs), **summary,
            "rows": [
                {"kernel": name, "arch": arch, "uncached_ms": uncached, "cached_ms": cached,
                 "plain_ms": found[name]["ms"].get(arch), "error": error}
                for name, arch, uncached, cached, error in rows
            ],
        }  # fmt: skip
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
