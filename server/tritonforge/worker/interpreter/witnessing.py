"""Watch one interpreted run of a host function and its kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tritonforge.worker.host_operations import HostWork, watching_host
from tritonforge.worker.interpreter.covering import Cover, covering
from tritonforge.worker.interpreter.running import Run, current_run
from tritonforge.worker.seen import Seen


@dataclass
class Witness:
    """Sees one run; `seen` says of what it left."""

    run: Run
    work: HostWork
    cover: Cover

    def seen(self, outputs: Mapping[str, Any]) -> Seen:
        """Return what was seen; `outputs` are the tensors that the run left, by path."""
        written = {path: written_elements(tensor, self.run.written) for path, tensor in outputs.items()}
        return Seen(
            operations=dict(self.work.operations),
            programs=self.run.programs,
            conflicts=tuple(self.run.conflicts),
            parameters=frozenset(name for _, bound in self.run.launches for name in bound),
            written={path: count for path, count in written.items() if count},
            host=frozenset(path for path, tensor in outputs.items() if "host" in self.work.sources_of(tensor)),
            cover=self.cover,
        )


@contextlib.contextmanager
def witnessing(tensors: Mapping[str, Any], launches: list[tuple[str, dict[str, Any]]]) -> Iterator[Witness]:
    """Watch the current run; `tensors` are the call's, by path."""
    run, cover = current_run(), Cover()
    watched = watching_host(
        tensors,
        launches,
        is_launching=lambda: run.launching,
        wrote=lambda tensor: written_elements(tensor, run.written) > 0,
        fill_empty=run.poison.fill,
    )
    with watched as work, covering(cover):
        yield Witness(run, work, cover)


def written_elements(tensor: Any, written: list[tuple[int, int, Any]]) -> int:
    """Return how many elements of a tensor were written; `written` is as `Footprint.written` has it."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return 0
    storage = tensor.untyped_storage()
    start, size, item = int(storage.data_ptr()), int(storage.nbytes()), int(tensor.element_size())
    found: Any = None
    for region, unit, cells in written:
        first = (start - region) // unit
        if first < 0 or first >= len(cells):
            continue
        marks = torch.from_numpy(cells[first : first + -(-size // unit)])
        if unit < item:
            marks = marks[: len(marks) // (item // unit) * (item // unit)].view(-1, item // unit).any(dim=1)
        elif unit > item:
            marks = marks.repeat_interleave(unit // item)
        offset = (int(tensor.data_ptr()) - start) // item
        if len(marks) * item < size // item * item:
            continue
        mine = marks.as_strided(tensor.shape, tensor.stride(), offset)
        found = mine if found is None else found | mine
    return 0 if found is None else int(found.sum())
