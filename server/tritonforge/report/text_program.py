"""`profile -- COMMAND` for people: the program's Triton kernels by share of GPU time, on one screen."""

from __future__ import annotations

from tritonforge.domain.program import ProgramResult, RankedKernel
from tritonforge.report import wording
from tritonforge.report.symbols import short_name
from tritonforge.report.text import BLANK, WIDTH, Line, Span, Style, apart, bar, indent, line, shortened, table, wrap
from tritonforge.report.text_profile import LABEL, labelled, next_steps

_ROWS = 12
_NAME = 34
_BAR = 10
_OTHERS = 4
_OTHER_NAME = 48
_MISSING = 6
_LEAST_NAME, _BESIDE, _BESIDE_OTHER = 12, 38, 28
"""The fewest columns of a kernel's name on a narrow page, and those of what stands beside names there."""
_SMALL = 0.01
_WORTH = 1.005
"""A gain below that is not worth a command."""


def program_text(result: ProgramResult, *, width: int = WIDTH) -> list[Line]:
    """Return where the time went, at most `width` columns wide.

    That is a ranking, each kernel with class and headroom; what is missing; the next step.
    """
    out = [*_head(result, width), BLANK]
    out += _ranking(result, width) or [line("No Triton kernel was launched.")]
    if result.other:
        out += [BLANK, *_other(result, width)]
    if result.missing:
        out.append(BLANK)
        for sentence in result.missing[:_MISSING]:
            out += labelled("Missing", wrap([Span(sentence, "muted")], width=width - LABEL))
        if len(result.missing) > _MISSING:
            out += labelled(
                "", [line(Span(f"and {len(result.missing) - _MISSING} more: see the JSON (-o FILE)", "muted"))]
            )
    return [*out, *_next(result, width)]


def _head(result: ProgramResult, width: int) -> list[Line]:
    facts = [result.gpu or "no GPU", f"{wording.time_us(result.wall_s * 1e6)} in all"]
    if result.processes > 1:
        facts.append(f"{result.processes} processes on a GPU")
    if result.exit_code:
        facts.append(f"ended with {result.exit_code}")
    head = wrap([Span(shortened(" ".join(result.command), 96), "title")], width=width)
    head += wrap([Span(", ".join(facts), "muted")], width=width)
    return [*head, *wrap(_where(result), width=width)]


def _where(result: ProgramResult) -> list[Span | str]:
    kernels = wording.plural(len(result.kernels), "Triton kernel")
    if result.clock == "predicted" and not result.kernels:
        return []
    if result.clock == "predicted":
        gpu = f", as on {result.predicted_for}" if result.predicted_for else ""
        return [Span("Nothing was measured.", "warn"), f" Shares are of the time predicted for {kernels}{gpu}."]
    time = wording.time_us(result.gpu_time_us)
    if result.clock == "sampled" or result.triton_share is None:
        return ["GPU time ", Span(time, "number"), f" in {kernels}, sampled; what is not Triton's is not known."]
    return [
        "GPU time ",
        Span(time, "number"),
        ": ",
        Span(wording.percent(result.triton_share), "number"),
        f" in {kernels}, ",
        Span(wording.percent(result.other_share), "number"),
        " not Triton.",
    ]


def _ranking(result: ProgramResult, width: int) -> list[Line]:
    shown = [k for n, k in enumerate(result.kernels) if n < 3 or (n < _ROWS and k.share >= _SMALL)]
    if not shown:
        return []
    time = "predicted" if result.clock == "predicted" else "time"
    narrow = width < WIDTH
    names = ("#", "kernel", "share", "", time, "runs", "class", "headroom")
    heading = [Span(text, "muted") for text in ((*names[:2], *names[3:6]) if narrow else names)]
    if narrow:
        heading[2] = Span("share", "muted")
    cells = [_row(n, k) for n, k in enumerate(shown, 1)]
    if narrow:
        # What the kernel is held back by goes below it, and the bar says no more than the share.
        cells = [[row[0], *_name(row[1], width), *row[3:6]] for row in cells]
    rows = table([heading, *cells], right=(0, 2, 3, 4) if narrow else (0, 3, 4, 5))
    out = [rows[0]]
    for row, kernel in zip(rows[1:], shown, strict=True):
        out += [row, *_below(kernel, width, more=narrow)]
    rest = result.kernels[len(shown) :]
    if rest:
        together = wording.percent(sum(kernel.share for kernel in rest))
        out.append(line(Span(f"and {len(rest)} more, {together} together", "muted")).indented(4))
    return out


def _name(cell: Span | str, width: int) -> list[Span | str]:
    text = cell.text if isinstance(cell, Span) else cell
    return [Span(shortened(text, max(_LEAST_NAME, width - _BESIDE)), "title")]


def _row(rank: int, kernel: RankedKernel) -> list[Span | str]:
    style: Style = "good" if _kind(kernel) == "at-roofline" else "plain"
    return [
        str(rank),
        Span(shortened(kernel.name, _NAME), "title"),
        Span(bar(kernel.share, _BAR), "number"),
        Span(wording.percent(kernel.share), "number"),
        wording.time_us(kernel.time_us),
        f"{kernel.count:,}",
        Span(_kind(kernel), style),
        Span(_headroom(kernel), _headroom_style(kernel)),
    ]


def _kind(kernel: RankedKernel) -> str:
    return kernel.bottleneck.kind if kernel.bottleneck is not None else "—"


def _headroom(kernel: RankedKernel) -> str:
    if kernel.headroom is None:
        return "—"
    return "none" if kernel.headroom < 1.05 else f"up to {wording.factor(kernel.headroom)}"


def _headroom_style(kernel: RankedKernel) -> Style:
    return "warn" if kernel.headroom is not None and kernel.headroom >= 1.5 else "muted"


def _below(kernel: RankedKernel, width: int, *, more: bool) -> list[Line]:
    """Where the kernel is, and what the program would gain; `more`: class and headroom too, for which no column is."""
    place = shortened_place(wording.place(kernel.kernel) if kernel.kernel is not None else kernel.place)
    gain = kernel.program_gain
    remark = ""
    if gain is not None and gain >= _WORTH:
        remark = f"all kernels together {wording.factor(gain)} faster if it reached its roofline"
    out = wrap([Span(place, "muted"), *(apart(Span(remark, "muted")) if remark else ())], width=width - 4)
    if more:
        headroom = Span(f"headroom {_headroom(kernel)}", _headroom_style(kernel))
        out = [*wrap([_kind(kernel), ", ", headroom], width=width - 4), *out]
    return indent(out, 4)


def shortened_place(place: str, parts: int = 3) -> str:
    """Return a place of a file outside the workspace by its last folders: the first say nothing of the kernel."""
    if not place.startswith("/"):
        return place
    pieces = place.split("/")
    return place if len(pieces) <= parts + 1 else "…/" + "/".join(pieces[-parts:])


def _other(result: ProgramResult, width: int) -> list[Line]:
    """What is not Triton's, by names that say what it is: several mangled names may mean one function."""
    by_name: dict[str, tuple[float, int]] = {}
    for kernel in result.other:
        name = short_name(kernel.name)
        share, count = by_name.get(name, (0.0, 0))
        by_name[name] = (share + kernel.share, count + kernel.count)
    largest = sorted(by_name.items(), key=lambda item: -item[1][0])
    head = line(
        Span("Not Triton ", "title"),
        Span(wording.percent(result.other_share), "number"),
        Span(", most of it:", "muted"),
    )
    rows = table(
        [
            [
                wording.percent(share),
                Span(shortened(name, min(_OTHER_NAME, width - _BESIDE_OTHER)), "plain"),
                Span(f"{count:,} runs", "muted"),
            ]
            for name, (share, count) in largest[:_OTHERS]
        ],
        right=(0,),
    )
    return [head, *indent(rows, 4)]


def _next(result: ProgramResult, width: int) -> list[Line]:
    """Point at the kernel whose roofline would gain the program most, one of the user's own if there is one."""
    worth = [k for k in result.kernels if k.kernel is not None and (k.program_gain or 0.0) >= _WORTH]
    own = [k for k in worth if k.in_workspace]
    if not worth:
        return []
    best = max(own or worth, key=lambda k: k.program_gain or 0.0)
    assert best.kernel is not None
    whose = "" if best.in_workspace else " (outside the workspace)"
    purpose = f"where the program can gain most, {wording.factor(best.program_gain)} at best{whose}"
    return [BLANK, *next_steps([(f"tritonforge optimize {wording.kernel_path(best.kernel)}", purpose)], width)]
