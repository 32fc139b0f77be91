"""Scripted model proposals through the whole loop: right, wrong, slow, uncompilable and worse, and what became of each.

    python benchmarks/bench_llm.py [--target local|offline|NAME] [--transport auto|http|recorded] [-o OUTPUT.json]

The proposals are for `examples/scale_shift.py`. With the `openai` package they go through a local HTTP server, as a
model's would; without it (`recorded`, chosen by itself) through the recorded transport. Exits with 1 when any outcome
is not the expected one. With a GPU (`--target local`) times are measured; `offline` predicts them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import datetime as dt
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripted_model import ScriptedModel, block, reply  # noqa: E402

from tritonforge.analysis import analyze  # noqa: E402
from tritonforge.config import LlmSettings, Settings  # noqa: E402
from tritonforge.diagnosis.assessment import yardstick  # noqa: E402
from tritonforge.domain.candidate import Trial  # noqa: E402
from tritonforge.domain.exchange import Answer, Exchange, Question, Usage  # noqa: E402
from tritonforge.domain.results import OptimizeResult  # noqa: E402
from tritonforge.jobs.session import open_session  # noqa: E402
from tritonforge.optimize import optimize  # noqa: E402
from tritonforge.profiling.ceilings import ceilings_of  # noqa: E402
from tritonforge.report.json_optimize import optimize_json  # noqa: E402
from tritonforge.rewrite.llm.client import OpenAiTransport  # noqa: E402
from tritonforge.rewrite.llm.engine import LlmEngine, proposal_number  # noqa: E402
from tritonforge.rewrite.llm.recording import Recorded  # noqa: E402
from tritonforge.rewrite.llm.transport import Transport  # noqa: E402
from tritonforge.store import open_store  # noqa: E402
from tritonforge.workload.specs import parse_spec  # noqa: E402
from tritonforge.workload.subject import Subject  # noqa: E402

FILE, KERNEL = "scale_shift.py", "scale_shift_kernel"
SPEC = "x=fp32[16777259] y=fp32[16777259] scale=0.5"
CODE = '''\
# title: {title}
@triton.jit
def scale_shift_kernel(x_ptr, y_ptr, out_ptr, scale, n_elements, BLOCK_SIZE: tl.constexpr):
    """Compute x * scale + y, BLOCK_SIZE elements a program."""
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * scale {op} y, mask=mask)


def scale_shift(x, y, scale):
    """Return x * scale + y for two contiguous CUDA tensors of one shape."""
{first}    out = torch.empty_like(x)
    n_elements = out.numel()
    block = {block}
    grid = (triton.cdiv(n_elements, block),)
    scale_shift_kernel[grid](x, y, out, scale, n_elements, BLOCK_SIZE=block)
    return {returned}
'''


def code(title: str, *, size: int = 1024, op: str = "+", first: str = "", returned: str = "out") -> str:
    """Return the kernel and its host function, changed."""
    lines = f"    {first}\n" if first else ""
    return block(CODE.format(title=title, block=size, op=op, first=lines, returned=returned))


@dataclass(frozen=True)
class Scripted:
    """A proposal and what must come of it: `stage` is where it ends, `says` stands in the reason."""

    name: str
    answer: str
    stage: str
    says: tuple[str, ...]


PROPOSALS = (
    Scripted("empty", "", "not run", ("empty",)),
    Scripted("prose", "Larger blocks would help.", "not run", ("no fenced Python block",)),
    Scripted("malicious", code("files", first="open('/tmp/canary', 'w')"), "not run", ("uses open",)),
    Scripted("library", code("torch", returned="out + 0.0"), "not run", ("+ on a tensor", "computes with the library")),
    Scripted("uncompilable", code("blocks of 1000", size=1000), "compiler", ("power of 2",)),
    Scripted("wrong", code("difference", op="-"), "gate", ("",)),
    Scripted("slow", code("tiny blocks", size=16), "time", ("slower",)),
    Scripted("right", code("larger blocks"), "suggested", ("",)),
)


def stage_of(trial: Trial, result: OptimizeResult) -> str:
    """Say where a trial ended."""
    if result.best is not None and trial.candidate == result.best.trial.candidate:
        return "suggested"
    if trial.verdict is not None and not trial.verdict.accepted:
        return "gate"
    if trial.reason.startswith("refused"):
        return "not run"
    return "time" if trial.time_us else "compiler"


@contextlib.contextmanager
def transport_for(kind: str, settings: LlmSettings) -> Iterator[tuple[Transport, str]]:
    """Yield what answers: the real client with a local server, or a recording."""
    if kind == "http" or (kind == "auto" and importlib.util.find_spec("openai") is not None):
        with ScriptedModel([reply(one.answer) for one in PROPOSALS]) as server:
            chosen = dataclasses.replace(settings, base_url=server.base_url)
            yield OpenAiTransport(chosen, environment={"OPENAI_API_KEY": "scripted"}), "http"
        return
    exchanges = [
        Exchange(
            Question("proposal", KERNEL, "", "", 0), Answer(one.answer, Usage(1000, len(one.answer) // 4)), "scripted",
            "a list", "chat", {"temperature": 0.0, "seed": 0}, at=float(number),
        )
        for number, one in enumerate(PROPOSALS)
    ]  # fmt: skip
    yield Recorded(exchanges, "the script"), "recorded"


async def run(folder: Path, target: str, budget: float, transport: Transport, settings: LlmSettings):
    """Run the loop; returns its result, the engine, and how long it took in seconds."""
    text = (folder / FILE).read_text()
    kernel = next(one for one in analyze(text, FILE).kernels if one.name == KERNEL)
    call = parse_spec(SPEC, file=FILE, function="scale_shift")
    engine = LlmEngine(transport, settings, root=str(folder))
    with open_store(folder) as store:
        async with open_session(Settings(folder), target) as session:
            judge = yardstick(session, ceilings=await ceilings_of(session, store))
            subject = Subject(str(folder), FILE, text, kernel, (call,))
            started = time.perf_counter()
            result = await optimize(subject, session, judge, [engine], budget_s=budget)
            took = time.perf_counter() - started
    await transport.close()
    return result, engine, took


def rows_of(result: OptimizeResult) -> list[dict[str, object]]:
    """Compare what came of each proposal with what must."""
    by_number = {proposal_number(trial.candidate): trial for trial in result.trials}
    before = sum(result.baseline_us.values())
    rows = []
    for number, one in enumerate(PROPOSALS, 1):
        trial = by_number.get(number)
        stage = stage_of(trial, result) if trial is not None else "missing"
        reason = trial.reason if trial is not None else ""
        after = sum((trial.time_us or {}).values()) if trial is not None else 0.0
        rows.append(
            {
                "proposal": one.name,
                "expected": one.stage,
                "ended": stage,
                "reason": reason,
                "verified": bool(trial and trial.verdict and trial.verdict.accepted),
                "origin": trial.candidate.origin if trial is not None else None,
                "speedup": round(before / after, 4) if after else None,
                "as_expected": stage == one.stage and any(word in reason for word in one.says),
            }
        )
    return rows


def main() -> int:
    """Run, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="local")
    parser.add_argument("--transport", choices=["auto", "http", "recorded"], default="auto")
    parser.add_argument("--budget", type=float, default=400.0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    settings = LlmSettings(model="scripted", max_rounds=len(PROPOSALS), timeout=60.0)
    folder = Path(tempfile.mkdtemp(prefix="tritonforge-llm-"))
    canary = Path("/tmp/canary")
    canary.unlink(missing_ok=True)
    try:
        shutil.copy(ROOT / "examples" / FILE, folder)
        (folder / "tritonforge.toml").touch()
        with transport_for(options.transport, settings) as (transport, through):
            result, engine, took = asyncio.run(run(folder, options.target, options.budget, transport, settings))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = rows_of(result)
    right = bool(result.best and result.best.trial.candidate.origin == "llm")
    fine = all(row["as_expected"] for row in rows) and right and not canary.exists()
    for row in rows:
        gain = f"{row['speedup']:.2f}x" if row["speedup"] else "-"
        mark = "as expected" if row["as_expected"] else f"NOT as expected ({row['expected']})"
        print(f"{row['proposal']:13} {row['ended']:10} {gain:>7}  {mark:12}  {str(row['reason'])[:70]}")
    if result.best:
        low, high = result.best.speedup_ci95
        gain = f"{result.best.speedup:.2f}x [{low:.2f}, {high:.2f}] {result.best.provenance}"
        print(f"suggested: {gain}, origin llm: {right}")
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": ["bench_llm.py", "--target", options.target],
        "transport": through,
        "target": vars(result.target),
        "cores": os.cpu_count(),
        "took_s": round(took, 1),
        "rounds": engine.spending.rounds,
        "tokens": engine.spending.usage.tokens,
        "malicious_ran": canary.exists(),
        "all_as_expected": fine,
        "proposals": rows,
        "result": optimize_json([result])["results"][0],
    }
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
