"""What of a corpus is recorded, compiled and interpreted on a machine without a GPU.

`python benchmarks/coverage_corpora.py liger|fla|idioms [-o OUTPUT.json] [-k SUBSTRING]… [--arch sm_90]`

Each driver in `corpora/` is recorded without a GPU, each distinct launch it makes is compiled for an architecture, and
every recorded call is run in the guarded interpreter (compared with itself, so that it runs three times). Of a library
the kernels that count are all `@triton.jit` functions that any of its files launches, found by static analysis: what
is never seen launched counts as a failure, unless the corpus says why a real run does not launch it either.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib.util
import json
import math
import platform
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tritonforge.analysis import analyze
from tritonforge.config import OFFLINE
from tritonforge.domain.launch import Call, Tensor, tensors_of
from tritonforge.domain.messages import Compare, Compile, Limits, Program, Record
from tritonforge.jobs import JobError, Worker, connect

CORPORA = Path(__file__).resolve().parent / "corpora"
LIMITS = Limits(seconds=240.0, memory_bytes=6 << 30)
ONE_KERNEL = Limits(seconds=120.0, memory_bytes=6 << 30)
LARGE = 1 << 20
"""Elements of a tensor from which on a call is made smaller before it is interpreted."""
INTERPRETED = Limits(seconds=420.0, memory_bytes=6 << 30)


@dataclass(frozen=True)
class Corpus:
    """A package driven by the functions of one of our files, or a folder of our own files that are run."""

    name: str
    package: str | None
    drivers: tuple[str, ...]
    left_out: re.Pattern[str] = re.compile("$^")


CORPUS = {
    "liger": Corpus("liger", "liger_kernel", ("liger_ops.py",), re.compile(r"/backends/|/cute|/cutile")),
    "fla": Corpus("fla", "fla", ("fla_ops.py", "fla_modules.py"), re.compile("ascend|/npu/")),
    "idioms": Corpus("idioms", None, ()),
}


@dataclass
class Driven:
    """What came of one driver."""

    name: str
    failure: str = ""
    calls: int = 0
    launches: dict[str, set[str]] = field(default_factory=dict)
    """Errors of the distinct launches by kernel; an empty set where all compiled."""
    interpreted: int = 0
    stopped: list[str] = field(default_factory=list)
    unlike_itself: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


def kernel_name(file: str, name: str) -> str:
    """Return `package/file.py::kernel` for a file of an installed package or of the corpora."""
    return f"{file.rpartition('site-packages/')[2]}::{name}"


def reason(error: JobError) -> str:
    """Return why a job failed in one line."""
    failure = error.failure
    place = f" ({failure.file.rpartition('site-packages/')[2]}:{failure.line})" if failure.file and failure.line else ""
    return f"{failure.kind}: {failure.message[:300]}{place}"


async def drive(worker: Worker, program: Program, entry: str, name: str, arch: str) -> Driven:
    """Record, compile and interpret one driver."""
    title = name or program.file
    done = Driven(title)
    started = time.perf_counter()
    try:
        recorded = await worker.run(Record(program, entry, name), limits=LIMITS)
    except JobError as error:
        done.failure = reason(error)
        return done
    done.seconds["record"] = round(time.perf_counter() - started, 2)
    unrepeated = [f"{kernel}: {why}" if kernel else why for kernel, why in recorded.failures]
    if unrepeated:
        done.failure = "; ".join(unrepeated)[:400]
    done.calls = len(recorded.calls)
    for call in recorded.calls:
        for launch in call.launches:
            done.launches.setdefault(kernel_name(launch.kernel_file, launch.kernel), set())
    started = time.perf_counter()
    for call in recorded.calls:
        await compile_one(worker, program, call, arch, done)
    done.seconds["compile"] = round(time.perf_counter() - started, 2)
    started = time.perf_counter()
    for call in recorded.calls:
        await interpret(worker, program, call, done)
    done.seconds["interpret"] = round(time.perf_counter() - started, 2)
    return done


async def compile_one(worker: Worker, program: Program, call: Call, arch: str, done: Driven) -> None:
    """Compile a call's launches; one kernel at a time when they take too long together."""
    names = {launch.kernel: kernel_name(launch.kernel_file, launch.kernel) for launch in call.launches}
    try:
        found = await worker.run(Compile(program, call, arch, artefacts=()), limits=LIMITS)
    except JobError as error:
        if error.failure.kind not in {"timeout", "memory", "crashed"}:
            for name in names.values():
                done.launches[name].add(reason(error))
            return
        for kernel, name in names.items():
            try:
                one = await worker.run(Compile(program, call, arch, (kernel,), artefacts=()), limits=ONE_KERNEL)
            except JobError as alone:
                long = alone.failure.kind == "timeout"
                why = f"compiles longer than {ONE_KERNEL.seconds:g} s" if long else reason(alone)
                done.launches[name].add(why)
                continue
            note(one.launches, names, done)
        return
    note(found.launches, names, done)
    compiled = {launch.launch.kernel for launch in found.launches}
    for kernel, name in names.items():
        if kernel not in compiled:
            done.launches[name].add("not launched when its call was repeated")


def note(launches: Any, names: dict[str, str], done: Driven) -> None:
    """Keep the errors of compiled launches."""
    for launch in launches:
        if launch.error and launch.launch.kernel in names:
            done.launches[names[launch.launch.kernel]].add(launch.error[:300])


async def interpret(worker: Worker, program: Program, call: Call, done: Driven) -> None:
    """Run a call to its end in the interpreter, smaller where it was large, or say why it does not get there."""
    call = shrunk(call)
    try:
        outcome = (await worker.run(Compare(program, program, (call,)), limits=INTERPRETED)).outcomes[0]
    except JobError as error:
        done.stopped.append(f"{call.function}: {reason(error)}")
        return
    if outcome.status.endswith("failed"):
        done.stopped.append(f"{call.function}: {outcome.detail[:300]}")
    else:
        done.interpreted += 1
        if outcome.status == "different":
            done.unlike_itself.append(f"{call.function}: {outcome.detail[:300]}")


def shrunk(call: Call) -> Call:
    """Return a call with its largest extent cut, in every tensor that has it, until its tensors are small."""
    tensors = [t for v in call.arguments for t in tensors_of(v)]
    while max((t.elements for t in tensors), default=0) > LARGE:
        largest = max(n for t in tensors if t.elements > LARGE for n in t.shape)
        arguments = tuple(_cut(v, largest) if isinstance(v, Tensor) else v for v in call.arguments)
        if arguments == call.arguments:
            break
        call = replace(call, arguments=arguments)
        tensors = [t for v in call.arguments for t in tensors_of(v)]
    return call


def _cut(tensor: Tensor, largest: int) -> Tensor:
    shape = tuple(max(1, n // 2 + 1) if n == largest else n for n in tensor.shape)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return replace(tensor, shape=shape, strides=strides) if shape != tensor.shape else tensor


def drivers_of(path: Path) -> list[str]:
    """Return the names of a file's drivers, in order."""
    tree = ast.parse(path.read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("drive_")]


def table_of(path: Path, name: str) -> dict[str, str]:
    """Return a file's dict of texts, whose values are literals or names of literals."""
    known: dict[str, str] = {}
    for node in ast.parse(path.read_text()).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.targets[0], ast.Name)
        ):
            known[node.targets[0].id] = str(node.value.value)
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name and isinstance(node.value, ast.Dict):
            values = [known[v.id] if isinstance(v, ast.Name) else ast.literal_eval(v) for v in node.value.values]
            return dict(zip([ast.literal_eval(k) for k in node.value.keys if k is not None], values, strict=True))
    return {}


def launched_kernels(corpus: Corpus) -> set[str]:
    """Return the kernels of an installed package that one of its files launches, as static analysis sees it."""
    spec = importlib.util.find_spec(str(corpus.package))
    assert spec is not None
    assert spec.origin is not None
    base = Path(spec.origin).parent
    texts = {f: f.read_text() for f in sorted(base.rglob("*.py")) if not corpus.left_out.search(str(f))}
    everything = "\n".join(texts.values())
    found = set()
    for file, text in texts.items():
        if "triton" not in text:
            continue
        for kernel in analyze(text, str(file.relative_to(base.parent))).kernels:
            elsewhere = re.search(rf"(?<!def )\b{re.escape(kernel.name)}\[", everything)
            if kernel.launch_sites or elsewhere:
                found.add(f"{kernel.file}::{kernel.name}")
    return found


def jobs_of(corpus: Corpus, only: list[str]) -> list[tuple[Program, str, str]]:
    """Return (program, entry, name) for every driver."""
    if corpus.package is None:
        files = sorted((CORPORA / "idioms").glob("*.py"))
        found = [(Program(str(f.parent), f.name), "main", "") for f in files if not f.name.startswith("_")]
    else:
        root = str(CORPORA)
        files = [CORPORA / f for f in corpus.drivers if (CORPORA / f).is_file()]
        found = [(Program(root, f.name), "function", name) for f in files for name in drivers_of(f)]
    return [job for job in found if not only or any(part in f"{job[0].file}:{job[2]}" for part in only)]


def expected_kernels(corpus: Corpus, jobs: list[tuple[Program, str, str]]) -> dict[str, int]:
    """Return how many kernels each idiom file launches, as its first line says."""
    if corpus.package is not None:
        return {}
    expected = {}
    for program, _, _ in jobs:
        first = (Path(program.root) / program.file).read_text().splitlines()[0]
        expected[program.file] = int(re.fullmatch(r"# kernels: (\d+)", first)[1])  # type: ignore[index]
    return expected


async def run(jobs: list[tuple[Program, str, str]], arch: str) -> list[Driven]:
    """Drive everything, one after the other."""
    results = []
    async with connect(OFFLINE, limits=LIMITS) as worker:
        for program, entry, name in jobs:
            done = await drive(worker, program, entry, name, arch)
            results.append(done)
            bad = [f"{k.rpartition('::')[2]}: {e}" for k, errors in done.launches.items() for e in errors]
            said = [done.failure, *bad, *done.stopped, *(f"differs from itself: {d}" for d in done.unlike_itself)]
            counts = f"{len(done.launches):3} kernels, {done.interpreted}/{done.calls} interpreted, {done.seconds}"
            print(f"{done.name:44} {counts}", *(f"\n      {s}" for s in said if s), flush=True)
    return results


def summary(corpus: Corpus, results: list[Driven], expected: dict[str, int], arch: str) -> dict[str, Any]:
    """Return what is kept of a run."""
    errors: dict[str, set[str]] = {}
    for done in results:
        prefix = f"{done.name}::" if corpus.package is None else ""
        for kernel, found in done.launches.items():
            errors.setdefault(prefix + kernel.rpartition("::")[2] if prefix else kernel, set()).update(found)
    captured = set(errors)
    left_out: dict[str, str] = {}
    if corpus.package is not None:
        known = launched_kernels(corpus)
        for file in corpus.drivers:
            left_out.update(table_of(CORPORA / file, "NOT_ON_THIS_PATH"))
        left_out = {k: why for k, why in left_out.items() if k in known - captured}
        missing = sorted(known - captured - set(left_out))
        total = len(captured) + len(missing)
    else:
        missing = [d.name for d in results if len(d.launches) < expected[d.name]]
        total = sum(max(expected[d.name], len(d.launches)) for d in results)
    compiled = [k for k in captured if not errors[k]]
    calls = sum(d.calls or 1 for d in results)
    return {
        "corpus": corpus.name,
        "environment": environment(corpus, arch),
        "kernels": total,
        "captured": len(captured),
        "compiled": len(compiled),
        "compiled_share": round(len(compiled) / max(1, total), 4),
        "drivers": len(results),
        "calls": calls,
        "interpreted": sum(d.interpreted for d in results),
        "interpreted_share": round(sum(d.interpreted for d in results) / max(1, calls), 4),
        "not_captured": missing,
        "not_compiled": {k: sorted(v) for k, v in sorted(errors.items()) if v},
        "not_interpreted": {d.name: d.stopped for d in results if d.stopped},
        "different_from_itself": {d.name: d.unlike_itself for d in results if d.unlike_itself},
        "drivers_that_stopped": {d.name: d.failure for d in results if d.failure},
        "not_on_this_path": left_out,
        "seconds": dict(sum((Counter(d.seconds) for d in results), Counter())),
        "kernels_of_drivers": {d.name: sorted(k.rpartition("::")[2] for k in d.launches) for d in results},
    }


def environment(corpus: Corpus, arch: str) -> dict[str, str]:
    """Return what the numbers hold for."""
    from importlib.metadata import version

    packages = {"liger": "liger-kernel", "fla": "fla-core"}
    named = ["torch", "triton", *([packages[corpus.name]] if corpus.name in packages else [])]
    versions = {name: version(name) for name in named}
    return {"python": platform.python_version(), "arch": arch, "date": time.strftime("%Y-%m-%d"), **versions}


def main() -> None:
    """Run a corpus and write its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", choices=sorted(CORPUS))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("-k", "--only", action="append", default=[])
    parser.add_argument("--arch", default="sm_90")
    given = parser.parse_args()
    corpus = CORPUS[given.corpus]
    jobs = jobs_of(corpus, given.only)
    if not jobs:
        sys.exit("No driver has such a name.")
    results = asyncio.run(run(jobs, given.arch))
    found = summary(corpus, results, expected_kernels(corpus, jobs), given.arch)
    shown = ("kernels", "captured", "compiled", "compiled_share", "calls", "interpreted", "interpreted_share")
    print({name: found[name] for name in shown})
    if not given.only:
        print("not captured:", *found["not_captured"], sep="\n  ")
    if given.output:
        given.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
