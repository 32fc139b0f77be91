"""A kernel with everything known of it, and a model that answers from a list, for tests of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tritonforge.analysis import analyze
from tritonforge.config import LlmSettings
from tritonforge.domain.candidate import Candidate, Trial, Verdict
from tritonforge.domain.compilation import Compilation, Occupancy, Resources, Waves
from tritonforge.domain.exchange import Answer, Exchange, Question, Usage
from tritonforge.domain.finding import Bottleneck, Finding
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import CallSite, Config, Launch, Problem, Scalar, Tensor
from tritonforge.domain.profile import LineHeat, Roofline
from tritonforge.domain.provenance import Evidence
from tritonforge.domain.results import Assessment
from tritonforge.domain.source import Range
from tritonforge.rewrite.llm.engine import LlmEngine
from tritonforge.rewrite.protocol import Task

FILE = "secret_project/kernels.py"
TEXT = '''\
"""Kernels of a project that nobody else shall hear of."""

import os

import torch
import triton
import triton.language as tl

from secret_project.billing import customer_names

BLOCK = 64
API_TOKEN = "hf_abcdefghijklmnopqrstuvwx"


def unrelated():
    return open("/home/alice/private/list.txt").read(), customer_names, API_TOKEN


@triton.jit
def twice(value):
    return value + value


@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr):
    """Twice x * scale. See /home/alice/notes/scale.md, written by alice for bob@example.com."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, twice(x * scale), mask=mask)


def scale(x, by):
    out = torch.empty_like(x)
    n = out.numel()
    # token: sk-live-abcdefghijklmnop
    grid = (triton.cdiv(n, BLOCK),)
    scale_kernel[grid](x, out, by, n, BLOCK_SIZE=BLOCK)
    return out
'''
FASTER = """\
@triton.jit
def scale_kernel(x_ptr, out_ptr, scale, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, twice(x * scale), mask=mask)


def scale(x, by):
    out = torch.empty_like(x)
    n = out.numel()
    block = {block}
    grid = (triton.cdiv(n, block),)
    scale_kernel[grid](x, out, by, n, BLOCK_SIZE=block)
    return out
"""


def kernel_of(text: str = TEXT) -> Kernel:
    return next(one for one in analyze(text, FILE).kernels if one.name == "scale_kernel")


def launch(number: int = 1, n: int = 1 << 24, time_us: float | None = 150.0) -> Launch:
    tensor = Tensor((n,), (1,), "float32")
    return Launch(
        f"launch{number}",
        FILE,
        "scale_kernel",
        Problem((("x_ptr", tensor), ("out_ptr", tensor), ("scale", Scalar(2.0)), ("n", Scalar(n)))),
        Config((("BLOCK_SIZE", Scalar(64)),), (("num_warps", Scalar(4)),), (n // 64, 1, 1)),
        CallSite(FILE, 35, "scale"),
        count=3 if number == 1 else 1,
        rank=number,
        time_us=time_us,
    )


def task(text: str = TEXT, *, launches: int = 2, findings: int = 1) -> Task:
    kernel = kernel_of(text)
    made = tuple(launch(number, 1 << (25 - number)) for number in range(1, launches + 1))
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "x = tl.load" in one)
    compilation = Compilation(
        launch="launch1",
        kernel="scale_kernel",
        arch="sm_90",
        triton="3.7.1",
        resources=Resources(14, 0, 0),
        occupancy=Occupancy(1.0, 16, 64, "warps"),
    )
    finding = Finding(
        "TF304", "block-too-small", "hint", FILE, Range.of(line, 5, line, 20),
        "Starting 262,144 programs takes about 159 µs (/home/alice/ws/secret_project/kernels.py:30).", "derived",
        {"programs": Evidence(262144, "1", "source"), "start_time": Evidence(159.0, "µs", "predicted")}, 3.31, "launch1",
    )  # fmt: skip
    bottleneck = Bottleneck("block-too-small", 0.85, "derived", "262,144 programs of 192 bytes per warp.")
    roof = Roofline(1.3e8, 0.0, 900.0, None, 4800.0, 60.0, 0.27, "memory")
    return Task(
        kernel,
        {FILE: text},
        made,
        (finding,) * findings,
        {"launch1": bottleneck},
        "sm_90",
        gpu="NVIDIA H200",
        measured=True,
        assessments=(
            Assessment(compilation, None, bottleneck, {line: LineHeat(0.9)}, Waves(2112, 124.12, 124, 256, 1.0, 0.99)),
        ),
        rooflines={"launch1": roof},
        original=made,
    )


def verdict(*, accepted: bool, reason: str = "") -> Verdict:
    return Verdict(accepted, reason, ("as recorded",), "the original", "8x", 0.5 if not accepted else 1e-8, 1e-8)


def trial(candidate: Candidate, *, times=(75.0, 75.0), accepted=None, reason: str = "") -> Trial:
    judged = None if accepted is None else verdict(accepted=accepted, reason=reason)
    measured = {f"launch{number}": time for number, time in enumerate(times, 1)} if times else None
    return Trial(candidate, judged, measured, accepted=bool(accepted), reason=reason)


class Listed:
    """A transport that answers from a list: a text, an `Answer`, or an exception to raise; the last one for ever."""

    model = "listed"
    endpoint = "a list"

    def __init__(self, answers: Sequence[str | Answer | Exception | Callable[[Question], str]]) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.closed = False

    async def ask(self, question: Question, *, say: Callable[[str], None] = lambda _: None) -> Exchange:
        self.questions.append(question)
        answer = self.answers[min(len(self.questions), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(question)
        if isinstance(answer, str):
            answer = Answer(answer, Usage(1000, max(1, len(answer) // 4)))
        return Exchange(
            question, answer, self.model, self.endpoint, "chat", {"temperature": 0.0, "seed": 7}, at=time.time()
        )

    async def close(self) -> None:
        self.closed = True


def fenced(code: str) -> str:
    return f"Prose.\n\n```python\n{code}```\nMore prose."


def faster(block: int = 1024) -> str:
    return fenced(FASTER.format(block=block))


def engine(answers, root: str = "/home/alice/ws", **settings) -> tuple[LlmEngine, Listed]:
    transport = Listed(answers)
    return LlmEngine(transport, LlmSettings(model="listed", **settings), root=root), transport
