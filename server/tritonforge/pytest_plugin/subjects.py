"""What a test names: `PATH::KERNEL`, or a host function with arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tritonforge.analysis import analyze
from tritonforge.analysis.text import decode_source
from tritonforge.config import Settings, workspace_name
from tritonforge.domain.errors import NoLaunchKnown, UsageError
from tritonforge.domain.kernel import FileAnalysis, Kernel
from tritonforge.domain.launch import Call, Entries, Items, Tensor, is_repeatable
from tritonforge.domain.messages import Compile, Program
from tritonforge.jobs.session import Session
from tritonforge.pytest_plugin.laboratory import Laboratory
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.launches import matches
from tritonforge.workload.subject import Subject


@dataclass(frozen=True)
class Source:
    """A file of the workspace, read and analysed."""

    path: Path
    file: str
    text: str
    analysis: FileAnalysis


def read_source(laboratory: Laboratory, path: Path) -> Source:
    """Read a file; a relative path is looked for in the workspace.

    Raises:
        UsageError: when it cannot be read.
    """
    whole = path if path.is_absolute() else laboratory.root / path
    try:
        data = whole.read_bytes()
    except OSError as error:
        raise UsageError(f"{whole} cannot be read: {error.strerror}.") from None
    name = workspace_name(laboratory.root, whole)
    return Source(whole, name, decode_source(data)[0], analyze(data, name))


def kernel_of(source: Source, name: str) -> Kernel:
    """Return the kernel called `name` (left out: the only one).

    Raises:
        UsageError: when it is not clear which one is meant.
    """
    kernels = [k for k in source.analysis.kernels if not name or name in {k.name, k.simple_name}]
    if len(kernels) != 1:
        known = ", ".join(k.name for k in source.analysis.kernels) or "none"
        raise UsageError(f"{source.file} has no single kernel {name or 'at all'!s}.", f"It defines: {known}.")
    return kernels[0]


def workload_of(laboratory: Laboratory, source: Source) -> FileWorkload:
    """Return what finds the calls of the kernels of a file that the test names, which permits running it."""
    return FileWorkload(
        root=str(laboratory.root),
        analysis=source.analysis,
        text=source.text,
        settings=laboratory.settings,
        store=laboratory.store,
        allow_run=True,
    )


@dataclass
class GivenCalls:
    """Stands for a `FileWorkload` where a test gives the call itself."""

    root: str
    analysis: FileAnalysis
    text: str
    settings: Settings
    calls: tuple[Call, ...]

    async def subject_of(self, kernel: Kernel, session: Session) -> Subject:
        """Return `kernel` with the given calls."""
        del session
        return Subject(self.root, self.analysis.file, self.text, kernel, self.calls)


def call_of(
    laboratory: Laboratory, host: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Source, Call]:
    """Return the file of a host function and the call of it with these arguments, which are described, not kept.

    Tensors on the CPU stand for tensors on the GPU. Floating values are drawn anew from the same distribution; small
    integers, which may be indices, are kept.

    Raises:
        UsageError: for a function that cannot be called by its name, or arguments that cannot be rebuilt.
    """
    from tritonforge.worker.values import Describing, describe

    host = inspect.unwrap(host)
    name = getattr(host, "__qualname__", "")
    file = inspect.getsourcefile(host) if inspect.isfunction(host) else None
    if file is None or not name.isidentifier():
        mend = "Give the host function itself, defined at the top of its file."
        raise UsageError(f"{host!r} is not a function of a file.", mend)
    known = Describing()
    values = tuple(_on_gpu(describe(one, known)) for one in args)
    keywords = tuple((key, _on_gpu(describe(one, known))) for key, one in kwargs.items())
    for value in (*values, *(one for _, one in keywords)):
        if not is_repeatable(value):
            mend = "Give tensors, numbers, texts or None."
            raise UsageError(f"an argument of {name} cannot be described: {value}.", mend)
    source = read_source(laboratory, Path(file).resolve())
    return source, Call(f"pytest:{name}", source.file, name, values, keywords)


async def kernels_launched(source: Source, call: Call, session: Session, root: str) -> tuple[Kernel, ...]:
    """Return the kernels of the file that a call launches.

    Raises:
        NoLaunchKnown: when it launches none.
        JobError: when it cannot be made.
    """
    program = Program(root, source.file, ((source.file, source.text),))
    result = await session.worker.run(Compile(program, call, session.arch, (), ()))
    found = tuple(k for k in source.analysis.kernels if any(matches(k, one.launch) for one in result.launches))
    if not found:
        raise NoLaunchKnown(f"{call.function} launches no kernel of {source.file}.")
    return found


def _on_gpu(value: Any) -> Any:
    """Return a described value with its tensors on the GPU: on a machine without one, tests make them on the CPU."""
    if isinstance(value, Tensor):
        return replace(value, device="cuda")
    if isinstance(value, Items):
        return replace(value, items=tuple(_on_gpu(one) for one in value.items))
    if isinstance(value, Entries):
        return replace(value, items=tuple((name, _on_gpu(one)) for name, one in value.items))
    return value
