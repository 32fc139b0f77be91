"""Numbers, launches and places in the words that a person reads."""

from __future__ import annotations

import math
import re

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, Entries, Items, Launch, Scalar, Symbol, Tensor, Value
from tritonforge.domain.profile import TargetInfo
from tritonforge.domain.provenance import Evidence

_NO_VALUE = "—"
_LINE_END = re.compile(r"\r\n|\r|\n")


_STALLS = {
    "long_scoreboard": "waiting for global or local memory",
    "short_scoreboard": "waiting for shared memory or special functions",
    "lg_throttle": "too many global or local accesses queued",
    "mio_throttle": "too many shared-memory or special instructions queued",
    "tex_throttle": "too many texture accesses queued",
    "math_pipe_throttle": "waiting for a busy arithmetic unit",
    "barrier": "waiting for other warps of the program",
    "membar": "waiting for a memory fence",
    "drain": "waiting for its last stores",
    "wait": "fixed latency of instructions",
    "no_instructions": "waiting for instructions to be fetched",
    "imc_miss": "waiting for constants",
    "branch_resolving": "waiting for a branch",
    "dispatch_stall": "held back by the dispatcher",
    "warpgroup_arrive": "waiting for the warps of its group",
    "sleeping": "asleep",
    "not_selected": "ready, another warp was chosen",
    "selected": "working",
}
"""Stall reasons as "Warp Stall Reasons" of NVIDIA's Kernel Profiling Guide explains them, in few words."""


def stall(reason: str) -> str:
    """Return a stall reason with what it means: `long scoreboard (waiting for global or local memory)`."""
    meaning = _STALLS.get(reason)
    name = reason.replace("_", " ")
    return f"{name} ({meaning})" if meaning else name


def time_us(value: float | None) -> str:
    """Return a time given in µs with three significant digits and the unit that suits it."""
    if value is None or not math.isfinite(value):
        return _NO_VALUE
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if value >= scale * 0.9995:
            return f"{_digits(value / scale)} {unit}"
    return f"{_digits(value)} µs"


def time_range_us(bounds: tuple[float, float]) -> str:
    """Return an interval of times given in µs, the unit said once where both have the same."""
    low, high = time_us(bounds[0]), time_us(bounds[1])
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0] or low
    return f"{low}–{high}"


def size(count: float) -> str:
    """Return a number of bytes in the binary unit that suits it."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= scale:
            return f"{_digits(count / scale)} {unit}"
    return f"{count:.0f} bytes"


def factor(value: float | None) -> str:
    """Return a speedup (before/after) such as `2.02x`."""
    if value is None or not math.isfinite(value):
        return _NO_VALUE
    return f"{value:.2f}x" if value < 9.995 else f"{value:.3g}x"


def rate(value: float) -> str:
    """Return a rate with three significant digits, its unit said elsewhere."""
    return _digits(value) if math.isfinite(value) else _NO_VALUE


def percent(share: float | None) -> str:
    """Return a share (0–1) in percent."""
    return _NO_VALUE if share is None or not math.isfinite(share) else f"{share * 100:.0f} %"


def plural(count: int, noun: str) -> str:
    """Return `1 launch`, `2 launches`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'sh', 'x')) else 's'}"


def error(value: float | None) -> str:
    """Return a relative error."""
    if value is None:
        return _NO_VALUE
    if not math.isfinite(value):
        return "not finite"
    return "0" if value == 0 else f"{value:.1e}"


def evidence(fact: Evidence) -> str:
    """Return the value of a fact with its unit."""
    value, unit = fact.value, fact.unit
    if value is None:
        return _NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if unit in {"", "1"} else f"{value} {unit}"
    if not math.isfinite(value):
        return _NO_VALUE
    if unit == "bytes":
        return size(value)
    if unit == "µs":
        return time_us(value)
    if unit == "%":
        return f"{_digits(value)} %"
    shown = f"{value:,}" if isinstance(value, int) else _digits(value)
    return shown if unit in {"", "1"} else f"{shown} {unit}"


def argument(value: Value) -> str:
    """Return an argument in short: `float16[4096×4096]` for a tensor, with strides where it is not contiguous."""
    if isinstance(value, Tensor):
        shape = "×".join(str(n) for n in value.shape)
        strides = "" if _contiguous(value) else f" strides {','.join(str(s) for s in value.strides)}"
        return f"{value.dtype}[{shape}]{strides}"
    if isinstance(value, Scalar):
        return repr(value.value) if isinstance(value.value, str) else str(value.value)
    if isinstance(value, Items):
        return f"({', '.join(argument(item) for item in value.items)})"
    if isinstance(value, Entries):
        return f"{{{', '.join(f'{name}: {argument(item)}' for name, item in value.items)}}}"
    return value.name if isinstance(value, Symbol) else value.repr


def problem(launch: Launch) -> str:
    """Return what a launch computes. Strides given as arguments are left out: the tensors say them.

    No-break spaces keep each argument together when the text is wrapped.
    """
    parts: list[str] = []
    for name, value in (*launch.problem.arguments, *launch.problem.constexprs):
        if isinstance(value, Tensor):
            parts.append(f"{name} {argument(value)}".replace(" ", "\N{NO-BREAK SPACE}"))
        elif not name.startswith("stride"):
            parts.append(f"{name}={argument(value)}")
    return ", ".join(parts)


def plain_problem(launch: Launch) -> str:
    """Return what a launch computes with plain blanks, for what is kept, compared, or shown on one line."""
    return problem(launch).replace("\N{NO-BREAK SPACE}", " ")


def config(chosen: Config) -> str:
    """Return how a launch computes it: tunable constexprs, options."""
    return " ".join(f"{name}={argument(value)}" for name, value in (*chosen.constexprs, *chosen.options))


def grid(launch: Launch) -> str:
    """Return the grid without trailing ones."""
    extents = list(launch.config.grid)
    while len(extents) > 1 and extents[-1] == 1:
        extents.pop()
    return "×".join(f"{extent:,}" for extent in extents)


def kernel_path(kernel: Kernel) -> str:
    """Return the kernel as the command line names it."""
    return f"{kernel.file}::{kernel.name}"


def place(kernel: Kernel) -> str:
    """Return where the kernel's name stands."""
    return f"{kernel.file}:{kernel.name_range.start.line}"


def target(info: TargetInfo) -> str:
    """Return what a target is: its name, then what is known of it."""
    facts = [info.gpu or ("" if info.kind == info.name else info.kind)]
    facts += [f"{name} {version}" for name, version in _versions(info) if version]
    known = ", ".join(fact for fact in facts if fact)
    return f"{info.name} ({known})" if known else info.name


def _versions(info: TargetInfo) -> tuple[tuple[str, str | None], ...]:
    return (("driver", info.driver), ("torch", info.torch), ("triton", info.triton))


def _digits(value: float) -> str:
    """Return `value` with three significant digits, without an exponent where it stays readable."""
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.2e}"
    if abs(value) < 1e-3:
        return f"{value:.1e}"
    places = 1 if abs(value) >= 9.995 else 2 if abs(value) >= 0.09995 else 4
    shown = f"{value:.{places}f}"
    return shown.rstrip("0").rstrip(".") if float(shown) == round(float(shown)) else shown


def _contiguous(tensor: Tensor) -> bool:
    expected = 1
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def source_lines(source: str) -> list[str]:
    """Cut Python source into lines as its parser counts them: `splitlines` also breaks at form feeds and U+2028."""
    lines = _LINE_END.split(source)
    return lines if lines[-1] else lines[:-1]


def compile_error(text: str) -> str:
    """Return what a compiler found wrong, without the name of the kernel that stands above it anyway."""
    _, said, why = text.partition(" does not compile: ")
    return why if said else text
