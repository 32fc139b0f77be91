"""`tritonforge export`: what `optimize` found, for production."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tritonforge.cli.running import open_workspace, warn
from tritonforge.cli.selecting import select
from tritonforge.domain.errors import UsageError
from tritonforge.store.whole_file import write_whole

if TYPE_CHECKING:
    from tritonforge.domain.tuning import TunedLaunch
    from tritonforge.report.vllm_file import VllmFile


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH[::KERNEL]…")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="Where to write; for --style vllm a folder, or a file under the name that vLLM looks for.",
)  # fmt: skip
@click.option(
    "--style", type=click.Choice(["tritonforge", "vllm"]), default="tritonforge", show_default=True,
    help="For tritonforge.runtime.tuned, or for vLLM's own kernels.",
)  # fmt: skip
def export(paths: tuple[str, ...], output: Path, style: str) -> int:
    """Write the best configuration per GPU and sizes that optimize found for each kernel, as JSON.

    Only configurations that passed the gate are written, each with whether it was measured or predicted. Code that has
    changed since it was optimised is left out.
    """
    from tritonforge.optimize.tunings import tuned_launches

    files = select(paths)
    found: list[TunedLaunch] = []
    silent: list[str] = []
    for file in files:
        workspace = open_workspace(file.root)
        for kernel in file.kernels:
            results = workspace.store.tunings_for(kernel.file, kernel.name)
            launches = tuned_launches(kernel, results)
            found += launches
            if not launches:
                stale = "its code has changed since it was optimised" if results else "it was not optimised yet"
                silent.append(f"{kernel.file}::{kernel.name}: {stale}")
    if not found:
        why = "; ".join(silent[:3]) or f"no Triton kernel found in {', '.join(paths)}"
        raise UsageError(f"there is nothing to export: {why}.", "Run tritonforge optimize on it first.")
    for sentence in silent:
        warn(f"left out: {sentence}.")
    return _vllm(found, output) if style == "vllm" else _own(found, output)


def _own(found: Sequence[TunedLaunch], output: Path) -> int:
    from tritonforge.report import wording
    from tritonforge.report.tuned_file import tuned_document

    names = {one.kernel.name: one.kernel.file for one in found}
    for one in found:
        if names[one.kernel.name] != one.kernel.file:
            both = f"{one.kernel.file} and {names[one.kernel.name]}"
            raise UsageError(f"{both} both define {one.kernel.name}.", "Export them into two files.")
    document = tuned_document(found, lambda sentence: warn(f"{sentence}."))
    _write(output, document)
    entries = [one for kernel in document["kernels"].values() for gpu in kernel["gpus"] for one in gpu["entries"]]
    predicted = sum(one["provenance"] == "predicted" for one in entries)
    said = f", {predicted} of them predicted" if predicted else ""
    configurations = wording.plural(len(entries), "configuration")
    _say(f"{output}: {configurations} of {wording.plural(len(names), 'kernel')}{said}.")
    return 0


def _vllm(found: Sequence[TunedLaunch], output: Path) -> int:
    from tritonforge.report.vllm_file import vllm_files

    files, refused = vllm_files(found)
    for sentence in refused:
        warn(f"left out: {sentence}.")
    if not files:
        mend = "Export it with --style tritonforge for your own kernels."
        raise UsageError("there is nothing that vLLM could use.", mend)
    for one, path in zip(files, _places(files, output), strict=True):
        _write(path, one.content)
        if path.name != one.name:
            warn(f"vLLM looks for it under another name: {one.name}.")
        _say(f"{path}: {len(one.content)} batch sizes.")
    return 0


def _places(files: Sequence[VllmFile], output: Path) -> list[Path]:
    """Return where each file goes: into the folder `output`, or, where it is one file alone, there."""
    if output.suffix == ".json" and not output.is_dir():
        if len(files) > 1:
            raise UsageError(f"there are {len(files)} files to write, one for each shape.", "Name a folder with -o.")
        return [output]
    return [output / one.name for one in files]


def _write(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _say(sentence: str) -> None:
    click.echo(sentence)
