"""Checks each mutant on its witness and each variant on every input, without any code of TritonForge."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch
from cases import Case, case
from comparing import CLEARLY, difference, expected
from corpus import ROOT, Mutant, Subject, Variant, load
from fencing import Side
from running import Ran, import_file, run
from triton.runtime.jit import mangle_type

SIDES = cast("tuple[Side, ...]", ("end", "start"))
SECONDS = 240.0


@dataclass(frozen=True)
class Checked:
    """What a check said; `observed` is how the mutant differs, or what is wrong with the data."""

    valid: bool
    observed: str
    digest: str


class Checker:
    """Checks one kernel; originals and references are computed once for each input and schedule."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self._subject = subject
        self._folder = folder
        self._witness: ModuleType = import_file(ROOT / "witnesses" / f"{subject.name}.py", f"witness_{subject.name}")
        self._cases: dict[str, Case] = {}
        self._wanted: dict[str, tuple[Any, ...]] = {}
        self._originals: dict[tuple[str, str, Side], Ran] = {}
        self._file("original", subject.text)

    def check(self, one: Variant) -> Checked:
        """Check a mutant on its witness, a variant on every input."""
        if not isinstance(one, Mutant):
            valid, observed = self._variant(one)
        elif one.equivalent:
            valid, observed = True, "proven equivalent"
        else:
            valid, observed = self._mutant(one)
        return Checked(valid, observed, self._subject.digest(one))

    def _mutant(self, mutant: Mutant) -> tuple[bool, str]:
        wrong = self._original(mutant.witness, mutant.schedule)
        if wrong:
            return False, f"the original is off: {wrong}"
        file = self._file(mutant.id, self._subject.edited(mutant))
        for side in SIDES:
            ran = self._run(file, mutant.witness, mutant.schedule, side)
            said = self._differs(ran, mutant, side)
            if said:
                return True, said
        return False, "the mutant agrees with the reference"

    def _differs(self, ran: Ran, mutant: Mutant, side: Side) -> str:
        case, wanted = self._case(mutant.witness), self._reference(mutant.witness)
        said = difference(ran, wanted, case, times=CLEARLY)
        if mutant.schedule == "muted":
            return "" if said else "right although its stores do nothing"
        original = self._originals[mutant.witness, mutant.schedule, side]
        if not said and ran.strides != original.strides:
            said = "shapes, strides or dtypes differ from the original's"
        return said

    def _original(self, name: str, schedule: str) -> str:
        """Say what is wrong with the original on an input; empty where it agrees with the reference."""
        for side in SIDES:
            if (name, schedule, side) not in self._originals:
                ran = self._run(self._folder / "original.py", name, schedule, side)
                self._originals[name, schedule, side] = ran
            ran = self._originals[name, schedule, side]
            said = difference(ran, self._reference(name), self._case(name))
            if schedule == "muted":
                said = "" if said and not ran.failure else "right although its stores do nothing"
            if said:
                return f"{name}: {said}"
        return ""

    def _variant(self, variant: Variant) -> tuple[bool, str]:
        file = self._file(variant.id, self._subject.edited(variant))
        for name in self._witness.INPUTS:
            for side in SIDES:
                if self._original(name, "in order"):
                    continue  # told with the mutants
                case = self._case(name)
                if not all(hasattr(call, "kwargs") for call in case.calls):
                    continue  # a variant may change what its kernel takes
                said = difference(self._run(file, name, "in order", side), self._reference(name), case)
                if said:
                    return False, f"{name}: {said}"
        return True, "agrees with the reference"

    def _run(self, file: Path, name: str, schedule: str, side: Side) -> Ran:
        host = self._subject.host
        return run(file, host, self._case(name), schedule=schedule, side=side, seconds=SECONDS)

    def _case(self, name: str) -> Case:
        if name not in self._cases:
            self._cases[name] = case(self._witness.INPUTS[name]())
        return self._cases[name]

    def _reference(self, name: str) -> tuple[Any, ...]:
        if name not in self._wanted:
            self._wanted[name] = expected(self._witness, self._case(name))
        return self._wanted[name]

    def _file(self, name: str, text: str) -> Path:
        file = self._folder / f"{name.replace('-', '_')}.py"
        file.write_text(text)
        return file


def main() -> None:
    """Check the items of the command line (`kernel/id`, or whole kernels) and print a JSON line for each."""
    torch.set_num_threads(1)  # children are forked
    for value in (1, torch.empty(1), 0.5):
        mangle_type(value)  # what this imports once need not be imported by each child
    for name, group in itertools.groupby(sys.argv[1:], lambda item: item.partition("/")[0]):
        (subject,) = load([name])
        ids = {item.partition("/")[2] for item in group} - {""} or set(subject.by_id)
        with tempfile.TemporaryDirectory(prefix="proof-witness-") as folder:
            checker = Checker(subject, Path(folder))
            for one in (*subject.mutants, *subject.variants):
                if one.id in ids:
                    said = dataclasses.asdict(checker.check(one))
                    print(json.dumps({"item": f"{name}/{one.id}", **said}), flush=True)


if __name__ == "__main__":
    main()
