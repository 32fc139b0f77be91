"""How much `tritonforge trace` slows a training step and an inference step, on a GPU.

- training: a transformer block of liger operators (RMSNorm, SwiGLU, cross entropy) with AdamW, forward and backward;
- inference: 48 layers of small launches, as decoding with batch 1 makes them, where host time is what counts.

Two ways, `--how`:

- processes: a pair is two fresh processes that run the same loop, one traced and one alone, and a third one, alone too.
  All are warmed up, and then take turns: one makes a block of steps while the others wait, so that what else the
  machine does hits all. All that tracing does is in it, and also that two processes of the same program differ by some
  percent, traced or not: by how much, the third one tells (`control`, over the other that is alone).
  With `--cores 2 3` all run on the same two cores, at the same addresses and with the same hashes, so that they differ
  less.
- inside: one traced process, in which blocks of steps with counted launches and with Triton's own launchers take turns.
  That is what a launch costs once it was seen, and differs by less than 1 % where nothing is traced.

Steps are timed each to its end on the GPU.

    python benchmarks/bench_trace_overhead.py [--loops training inference] [--how processes inside] [--pairs 3]
        [--steps 400] [--quick] [--cores 2 3] [-o benchmarks/results/trace_overhead.json]

prints each pair when it is measured and writes what there is so far to the file, so that a run that is cut off has told
what it knew. At the end it prints the ratio (traced / alone) of the medians and of the fastest tenths (the 10th
percentile, which other work on the machine disturbs least) of the steps: of the two blocks of a turn, which lie side by
side in time, then the median over turns and over pairs, with a bootstrap 95 % interval over both. It exits with 1 when
one is above 5 %.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT = 1.05
QUICK_STEPS = 200
BLOCK = 20
"""Steps that are timed before it is the other process's turn."""
AGAIN = 2
"""Steps of a turn that are not timed: the process has waited, and its caches are cold."""
WARM_UP = 60
"""Steps of each process before its first turn."""
RESAMPLES = 1000

Turn = tuple[list[float], list[float]]
"""The steps in ms of a process alone, and of one that is traced, one block each."""


def p10(steps: list[float]) -> float:
    """Return the 10th percentile."""
    return sorted(steps)[len(steps) // 10]


STATISTICS: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "p10": p10}


def training(torch: Any) -> Callable[[], object]:
    """Return a step of training a small transformer of liger operators."""
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    torch.manual_seed(0)
    batch, length, width, inner, words, layers = 4, 512, 1024, 2816, 32000, 4
    options = {"device": "cuda", "dtype": torch.bfloat16}
    embed = torch.nn.Embedding(words, width, **options)
    head = torch.nn.Linear(width, words, bias=False, **options)
    blocks = torch.nn.ModuleList()
    for _ in range(layers):
        block = torch.nn.Module()
        block.norm1 = torch.nn.Parameter(torch.ones(width, **options))
        block.norm2 = torch.nn.Parameter(torch.ones(width, **options))
        block.qkv = torch.nn.Linear(width, 3 * width, bias=False, **options)
        block.out = torch.nn.Linear(width, width, bias=False, **options)
        block.gate = torch.nn.Linear(width, inner, bias=False, **options)
        block.up = torch.nn.Linear(width, inner, bias=False, **options)
        block.down = torch.nn.Linear(inner, width, bias=False, **options)
        blocks.append(block)
    parameters = [*embed.parameters(), *blocks.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    tokens = torch.randint(0, words, (batch, length), device="cuda")
    targets = torch.randint(0, words, (batch * length,), device="cuda")

    def norm(x: Any, weight: Any) -> Any:
        return LigerRMSNormFunction.apply(x, weight, 1e-6)

    def step() -> None:
        x = embed(tokens)
        for block in blocks:
            q, k, v = block.qkv(norm(x, block.norm1)).view(batch, length, 3, 16, 64).permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block.out(mixed.transpose(1, 2).reshape(batch, length, width))
            y = norm(x, block.norm2)
            x = x + block.down(LigerSiLUMulFunction.apply(block.gate(y), block.up(y)))
        loss = LigerCrossEntropyFunction.apply(head(x).view(-1, words), targets, None)
        loss = loss[0] if isinstance(loss, tuple) else loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def inference(torch: Any) -> Any:
    """Return a step of decoding with batch 1."""
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    torch.manual_seed(0)
    width, inner, layers = 1024, 2816, 48
    options = {"device": "cuda", "dtype": torch.bfloat16}
    weight = torch.ones(width, **options)
    gate, up, down = (
        torch.randn(shape, **options) * 0.01 for shape in ((width, inner), (width, inner), (inner, width))
    )
    x0 = torch.randn(1, 1, width, **options)

    @torch.inference_mode()
    def step() -> Any:
        x = x0
        for _ in range(layers):
            y = LigerRMSNormFunction.apply(x, weight, 1e-6)
            x = x + LigerSiLUMulFunction.apply(y @ gate, y @ up) @ down
        return x

    return step


def take_turns(torch: Any, step: Callable[[], object]) -> None:
    """Run a block of steps whenever a line is read, and print what each took in ms; ends when there are no more."""

    def timed() -> float:
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) * 1e3

    for _ in range(WARM_UP):
        timed()
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(AGAIN):
            timed()
        print(json.dumps([timed() for _ in range(BLOCK)]), flush=True)


def take_turns_inside(torch: Any, step: Callable[[], object], steps: int) -> None:
    """Print blocks of steps, each in ms: those with Triton's own launchers, and those with counted launches."""
    from triton.compiler.compiler import CompiledKernel

    def timed() -> float:
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) * 1e3

    for _ in range(WARM_UP * 3):  # until nothing new was seen for a while, and no function is watched any more
        timed()
    counted = [
        (kernel, name, vars(kernel)[name])
        for kernel in gc.get_objects()
        if isinstance(kernel, CompiledKernel)
        for name in ("_run", "run")
        if hasattr(vars(kernel).get(name), "__wrapped__")
    ]
    if not counted:
        sys.exit("no launch is counted in this process")
    turns: list[Turn] = []
    for i in range(max(1, steps // BLOCK)):
        blocks: dict[bool, list[float]] = {}
        for on in (i % 2 == 1, i % 2 == 0):
            for kernel, name, launcher in counted:
                setattr(kernel, name, launcher if on else launcher.__wrapped__)
            for _ in range(AGAIN):
                timed()
            blocks[on] = [timed() for _ in range(BLOCK)]
        turns.append((blocks[False], blocks[True]))
    print(json.dumps(turns), flush=True)


PINNED: list[int] = []
"""The cores that processes run on, everywhere when empty."""

PROCESSES = ("alone", "traced", "alone too")
EMPTY = {"launches": [], "calls": [], "failures": []}
"""The report of a process that nobody traced."""

LOOPS: dict[str, Callable[[Any], Any]] = {"training": training, "inference": inference}


class Running:
    """A loop in a process of its own, traced when there is a `report` to write."""

    def __init__(self, name: str, report: Path | None = None, more: tuple[str, ...] = ()) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--loop", name, *more]
        if report is not None:
            command = [sys.executable, "-m", "tritonforge", "trace", "-o", str(report), "--", *command]
        environment = dict(os.environ)
        if PINNED:
            command = ["setarch", "-R", "taskset", "-c", ",".join(map(str, PINNED)), *command]
            environment["PYTHONHASHSEED"] = "0"
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def answer(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} failed with {self.process.wait()}")
        return line

    def block(self) -> list[float]:
        """Let it run a block of steps; return what each took in ms."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [float(ms) for ms in json.loads(self.answer())]

    def end(self) -> None:
        """Let it end, and wait for it."""
        self.process.communicate()


def measured(name: str, pairs: int, steps: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure a loop; yields what is known of it after each pair."""
    report = folder / f"{name}.json"
    found: list[list[Turn]] = []
    controls: list[list[Turn]] = []
    first = Running(name)  # compiles, so that none of those that are measured does
    first.answer()
    first.end()
    for pair in range(pairs):
        order = PROCESSES if pair % 2 else PROCESSES[::-1]  # what starts last must not always be the same
        running = {who: Running(name, report if who == "traced" else None) for who in order}
        for process in running.values():
            process.answer()
        turns: list[Turn] = []
        control: list[Turn] = []
        for turn in range(max(1, steps // BLOCK)):
            at = turn % len(PROCESSES)
            blocks = {who: running[who].block() for who in (*PROCESSES[at:], *PROCESSES[:at])}
            turns.append((blocks["alone"], blocks["traced"]))
            control.append((blocks["alone"], blocks["alone too"]))
        for process in running.values():
            process.end()
        found.append(turns)
        controls.append(control)
        yield {**summary(found, json.loads(report.read_text())), "control": summary(controls, EMPTY)["median"]}


def measured_inside(name: str, pairs: int, steps: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure a loop in traced processes, one for each pair; yields what is known of it after each."""
    report = folder / f"{name}-inside.json"
    found: list[list[Turn]] = []
    for _ in range(pairs):
        process = Running(name, report, ("--how", "inside", "--steps", str(steps)))
        found.append([(alone, traced) for alone, traced in json.loads(process.answer())])
        process.end()
        yield summary(found, json.loads(report.read_text()), steps=WARM_UP * 3 + len(found[-1]) * (BLOCK + AGAIN))


def summary(pairs: list[list[Turn]], report: dict[str, Any], steps: int | None = None) -> dict[str, Any]:
    """Return the ratios of `pairs`, and what the last traced process recorded in so many counted steps."""
    launches = report["launches"]
    steps = steps or WARM_UP + len(pairs[-1]) * (BLOCK + AGAIN)
    result: dict[str, Any] = {}
    for name, statistic in STATISTICS.items():
        of_pairs = [sides(turns, statistic) for turns in pairs]
        result[name] = {
            "pairs_ms": of_pairs,
            "ratios": [ratio(turns, statistic) for turns in pairs],
            "ratio": statistics.median(ratio(turns, statistic) for turns in pairs),
            "ratio_ci95": interval(pairs, statistic),
        }
    return {
        **result,
        "distinct_launches": len(launches),
        "launches_a_step": sum(one["count"] for one in launches) / steps,
        "host_calls": len(report["calls"]),
        "timed": sum(one["time_us"] is not None for one in launches),
        "failures": report["failures"],
    }


def sides(turns: list[Turn], statistic: Callable[[list[float]], float]) -> tuple[float, float]:
    """Return a statistic of the steps in ms of a process alone, and of those of a traced one."""
    alone, traced = ([ms for turn in turns for ms in turn[side]] for side in (0, 1))
    return statistic(alone), statistic(traced)


def ratio(turns: list[Turn], statistic: Callable[[list[float]], float]) -> float:
    """Return traced over alone: the median over turns, whose two blocks lie side by side in time."""
    return statistics.median(statistic(traced) / statistic(alone) for alone, traced in turns)


def interval(pairs: list[list[Turn]], statistic: Callable[[list[float]], float]) -> tuple[float, float]:
    """Return a bootstrap 95 % interval of the median ratio: pairs are drawn anew, and within each its turns."""
    source = random.Random(0)
    ratios = []
    for _ in range(RESAMPLES):
        drawn = [ratio(source.choices(turns, k=len(turns)), statistic) for turns in source.choices(pairs, k=len(pairs))]
        ratios.append(statistics.median(drawn))
    ratios.sort()
    return ratios[RESAMPLES // 40], ratios[-1 - RESAMPLES // 40]


HOW = {"processes": measured, "inside": measured_inside}


def main() -> int:
    """Measure the loops that were asked for, printing and writing as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--how", nargs="+", choices=HOW, default=list(HOW))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="timed steps of each process")
    parser.add_argument("--quick", action="store_true", help=f"time {QUICK_STEPS} steps of each process")
    parser.add_argument("--cores", nargs="+", type=int, default=[], help="run every process on these cores alone")
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    steps = options.steps or (QUICK_STEPS if options.quick else 400)
    import torch

    if options.loop:
        step = LOOPS[options.loop](torch)
        if options.how == ["inside"]:
            take_turns_inside(torch, step, steps)
        else:
            take_turns(torch, step)
        return 0
    PINNED.extend(options.cores)
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "python": sys.version.split()[0]}
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for loop, how in [(loop, how) for how in options.how for loop in options.loops]:
            name = loop if how == "processes" else f"{loop}, {how}"
            for result in HOW[how](loop, options.pairs, steps, Path(folder)):
                results[name] = result
                print(f"{name}: {said(result)}", flush=True)
                if options.output:
                    written = {**about, "pairs": options.pairs, "steps": steps, "cores": PINNED, "loops": results}
                    options.output.write_text(json.dumps(written, indent=2) + "\n")
    print_table(results)
    return int(any(result[name]["ratio"] > LIMIT for result in results.values() for name in STATISTICS))


def said(result: dict[str, Any]) -> str:
    """Say what the last pair was."""
    parts = []
    for name in STATISTICS:
        alone, traced = result[name]["pairs_ms"][-1]
        cost = (result[name]["ratios"][-1] - 1) * alone * 1e3 / result["launches_a_step"]
        found = f"{name} alone {alone:.3f} ms, traced {traced:.3f}, side by side {result[name]['ratios'][-1]:.4f}"
        parts.append(f"{found}, {cost:.2f} us a launch")
    if "control" in result:
        parts.append(f"two alone {result['control']['ratios'][-1]:.4f}")
    return "; ".join(parts)


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print medians and ratios as Markdown."""
    print("| loop | launches a step | of the steps | alone, ms | traced, ms | us a launch | ratio | 95 % |")
    print("|" + " --- |" * 8)
    for name, result in results.items():
        for kind in STATISTICS:
            pairs = result[kind]["pairs_ms"]
            alone, traced = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            cost = (result[kind]["ratio"] - 1) * alone * 1e3 / result["launches_a_step"]
            low, high = result[kind]["ratio_ci95"]
            print(
                f"| {name} | {result['launches_a_step']:.0f} | {kind} | {alone:.3f} | {traced:.3f} | {cost:.2f} "
                f"| {result[kind]['ratio']:.4f} | {low:.4f} to {high:.4f} |"
            )


if __name__ == "__main__":
    sys.exit(main())
