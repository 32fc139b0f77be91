"""Run a PyTorch function that says what is right, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tritonforge.domain.launch import Call
from tritonforge.domain.messages import Reference
from tritonforge.worker.calling import Runnable
from tritonforge.worker.interpreter.poison import ORIGINAL
from tritonforge.worker.outputs import Outputs
from tritonforge.worker.rebuilding import Rebuilt
from tritonforge.worker.repeating import Where, run_call


def run_reference(reference: Reference, call: Call, where: Where) -> Outputs:
    """Call a reference with the arguments of a call, floating tensors in float64.

    Raises:
        RunFailed: when it cannot be called or raises.
    """
    named = replace(call, file=reference.program.file, function=reference.function, kernel_launch=None)
    wide: dict[int, Any] = {}

    def prepare(rebuilt: Rebuilt, _shadow: Any) -> None:
        for path, tensor in rebuilt.tensors.items():
            if tensor.dtype.is_floating_point:
                wide[id(tensor)] = tensor.detach().double().requires_grad_(tensor.requires_grad)
                rebuilt.tensors[path] = wide[id(tensor)]

    def adapt(found: Runnable) -> Runnable:
        def run(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            return found.run(_replaced(arguments, wide), _replaced(keywords, wide))

        return replace(found, run=run)

    outputs = run_call(reference.program, named, where, ORIGINAL, prepare=prepare, adapt=adapt)
    outputs.wide = {n: t.double() for n, t in outputs.tensors.items() if t.dtype.is_floating_point}
    return outputs


def _replaced(value: Any, by: Mapping[int, Any]) -> Any:
    if id(value) in by:
        return by[id(value)]
    if type(value) in {list, tuple}:
        return type(value)(_replaced(item, by) for item in value)
    if isinstance(value, dict):
        return {name: _replaced(item, by) for name, item in value.items()}
    return value
