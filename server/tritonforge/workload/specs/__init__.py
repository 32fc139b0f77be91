"""Launch specs: the words after `# tritonforge: launch`, and `[[launch]]` tables, → `Call`s.

A spec is a line of `name=value` pairs. Above a host function the names are its parameters; above a kernel they are the
kernel's, with `grid=` and compiler options beside them. Names that are no parameters are sizes, and one that is
chosen `in` several values makes a call for each:

    # tritonforge: launch x=fp16[M, 4096] scale=0.5 M in [1, 128, 4096]
    # tritonforge: launch x=fp32[n] out=fp32[n] n=1000003 BLOCK=1024 grid=cdiv(n, BLOCK) num_warps=4

`docs/launch-specs.md` is the whole reference. `tokens` → `parsing` (a tree, `syntax`) → `calls`, which evaluates
`values`, `tensors`, `recipes`, `expressions`, `options` and `grids` for each combination of sizes.
"""

from __future__ import annotations

from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import HostFunction, Kernel
from tritonforge.domain.launch import Call
from tritonforge.workload.specs.calls import MAX_CALLS, Subject, calls_of, with_id
from tritonforge.workload.specs.errors import Place, SpecError
from tritonforge.workload.specs.options import OPTIONS
from tritonforge.workload.specs.parsing import parse

__all__ = ["MAX_CALLS", "OPTIONS", "SpecError", "parse_spec", "parse_specs", "with_id"]


def parse_specs(
    text: str,
    *,
    file: str,
    function: str,
    line: int = 1,
    column: int = 1,
    kernel: Kernel | None = None,
    host: HostFunction | None = None,
) -> tuple[Call, ...]:
    """Turn a spec's words into repeatable calls of `function`, one for each combination of its sizes.

    Args:
        text: the words; later lines start at column 1 of the file's next lines.
        file: the file that defines the function, as `Call.file`.
        function: its qualified name.
        line: where the text starts, for errors.
        column: the same, 1-based in code points.
        kernel: given when `function` is a kernel itself; then `grid=` is required and options are allowed.
        host: what is known of the host function; without it every `name=value` is taken for an argument.

    Raises:
        SpecError: with the position of the character that is wrong.
    """
    place = Place(file, text, line, column)
    return calls_of(parse(text, place), Subject(file, function, kernel, host), place)


def parse_spec(
    text: str, *, file: str, function: str, line: int = 1, column: int = 1, kernel: Kernel | None = None
) -> Call:
    """Return the one call that a spec without several sizes describes; see `parse_specs`.

    Raises:
        SpecError: as `parse_specs` does.
        UsageError: when the spec describes several calls.
    """
    calls = parse_specs(text, file=file, function=function, line=line, column=column, kernel=kernel)
    if len(calls) > 1:
        raise UsageError(f"{file}:{line}:{column}: this spec describes {len(calls)} calls where one is wanted.")
    return calls[0]
