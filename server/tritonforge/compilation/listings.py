"""The compiler's texts as a person reads them, each row with the user's lines that it comes from.

What only carries locations (`loc(…)`, `.loc`, comments of the disassembler, debug sections) is left out of the rows: it
has become their lines. Inlined code is charged as everywhere: to the innermost of the user's own lines, library
functions to the line that calls them; the lines that inlined it follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tritonforge.compilation.instruction import Instruction
from tritonforge.compilation.locations import Frame, read_locations, same_file
from tritonforge.compilation.machine import read_machine
from tritonforge.compilation.ttir import inlined_callers
from tritonforge.domain.kernel_report import Listing, ListingKind

ARTEFACTS = ("ttir", "ttgir", "ptx", "sass")
"""What a `Compile` job is to hand back for `listings` (of AMD `sass` is its assembly)."""

Lines = tuple[int, ...]


def listings(artefacts: Mapping[str, str], file: str, default_line: int | None = None) -> tuple[Listing, ...]:
    """Return the listings of a compiled launch, from the compiler's first form to the last.

    `file` is the absolute path of the kernel's file as line tables name it; `default_line` takes machine instructions
    in front of any that can be placed. A text that is missing is left out; nothing is raised.
    """
    ttir, sass = artefacts.get("ttir", ""), artefacts.get("sass", "")
    kinds: tuple[ListingKind, ...] = ("ttir", "ttgir")
    found = [mlir_listing(kind, text, file) for kind in kinds if (text := artefacts.get(kind, ""))]
    if ptx := artefacts.get("ptx", ""):
        found.append(ptx_listing(ptx, file))
    if sass:
        found.append(machine_listing(sass, file, inlined_callers(ttir, file), default_line))
    return tuple(found)


def mlir_listing(kind: ListingKind, text: str, file: str) -> Listing:
    """Return Triton's IR without its locations; what opens a region has the location behind the region's end."""
    locations = read_locations(text, file)
    known: dict[str, Lines] = {}
    rows: list[str] = []
    lines: list[Lines] = []
    open_regions: list[list[int]] = []
    for raw in text.splitlines():
        if raw.startswith("#loc") or not raw.strip():
            continue
        row, location = _without_locations(raw)
        if location not in known:
            known[location] = _user_lines(locations.chain(location), file) if location else ()
        rows.append(row)
        lines.append(known[location])
        stripped = row.strip()
        opened = [*(open_regions.pop() if stripped.startswith("}") and open_regions else []), len(rows) - 1]
        if stripped.endswith("{"):
            open_regions.append(opened)
        elif len(opened) > 1:
            for index in opened:
                lines[index] = lines[index] or known[location]
    return Listing(kind, tuple(rows), tuple(lines))


def _without_locations(row: str) -> tuple[str, str]:
    """Return an MLIR line without any `loc(…)`, and the last of them."""
    location = ""
    while (start := row.rfind(" loc(")) >= 0:
        end = _closing(row, start + len(" loc"))
        location = location or row[start + 1 : end]
        row = row[:start] + row[end:]
    return row.rstrip(), location


def _closing(text: str, opening: int) -> int:
    """Return the index behind the parenthesis that closes the one at `opening`, quoted text aside."""
    depth, quoted = 0, False
    for index in range(opening, len(text)):
        character = text[index]
        if character == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif not quoted and character == "(":
            depth += 1
        elif not quoted and character == ")":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.MULTILINE)
_PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+([^/]*)(?://\s*(.*))?$")
_INLINED_AT = re.compile(r"inlined_at\s+(\d+)\s+(\d+)")
_FRAME = re.compile(r"([^\s@\[\]]+):(\d+):\d+")
_PTX_END = re.compile(r"^\s*\.(?:section|file)\b")


def ptx_listing(text: str, file: str) -> Listing:
    """Return PTX from its first function on, without locations and debug sections."""
    files = {
        m[1]: f"{m[2]}/{m[3]}" if m[3] and not m[3].startswith("/") else m[3] or m[2] for m in _PTX_FILE.finditer(text)
    }
    by_name = {path.rpartition("/")[2]: path for path in files.values()}
    rows: list[str] = []
    lines: list[Lines] = []
    here: Lines = ()
    inside = False
    for raw in text.splitlines():
        stripped = raw.strip()
        if stripped.startswith(".loc"):
            found = _PTX_LOC.match(raw)
            if found and found[2] != "0":  # a zero: of no line in particular, so of the one before
                outer = [(files.get(number, ""), int(line)) for number, line in _INLINED_AT.findall(found[3])]
                named = [(by_name.get(name, name), int(line)) for name, line in _FRAME.findall(found[4] or "")[1:]]
                here = _user_lines([(files.get(found[1], ""), int(found[2])), *(outer or named)], file)
            continue
        if _PTX_END.match(raw) and inside:
            break
        if not stripped or stripped.startswith(("//", "$L__tmp", "$L__func")):
            continue
        inside = inside or stripped.startswith((".visible", ".entry", ".func"))
        rows.append(raw.rstrip().expandtabs(8))
        lines.append(here if inside and not stripped.startswith(("$", ".", "{", "}", ")")) else ())
    return Listing("ptx", tuple(rows), tuple(lines))


def machine_listing(
    text: str, file: str, callers: Mapping[Frame, Sequence[int]] | None = None, default_line: int | None = None
) -> Listing:
    """Return the instructions and labels of NVIDIA's disassembly or AMD's assembly, placed as `read_machine` does."""
    machine = read_machine(text, file, callers, default_line)
    amd = machine.amd
    placed = {one.row: _placed(one, line, file) for one, line in zip(machine.stream, machine.lines, strict=True)}
    rows: list[str] = []
    lines: list[Lines] = []
    for number, raw in enumerate(text.splitlines()):
        if number in placed:
            rows.append(_machine_row(raw, amd=amd))
            lines.append(placed[number])
        elif _LABEL.match(raw) or (amd and _OTHER_AMD.match(raw)):
            rows.append(raw.partition(";")[0].rstrip().expandtabs(8))
            lines.append(())
    return Listing("amdgcn" if amd else "sass", tuple(rows), tuple(lines))


_LABEL = re.compile(r"^\s*\.(?:LBB|L_x_)\w+:")
_OTHER_AMD = re.compile(r"^\s+[a-z]\w+(?:\s|$)")
_ADDRESS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s*(.*?)\s*;?\s*(?:/\*.*)?$")


def _machine_row(raw: str, *, amd: bool) -> str:
    if amd:
        return raw.rstrip().expandtabs(8)
    found = _ADDRESS.match(raw)
    return f"{found[1]}  {found[2]}" if found else raw.strip()


def _placed(instruction: Instruction, line: int | None, file: str) -> Lines:
    own = _user_lines(instruction.frames, file)
    return own if own or line is None else (line,)


def _user_lines(chain: Iterable[Frame], file: str) -> Lines:
    """Return the lines of `file` on a chain of inlined frames, innermost first, each once."""
    return tuple(dict.fromkeys(line for name, line in chain if line > 0 and same_file(name, file)))
