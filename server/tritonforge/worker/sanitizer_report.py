"""What compute-sanitizer prints, as sentences.

Its format is documented by example only, so nothing is relied on that an older or a newer one may lack: a report begins
with an unindented line, and its details are indented below.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^=========( *)(.*)$")
_DETAIL = 2
"""Details are indented by more spaces than this."""
_NO_REPORT = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK|INITCHECK|SYNCCHECK) SUMMARY|Target application|Program hit|"
    r"(Saved host|Host) (backtrace|Frame)|LEAK|No attachable process|"
    r"(Internal|Sanitizer) error|Error: (No|The|Target) |"
    r"Device not supported|Warning: (?!Race|Potential)|CUDA Exception",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"Invalid|Race reported|Potential \w+ hazard|hazard|out of bounds|misaligned|Uninitialized|Barrier|Malloc|Free",
    re.IGNORECASE,
)
_PLACE = re.compile(r"^at (.+)$")
_WHO = re.compile(r"^by thread (\(.+?\)) in block (\(.+?\))")
_NEAR = re.compile(r"^and is (.+?)( at 0x[0-9a-f]+)?( of size [\d,]+ bytes)?$", re.IGNORECASE)
_AND = re.compile(r"^and (?:is )?(Read|Write|Current|Atomic)\w* .*$", re.IGNORECASE)
_REFUSALS = (
    (r"device not supported|not supported on this (device|GPU)|unsupported (device|GPU)", "it does not know this GPU"),
    (r"driver.*(insufficient|too old|not compatible)|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "it does not fit the driver"),
    (r"CUDA_ERROR_NOT_PERMITTED|ptrace|permission|insufficient privileges", "it is not permitted to watch here"),
    (r"No attachable process|Failed to (inject|attach|launch)|target application", "it could not watch the program"),
    (r"unknown tool|unrecogni[sz]ed option|invalid option", "this version does not know its options"),
)


def errors_of(text: str, check: str) -> tuple[str, ...]:
    """Return what a log reports, one sentence for each place in the code, with how often where more than once."""
    counts: dict[str, int] = {}
    for head, details in _blocks(text):
        said = _sentence(head, details)
        counts[said] = counts.get(said, 0) + 1
    return tuple(f"{check}: {said}" + (f" ({n} times)" if n > 1 else "") for said, n in counts.items())


def refusal_in(said: str, status: int) -> str:
    """Return why a check that reported nothing did not come to its end; empty when it did."""
    if re.search(r"(ERROR|RACECHECK) SUMMARY: ?0 ", said, re.IGNORECASE):
        return ""
    for pattern, sentence in _REFUSALS:
        if re.search(pattern, said, re.IGNORECASE):
            return sentence
    if re.search(r"SUMMARY", said) and status == 0:
        return ""
    last = next((line.strip("= \t") for line in reversed(said.splitlines()) if line.strip("= \t")), "")
    return f"it ended with status {status}{f': {last[:200]}' if last else ''}"


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    reporting = False
    for line in text.splitlines():
        matched = _LINE.match(line.rstrip())
        if matched is None or not matched[2]:
            continue
        indent, said = len(matched[1]), matched[2]
        if indent <= _DETAIL:
            reporting = bool(_REPORT.search(said)) and not _NO_REPORT.search(said)
            if reporting:
                found.append((said, []))
        elif reporting:
            found[-1][1].append(said)
    return found


def _sentence(head: str, details: list[str]) -> str:
    """Join what was done, where, and how far beside the memory; who did it differs from thread to thread."""
    head = re.sub(r"^(Error|Warning): ", "", head)
    parts = [head]
    for detail in details:
        if re.match(r"(Saved host|Host Frame|Device Frame)", detail):
            break
        if _PLACE.match(detail) and len(parts) == 1:
            parts.append(detail)
        elif _AND.match(detail):
            parts.append(re.sub(r" \[\d+ hazards?\]", "", detail))
        elif _NEAR.match(detail):
            matched = _NEAR.match(detail)
            assert matched is not None
            parts.append(f"which is {_unnumbered(matched[1])}{matched[3] or ''}")
        elif "misaligned" in detail:
            parts.append("at a misaligned address")
    return " ".join(" ".join(parts).split())


def _unnumbered(distance: str) -> str:
    # Each lane is another distance away: one sentence for the place has to do.
    return re.sub(r"^[\d,]+ bytes? (after|before)", r"\1", distance)
