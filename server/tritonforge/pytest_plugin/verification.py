"""`kernel_verify`: whether a candidate computes what a reference does, as one assertion."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tritonforge.domain.candidate import Verdict
from tritonforge.domain.errors import TritonForgeError, UsageError
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import Session
from tritonforge.pytest_plugin.laboratory import Laboratory
from tritonforge.pytest_plugin.subjects import call_of, kernel_of, read_source, workload_of
from tritonforge.verify import Gate, reference_beside

SEED = 20_480
"""The same inputs in every run: a test that passes once passes again."""


@dataclass(frozen=True)
class Verification:
    """A verdict that can be asserted: true when the candidate was accepted, and says why not where it was not."""

    verdict: Verdict
    failing_input: str = ""

    def __bool__(self) -> bool:
        """Tell whether the candidate computes what the reference does."""
        return self.verdict.accepted

    def __repr__(self) -> str:
        """Say it in a line that pytest shows when the assertion fails."""
        count = len(self.verdict.tried)
        if self.verdict.accepted:
            return f"<accepted on {count} inputs, judged by {self.verdict.oracle}>"
        return f"<refused: {self.verdict.reason} (input {count}, replay {self.verdict.replay})>"


class KernelVerify:
    """What the fixture `kernel_verify` gives; call it."""

    def __init__(self, laboratory: Laboratory) -> None:
        """Verify within `laboratory`."""
        self._laboratory = laboratory

    def __call__(
        self, candidate: str | Callable[..., Any], reference: str | Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Verification:
        """Compare a candidate with a reference on many inputs.

        Two host functions are compared on inputs made from `args` and `kwargs`: other sizes, tails, special values,
        other strides. The reference may be any function that takes the same and returns the right result, in PyTorch
        say; an input that it raises on (an assertion of what it is not for) is left out. `PATH::KERNEL` texts are
        compared on the launches that are known of the reference, as `tritonforge verify` does.
        """
        try:
            if isinstance(candidate, str) and isinstance(reference, str):
                return self._laboratory.run(lambda session: self._kernels(candidate, reference, session))
            if callable(candidate) and callable(reference):
                return self._laboratory.run(
                    lambda session: self._functions(candidate, reference, args, kwargs, session)
                )
            said = "kernel_verify takes two functions, or two texts PATH::KERNEL."
        except TritonForgeError as error:
            said = str(error)
        pytest.fail(f"tritonforge: {said}", pytrace=False)

    async def _kernels(self, candidate: str, reference: str, session: Session) -> Verification:
        laboratory = self._laboratory
        path, _, name = reference.partition("::")
        other_path, _, other_name = candidate.partition("::")
        source, other = read_source(laboratory, Path(path)), read_source(laboratory, Path(other_path))
        kernel, mine = kernel_of(source, name), kernel_of(other, other_name)
        subject = await workload_of(laboratory, source).subject_of(kernel, session)
        text = other.text
        if mine.name != kernel.name and any(call.kernel_launch for call in subject.calls):
            text += f"\n\n{kernel.name} = {mine.name}\n"
        return await self._judge(subject.program(), subject.program(text), subject.calls, session, kernel, mine)

    async def _functions(
        self,
        candidate: Callable[..., Any],
        reference: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        session: Session,
    ) -> Verification:
        source, call = call_of(self._laboratory, candidate, args, kwargs)
        root = str(self._laboratory.root)
        standing_in = source.text + _standing_in(candidate, reference, len(args), tuple(kwargs))
        original = Program(root, source.file, ((source.file, standing_in),))
        program = Program(root, source.file, ((source.file, source.text),))
        return await self._judge(original, program, (call,), session)

    async def _judge(  # noqa: PLR0917 - two programs, and on what they are compared
        self,
        original: Program,
        candidate: Program,
        calls: tuple[Call, ...],
        session: Session,
        kernel: Kernel | None = None,
        candidate_kernel: Kernel | None = None,
    ) -> Verification:
        gate = Gate(
            session.worker,
            original,
            calls,
            on_device=session.measures,
            seed=SEED,
            arch=session.arch if kernel is not None else "",
            kernel=kernel,
            reference=reference_beside(original, calls) if kernel is not None else None,
        )
        trialled = await gate.check(candidate, candidate_kernel=candidate_kernel)
        verdict = await gate.sanitised(candidate, trialled.verdict)
        return Verification(verdict, trialled.failing_input)


def _standing_in(
    candidate: Callable[..., Any], reference: Callable[..., Any], count: int, keywords: tuple[str, ...]
) -> str:
    """Return what, below the candidate's file, puts `reference` in its place for calls with so many arguments.

    It has those of the candidate's parameters that the test gave, so that what is compared has the same names on both
    sides: a reference need not know a tile size.

    Raises:
        UsageError: for a function that has no name in a file or a module.
    """
    place = _place(inspect.unwrap(reference))
    if place is None:
        raise UsageError(f"{reference!r} has no name to import it by.", "Define it with def at the top of a file.")
    module, file, attribute = place
    if file is None:
        lines = [f"_tritonforge_module = __import__('importlib').import_module({module!r})"]
    else:
        lines = [
            "import importlib.util as _tritonforge_util",
            f"_tritonforge_spec = _tritonforge_util.spec_from_file_location('_tritonforge_reference', {file!r})",
            "_tritonforge_module = _tritonforge_util.module_from_spec(_tritonforge_spec)",
            "_tritonforge_spec.loader.exec_module(_tritonforge_module)",
        ]
    host = inspect.unwrap(candidate)
    every = inspect.signature(host).parameters.values()
    given = [one.name for one in every if one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}][:count]
    parameters = ", ".join([*given, *keywords])  # no default that the gate could try something else for
    passed = ", ".join([*given, *(f"{one}={one}" for one in keywords)])
    lines += [f"def {host.__name__}({parameters}):", f"    return _tritonforge_module.{attribute}({passed})"]
    return "\n\n" + "\n".join(lines) + "\n"


def _place(function: Any) -> tuple[str, str | None, str] | None:
    """Return module, file (None: import the module) and attribute of a function; None when it cannot be found again.

    A function of the test-suite is loaded from its file, since a test module is often not importable by its name. What
    is built in says little about where it is from: it is looked for where such functions are usually used from.
    """
    qualname = getattr(function, "__qualname__", "")
    if inspect.isfunction(function):
        if not all(part.isidentifier() for part in qualname.split(".")):
            return None
        file = inspect.getsourcefile(function)
        installed = file is None or "site-packages" in file or "dist-packages" in file
        return function.__module__, None if installed else file, qualname
    name = getattr(function, "__name__", "")
    for module in ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft"):
        if name and getattr(sys.modules.get(module), name, None) is function:
            return module, None, name
    return None
