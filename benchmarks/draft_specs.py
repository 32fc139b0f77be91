"""Count how many kernels get a first launch spec that runs as it is: `python benchmarks/draft_specs.py [OUTPUT.json]`.

For each kernel of the examples, of the programs the tests run and of `liger-kernel`'s operators, a spec is drafted from
the source alone, read again, and the call it describes is repeated on the offline target, where each launch of the
kernel is compiled for sm_90. Nothing is launched, so no GPU is needed. `single` are kernels that a function of their
own file launches, which can be called with tensors and numbers; the rest are launched from another file, from
`backward` or from a method, and get a spec of their own. A compilation may take 60 s.
"""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import time
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.config import Settings
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.messages import Compile, Limits, Program
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session, open_session
from tritonforge.workload.drafting import first_spec
from tritonforge.workload.specified import hosts_of
from tritonforge.workload.specs import parse_specs

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(seconds=60.0)
Row = dict[str, object]


def corpora() -> dict[str, tuple[Path, list[Path]]]:
    """Return the folders to import from and the files of each corpus; a library that is not installed is left out."""
    found = {
        "examples": (ROOT, sorted((ROOT / "examples").glob("*.py"))),
        "test programs": (
            ROOT / "tests/worker_jobs/programs",
            sorted((ROOT / "tests/worker_jobs/programs").rglob("*.py")),
        ),
    }
    for folder in map(Path, sys.path):
        operators = folder / "liger_kernel" / "ops"
        if operators.is_dir():
            found["liger-kernel"] = (folder, sorted(operators.glob("*.py")))
            break
    return found


async def try_kernel(session: Session, root: Path, text: str, analysis: FileAnalysis, kernel: Kernel) -> Row:
    draft = first_spec(kernel, analysis)
    on_kernel = draft.subject == "kernel"
    row: Row = {
        "file": analysis.file.rpartition("/")[2], "kernel": kernel.name, "above": draft.function, "spec": draft.text,
        "single": any(host.called_as and host.parameters for host in hosts_of(kernel, analysis)),
    }  # fmt: skip
    (call,) = parse_specs(
        draft.text, file=analysis.file, function=draft.function, kernel=kernel if on_kernel else None,
        host=None if on_kernel else next(f for f in analysis.functions if f.name == draft.function),
    )  # fmt: skip
    program = Program(str(root), analysis.file, ((analysis.file, text),))
    try:
        result = await session.worker.run(Compile(program, call, session.arch, artefacts=()), limits=LIMITS)
    except JobError as error:
        return {**row, "launched": False, "compiled": False, "problem": error.failure.message}
    own = [one for one in result.launches if one.launch.kernel == kernel.name]
    problem = next((one.error for one in own if one.error), None) or ("" if own else "the call does not launch it")
    short = problem.split("\n")[0][:300]
    return {**row, "launched": bool(own), "compiled": bool(own) and not problem, "problem": short}


async def try_all(texts: dict[str, list[tuple[Path, str, str]]]) -> tuple[dict[str, list[Row]], Row]:
    rows: dict[str, list[Row]] = {}
    async with open_session(Settings(root=ROOT), "offline", python=sys.executable) as session:
        for corpus, files in texts.items():
            for root, name, text in files:
                analysis = analyze(text, name)
                for kernel in analysis.kernels:
                    row = await try_kernel(session, root, text, analysis, kernel)
                    rows.setdefault(corpus, []).append(row)
                    print(f"{'ok  ' if row['compiled'] else 'FAIL'} {row['file']}::{kernel.name} {row['problem']}")
        return rows, {
            "torch": session.described.torch, "triton": session.described.triton, "arch": session.arch,
        }  # fmt: skip


def main() -> None:
    started = time.perf_counter()
    texts = {
        name: [(root, path.relative_to(root).as_posix(), path.read_text()) for path in files]
        for name, (root, files) in corpora().items()
    }
    rows, versions = asyncio.run(try_all(texts))
    summary = {name: shares(found) for name, found in rows.items()}
    summary["all"] = shares([row for found in rows.values() for row in found])
    print(json.dumps(summary, indent=1))
    if len(sys.argv) > 1:
        body = {
            "date": time.strftime("%Y-%m-%d"),
            "environment": {"python": platform.python_version(), "machine": platform.machine(), **versions},
            "seconds": round(time.perf_counter() - started), "summary": summary, "rows": rows,
        }  # fmt: skip
        Path(sys.argv[1]).write_text(json.dumps(body, indent=1) + "\n")


def shares(rows: list[Row]) -> Row:
    single = [row for row in rows if row["single"]]
    return {
        "kernels": len(rows), "compiled": sum(bool(r["compiled"]) for r in rows),
        "single": len(single), "single_compiled": sum(bool(r["compiled"]) for r in single),
        "single_launched": sum(bool(r["launched"]) for r in single),
    }  # fmt: skip


if __name__ == "__main__":
    main()
