"""The corpus: kernels as users write them, edits that make them wrong (mutants) and edits that do not (variants)."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
KINDS = frozenset({
    "off-by-one", "dropped mask", "inverted mask", "wrong axis", "wrong stride", "wrong identity", "missing other",
    "reordered steps", "stale accumulator", "int32 overflow", "fewer iterations", "precision loss", "race",
    "wrong tail", "constant for a size", "constant for a stride", "constant for a value", "NaN or Inf handling",
    "partial output", "input mutated", "cached result", "library fallback", "non-contiguous", "other dtype",
    "sign, eps or scale", "program mapping", "hard-coded grid",
})  # fmt: skip
"""What can be wrong with a candidate; every mutant has one of these."""
SCHEDULES = frozenset({"in order", "reversed", "shuffled", "interleaved", "muted"})
"""How the programs of a launch are run for a witness; see README.md."""
VARIANT_KINDS = frozenset({
    "tile size", "launch parameters", "loop form", "other algorithm", "folded constant", "reassociated", "split order",
    "program order", "accumulator form", "address arithmetic", "cache hints", "more rows per program",
    "mask under a heuristic", "equivalent expression", "host function",
})  # fmt: skip
"""What a legitimate variant changes."""


class CorpusError(ValueError):
    """The data of the corpus contradict themselves."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, the `nth` time that it occurs (1-based); without `nth` it must occur once."""

    old: str
    new: str
    nth: int | None = None

    def apply(self, text: str) -> str:
        """Return the edited text.

        Raises:
            CorpusError: when `old` is not there, or there several times and `nth` does not say which is meant.
        """
        found = text.count(self.old)
        if found < (self.nth or 1) or (self.nth is None and found != 1) or self.old == self.new:
            raise CorpusError(f"{self.old!r} occurs {found} times, nth is {self.nth}")
        parts = text.split(self.old)
        place = self.nth or 1
        return self.old.join(parts[:place]) + self.new + self.old.join(parts[place:])


@dataclass(frozen=True)
class Variant:
    """A version of a kernel's file that must pass the gate."""

    id: str
    kind: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Mutant(Variant):
    """A version of a kernel's file that must be refused.

    `witness` names the input of the witness file on which it is wrong; `equivalent` proves in words that there is none
    (then it counts as neither). `schedule`: the order of programs that shows it. `gpu`: the interpreter shows it only
    by an emulated rounding, so a run on a GPU should confirm it.
    """

    witness: str = ""
    equivalent: str = ""
    schedule: str = "in order"
    gpu: bool = False


@dataclass(frozen=True)
class Subject:
    """One kernel file with everything that is known about it. `kernel` is the one that is judged."""

    name: str
    kernel: str
    host: str
    text: str
    witnesses: str
    mutants: tuple[Mutant, ...] = ()
    variants: tuple[Variant, ...] = ()
    by_id: Mapping[str, Variant] = field(default_factory=dict, compare=False)

    def edited(self, one: Variant) -> str:
        """Return the text of the file with the edits of `one`.

        Raises:
            CorpusError: when an edit does not apply.
        """
        text = self.text
        for edit in one.edits:
            try:
                text = edit.apply(text)
            except CorpusError as error:
                raise CorpusError(f"{self.name}/{one.id}: {error}") from None
        return text

    def digest(self, one: Variant) -> str:
        """Return what identifies the check of `one`: both texts, the witness file, the input and the schedule."""
        parts = [self.text, self.edited(one), self.witnesses]
        if isinstance(one, Mutant):
            parts += [one.witness, one.schedule, one.equivalent]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def load(names: Iterable[str] = ()) -> tuple[Subject, ...]:
    """Read the corpus, or only the kernels that are named.

    Raises:
        CorpusError: for wrong data.
    """
    wanted = set(names)
    known = {path.stem for path in (ROOT / "kernels").glob("*.toml")}
    if wanted - known:
        raise CorpusError(f"no such kernel: {', '.join(sorted(wanted - known))}")
    return tuple(_read(name) for name in sorted(wanted or known))


def _read(name: str) -> Subject:
    table = tomllib.loads((ROOT / "kernels" / f"{name}.toml").read_text())
    mutants = tuple(_mutant(name, one) for one in table.pop("mutant", []))
    variants = tuple(_variant(name, one) for one in table.pop("variant", []))
    every = (*mutants, *variants)
    by_id = {one.id: one for one in every}
    if len(by_id) != len(every):
        raise CorpusError(f"{name}: an id occurs twice")
    text = (ROOT / "kernels" / f"{name}.py").read_text()
    witnesses = (ROOT / "witnesses" / f"{name}.py").read_text()
    return Subject(name, table["kernel"], table["host"], text, witnesses, mutants, variants, by_id)


def _mutant(name: str, table: dict[str, Any]) -> Mutant:
    one = Mutant(**{**table, "edits": _edits(table)})
    if one.kind not in KINDS or one.schedule not in SCHEDULES:
        raise CorpusError(f"{name}/{one.id}: unknown kind {one.kind!r} or schedule {one.schedule!r}")
    if bool(one.witness) == bool(one.equivalent):
        raise CorpusError(f"{name}/{one.id}: a mutant has a witness or is proven equivalent")
    return one


def _variant(name: str, table: dict[str, Any]) -> Variant:
    one = Variant(**{**table, "edits": _edits(table)})
    if one.kind not in VARIANT_KINDS:
        raise CorpusError(f"{name}/{one.id}: unknown kind {one.kind!r}")
    return one


def _edits(table: dict[str, Any]) -> tuple[Edit, ...]:
    return tuple(Edit(**edit) for edit in table["edits"])
