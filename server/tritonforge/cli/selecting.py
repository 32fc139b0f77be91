"""`PATH[::KERNEL]` arguments → files, their analysis, and the kernels that were meant."""

from __future__ import annotations

import ast
import difflib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.analysis.text import decode_source
from tritonforge.config import workspace_name, workspace_root
from tritonforge.domain.errors import UsageError
from tritonforge.domain.kernel import FileAnalysis, Kernel, SourceError
from tritonforge.domain.rule_names import wrong_code
from tritonforge.workload.index_files import python_files

_MOST_NAMES = 5


@dataclass(frozen=True)
class Selected:
    """One file and the kernels of it that a command is about.

    `named` is true when the user named the file itself, which permits running what it contains.
    """

    path: Path
    root: Path
    text: str
    analysis: FileAnalysis
    kernels: tuple[Kernel, ...]
    named: bool


def select(arguments: Sequence[str], on_file: Callable[[Path], None] = lambda _: None) -> tuple[Selected, ...]:
    """Resolve every argument; folders are searched for Python files that mention triton.

    A file of a folder that cannot be read is one with an error; `on_file` is told of each that is looked at.

    Raises:
        UsageError: for a path that does not exist or cannot be read, and a kernel that the file does not define.
    """
    chosen: dict[Path, Selected] = {}
    for argument in arguments:
        whole = "::" in argument and Path(argument).is_file()  # a file may be called so
        path_text, _, kernel = (argument, "", "") if whole else argument.partition("::")
        path = Path(path_text)
        if path.is_dir():
            if kernel:
                raise UsageError(f"{path_text} is a folder.", "Name the file that defines the kernel.")
            for file in _python_files(path):
                on_file(file)
                one = _read_any(file)
                if one.kernels or one.analysis.errors:
                    chosen.setdefault(one.path, one)
            continue
        one = _read(path, named=True)
        if kernel:
            one = _only(one, kernel)
        before = chosen.get(one.path)
        chosen[one.path] = one if before is None else _merge(before, one)
    return tuple(chosen.values())


def select_one(argument: str) -> Selected:
    """Resolve `PATH::KERNEL`; the kernel may be left out where the file defines exactly one.

    Raises:
        UsageError: also when it is not clear which kernel is meant.
    """
    path = argument.partition("::")[0]
    found = select([argument])
    if len(found) > 1:
        every = [f"{os.path.relpath(one.path)}::{k.name}" for one in found for k in one.kernels]
        more = f", … {len(every) - _MOST_NAMES} more" if len(every) > _MOST_NAMES else ""
        raise UsageError(
            f"{path} holds several files with kernels.", f"Name one kernel ({', '.join(every[:_MOST_NAMES])}{more})."
        )
    selected = found[0] if found else None
    if selected is None or len(selected.kernels) != 1:
        names = ", ".join(k.name for k in selected.kernels) if selected else ""
        if not names:
            problem = selected.analysis.errors[0] if selected and selected.analysis.errors else None
            raise UsageError(
                f"{problem.file}:{problem.line}: {problem.message}" if problem else f"{path} defines no Triton kernel."
            )
        raise UsageError(f"{path} defines several kernels.", f"Name one as {path}::NAME ({names}).")
    return selected


def read_named(path: Path) -> Selected:
    """Read one file that the user names, whether it holds kernels or not.

    Raises:
        UsageError: when it cannot be read.
    """
    return _read(path, named=True)


def module_names(text: str) -> frozenset[str] | None:
    """Return the names that a module binds, wherever in it; None where a star import may bind any."""
    bound: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return None
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case _:
                pass
    return frozenset(bound)


def rule_codes(text: str, option: str) -> tuple[str, ...]:
    """Return the codes, or prefixes of codes, that `option` lists with commas between them.

    Raises:
        UsageError: for one that is no rule's.
    """
    codes = tuple(code.strip() for code in text.split(",") if code.strip())
    if not codes:
        raise UsageError(f"{option} names no rule.", "Write codes with commas between them: TF203,TF5.")
    for code in codes:
        wrong = wrong_code(code)
        if wrong is not None:
            raise UsageError(f"{option}: {wrong}")
    return tuple(code.upper() for code in codes)


def _only(one: Selected, name: str) -> Selected:
    matching = tuple(k for k in one.kernels if k.name == name) or tuple(k for k in one.kernels if k.simple_name == name)
    if not matching:
        names = [k.name for k in one.kernels]
        if one.analysis.errors and not names:
            error = one.analysis.errors[0]
            raise UsageError(f"{error.file}:{error.line}: {error.message}")
        close = difflib.get_close_matches(name, names, n=1)
        mend = f"Did you mean {close[0]}?" if close else f"It defines: {', '.join(names) or 'none'}."
        raise UsageError(f"{one.analysis.file} defines no kernel {name!r}.", mend)
    # Of several definitions under one name the last is what the name means when the file was run.
    last = {kernel.name: kernel for kernel in matching}
    return Selected(one.path, one.root, one.text, one.analysis, tuple(last.values()), one.named)


def _merge(first: Selected, second: Selected) -> Selected:
    extra = tuple(k for k in second.kernels if k not in first.kernels)
    return Selected(first.path, first.root, first.text, first.analysis, first.kernels + extra, named=True)


def _read(path: Path, *, named: bool) -> Selected:
    try:
        mode = path.stat().st_mode
        if not (
            stat.S_ISREG(mode) or stat.S_ISFIFO(mode)
        ):  # a pipe may be somebody's <(git show …); a device may never end
            raise UsageError(f"{path} is not a file.", "Name a Python file or a folder.")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links out of the workspace
    root = workspace_root(path)
    analysis = analyze(data, workspace_name(root, path))
    return Selected(path, root, decode_source(data)[0], analysis, analysis.kernels, named)


def _read_any(path: Path) -> Selected:
    """Read a file that only lies in a folder: whatever is wrong with it is its own error."""
    try:
        return _read(path, named=False)
    except Exception as error:  # noqa: BLE001 - one odd file must not cost the others their result
        path = Path(os.path.abspath(path))  # noqa: PTH100 - as in `_read`
        root = workspace_root(path)
        name = workspace_name(root, path)
        said = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}, a bug in tritonforge"
        return Selected(path, root, "", FileAnalysis(name, errors=(SourceError(name, 1, said),)), (), named=False)


def _python_files(folder: Path) -> Iterator[Path]:
    for path, found in python_files(folder):
        # Reading a pipe would wait for its writer, who may never come.
        if found is not None and stat.S_ISREG(found.st_mode) and _may_hold_kernels(Path(path)):
            yield Path(path)


def _may_hold_kernels(path: Path) -> bool:
    try:
        return b"triton" in path.read_bytes()
    except OSError:
        return True  # to be told that it cannot be read
