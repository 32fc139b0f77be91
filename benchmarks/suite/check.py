"""Check every plain kernel against its reference in Triton's interpreter, at small sizes with ragged ends.

    python benchmarks/suite/check.py [--file FILE] [NAME …]

Needs torch and triton and no GPU. Two seeds for each size; a wrong result is printed and the exit code is 1. With
`--file`, another version of the one kernel that is named is checked in place of the plain file.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

os.environ["TRITON_INTERPRET"] = "1"  # has to be set before Triton is imported
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from triton.runtime.autotuner import Autotuner

from suite.case import Case, Draw, difference, judge, outputs_of, plain_call
from suite.cases import BY_NAME, PLAIN
from suite.loading import load, plain
from tritonforge.worker.interpreter import bfloat16

bfloat16.install()  # the interpreter by itself multiplies the bits of bf16 as if they were integers


@contextlib.contextmanager
def _no_cuda() -> Iterator[None]:
    """Let `torch.cuda.device` be entered without a GPU."""
    before = torch.cuda.device
    torch.cuda.device = lambda _device: contextlib.nullcontext()
    try:
        yield
    finally:
        torch.cuda.device = before


def _configurations(module: ModuleType) -> Iterator[None]:
    """Yield once for each configuration of an autotuned kernel, which is the only one meanwhile; else once."""
    tuners = [one for one in vars(module).values() if isinstance(one, Autotuner)]
    if not tuners:
        yield
    for tuner in tuners:
        for config in list(tuner.configs):
            tuner.configs = [config]  # a choice would be made by timing, which needs a GPU
            yield


def check(case: Case, module: ModuleType | None = None, seeds: tuple[int, ...] = (0, 1)) -> tuple[float, str]:
    """Run a case's kernel (of `module`, default: its plain file) on its small sizes.

    Returns:
        The worst error, and what is wrong or an empty text.
    """
    worst = 0.0
    module = module or plain(case.name)
    function = getattr(module, case.function)
    with _no_cuda():
        for _ in _configurations(module):
            for sizes, seed in itertools.product(case.small, seeds):
                arguments = case.make(sizes, Draw("cpu", seed))
                error, problem = judge(case, arguments, outputs_of(function(*arguments)))
                worst = max(worst, error)
                if problem:
                    return worst, f"{dict(sizes)}: {problem}"
    return worst, ""


def check_references(case: Case, seed: int = 0) -> tuple[list[str], str]:
    """Run the references of a case that run without a GPU; returns their names, and which one is wrong if any is.

    A reference may return less than the kernel (a loss without its log-sum-exp), and in a type of its own.
    """
    factories = {case.label: plain_call(case.eager)} if case.timed else {}
    factories |= {name: one for name, one in case.others.items() if name.startswith(("torch", "PyTorch", "cuBLAS"))}
    ran = []
    for name, prepare in factories.items():
        arguments = case.make(case.small[0], Draw("cpu", seed))
        try:
            got = outputs_of(prepare(*arguments)())
        except (RuntimeError, NotImplementedError):
            continue  # the CPU lacks it, or asks for sizes that are whole multiples of something
        ran.append(name)
        if case.judge is not None:
            problem = case.judge(arguments, got)
        else:
            pairs = zip(got, case.right(arguments), strict=False)
            compared = [difference(one, other, case.tolerance) for one, other in pairs]
            problem = "" if all(good for _, good in compared) else f"off by {max(error for error, _ in compared):.3g}"
        if problem:
            return ran, f"{name}: {problem}"
    return ran, ""


def main() -> int:
    """Check the named cases, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases (default: all)")
    parser.add_argument("--file", type=Path, help="check this version of the one named kernel")
    options = parser.parse_args()
    names = options.names or [case.name for case in PLAIN]
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        parser.error(f"no case is called {unknown[0]}; there are {', '.join(BY_NAME)}")
    if options.file and len(names) != 1:
        parser.error("--file is a version of one kernel: name it")
    failed = 0
    for name in names:
        began = time.perf_counter()
        worst, problem = check(BY_NAME[name], load(options.file) if options.file else None)
        references: list[str] = []
        if not problem and not options.file:
            references, problem = check_references(BY_NAME[name])
        failed += bool(problem)
        said = f"wrong: {problem}" if problem else f"right, {worst:.1e}, {len(references)} references agree"
        print(f"{name:24} {said}  {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{len(names) - failed} of {len(names)} are right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
