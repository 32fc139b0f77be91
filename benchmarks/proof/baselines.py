"""What a quick test would say, with one seed and one fixed shape: `python baselines.py KERNEL/ID …`.

Original and candidate run the first call of the file at a smaller size in Triton's plain interpreter, without fences,
poison or other orders of programs; what they return is compared as people do it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch
from cases import Case, Host, case
from corpus import ROOT, Subject, load
from running import Ran, import_file, leaves, run
from triton.runtime.jit import mangle_type

SECONDS = 120.0


def allclose(original: Ran, candidate: Ran) -> bool:
    """`torch.allclose(rtol=1e-2, atol=1e-2)` of everything that is returned."""

    def close(want: Any, got: Any) -> bool:
        if not isinstance(want, torch.Tensor):
            return bool(want == got)
        same = want.shape == got.shape
        return same and bool(torch.allclose(got.double(), want.double(), rtol=1e-2, atol=1e-2))

    return _ran(original, candidate) and all(map(close, original.values, candidate.values))


def assert_close(original: Ran, candidate: Ran) -> bool:
    """`torch.testing.assert_close` with its defaults."""
    if not _ran(original, candidate):
        return False
    with contextlib.suppress(AssertionError):
        torch.testing.assert_close(candidate.values, original.values)
        return True
    return False


def _ran(original: Ran, candidate: Ran) -> bool:
    assert not original.failure, original.failure
    return not candidate.failure and len(original.values) == len(candidate.values)


def _returned(subject: Subject, file: Path, typical: Case) -> Ran:
    ran = run(file, subject.host, typical, schedule="in order", side=None, seconds=SECONDS)
    (call,) = typical.calls
    assert isinstance(call, Host)
    inputs = len(leaves((call.args, call.kwargs)))  # what the arguments hold afterwards comes last
    returned = ran.values[: len(ran.values) - inputs]
    changed = not any(isinstance(one, torch.Tensor) for one in returned)  # a function that works in place
    return Ran(ran.values if changed else returned, failure=ran.failure)


def main() -> None:
    """Judge the items of the command line and print a JSON line for each."""
    torch.set_num_threads(1)
    for value in (1, torch.empty(1), 0.5):
        mangle_type(value)
    with tempfile.TemporaryDirectory(prefix="proof-baseline-") as folder:
        for name, group in itertools.groupby(sys.argv[1:], lambda item: item.partition("/")[0]):
            (subject,) = load([name])
            typical = case(import_file(ROOT / "witnesses" / f"{name}.py", f"witness_{name}").typical())
            file = Path(folder) / f"{name}.py"
            file.write_text(subject.text)
            original = _returned(subject, file, typical)
            for item in group:
                one = subject.by_id[item.partition("/")[2]]
                file = Path(folder) / f"{name}_{one.id.replace('-', '_')}.py"
                file.write_text(subject.edited(one))
                ran = _returned(subject, file, typical)
                said = {"item": item, "allclose": allclose(original, ran), "assert_close": assert_close(original, ran)}
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
