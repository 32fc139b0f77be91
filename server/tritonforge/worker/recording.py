"""Run a user's entry point and describe the calls and launches it makes."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch

from tritonforge.domain.launch import (
    Call,
    Entries,
    Items,
    RecordedLaunch,
    Tensor,
    Value,
    is_repeatable,
)
from tritonforge.domain.messages import Program
from tritonforge.worker.calling import MAIN, MODULE, identity
from tritonforge.worker.fakecuda.mode import FakeCudaMode, tensors_in
from tritonforge.worker.host_functions import Functions, described_arguments, holds_graph, is_backward
from tritonforge.worker.launching import LaunchEvent, describe_launch
from tritonforge.worker.places import absolute, in_workspace, relative
from tritonforge.worker.values import Describing, storage_address

_MAX_CALLS = 1024
_MAX_LAUNCHES_OF_A_CALL = 256


@dataclass
class _Entered:
    """A function of the user's that is on the stack, with its arguments as they came in."""

    file: str
    function: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    known: Describing
    graph: bool = False
    """Whether an argument is the result of differentiable operations, which a description cannot bring back."""
    launches: list[RecordedLaunch] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)
    chosen: bool = False
    slot: str = ""


Found = Callable[[str, Call], None]
"""Gets each call as soon as something is known of it, under a slot; a later one under the same slot replaces it."""


class Recorder:
    """Watches calls of workspace functions and takes launches; `calls` and `failures` are what came of it."""

    def __init__(
        self, program: Program, mode: FakeCudaMode, found: Found | None = None, *, runs_kernels: bool = False
    ) -> None:
        self.root = program.root
        self.path = absolute(program.file, program.root)
        self.mode = mode
        self.failures: list[tuple[str, str]] = []
        self._known = Describing(unset=mode.unset)
        self._entered: dict[int, _Entered | None] = {}
        self._pending: dict[int, tuple[FrameType, str, tuple[Any, ...], dict[str, Any]]] = {}
        self._functions = Functions()
        self._relevant: dict[CodeType, bool] = {}
        self._calls: dict[str, Call] = {}
        self._outermost: _Entered | None = None
        self._found = found
        self._runs_kernels = runs_kernels
        if not runs_kernels:
            mode.written = self._known.written
        self._said: set[tuple[str, str, str]] = set()

    def calls(self) -> tuple[Call, ...]:
        """Return the calls in the order they were first made."""
        if self._outermost is not None and self._outermost.chosen:
            self._keep(self._outermost)
            self._outermost = None
        return tuple(self._calls.values())

    @contextlib.contextmanager
    def watching(self, entry_function: str) -> Iterator[None]:
        """Watch this thread and those it starts.

        Launches outside every function that can be repeated belong to `entry_function`.
        """
        self._outermost = _Entered(relative(self.path, self.root), entry_function, (), (), self._fresh())
        before = sys.getprofile()
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)  # type: ignore[arg-type,unused-ignore]

    def _on_event(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            relevant = self._relevant.get(code)
            if relevant is None:
                relevant = self._relevant[code] = code.co_name[0] != "<" and (
                    in_workspace(code.co_filename, self.root) or code.co_filename == self.path
                )
            if relevant:
                self._enter(frame)
        elif event == "return" and id(frame) in self._entered:
            entered = self._entered.pop(id(frame))
            if entered is not None and entered.chosen:
                self._keep(entered)

    def _enter(self, frame: FrameType) -> None:
        found = self._functions.of(frame)
        if found is None:
            return
        name, function = found
        try:
            with torch._C.DisableTorchFunction():
                known = self._fresh()
                arguments, keywords = described_arguments(frame.f_code, frame.f_locals, function, known)
                graph = holds_graph(dict(frame.f_locals))
        except Exception as error:
            self.failures.append((name, f"its arguments could not be described: {error}"))
            return
        if all(is_repeatable(v) for v in arguments) and all(is_repeatable(v) for _, v in keywords):
            file = relative(frame.f_code.co_filename, self.root)
            self._entered[id(frame)] = _Entered(file, name, arguments, keywords, known, graph)

    def _fresh(self) -> Describing:
        return Describing(self._known.written, self._known.unset, {}, self._known.exact)

    def take(self, event: LaunchEvent) -> None:
        """Describe one launch and give it to the functions on the stack that made it."""
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            with torch._C.DisableTorchFunction():
                self._describe(event)
        finally:
            sys.setprofile(profile)

    def _describe(self, event: LaunchEvent) -> None:
        self.mode.results_missing = not self._runs_kernels
        stack = self._stack()
        if not stack:
            return
        for depth, entered in enumerate(stack):
            try:
                launch = describe_launch(event, self.root, entered.known)
            except Exception as error:
                self.failures.append((event.name, f"the launch could not be described: {error}"))
                return
            entered.chosen = entered.chosen or depth == 0
            key = launch_key(launch)
            if key in entered.counted:
                entered.counted[key] += 1
            elif len(entered.launches) < _MAX_LAUNCHES_OF_A_CALL:
                entered.counted[key] = 1
                entered.launches.append(launch)
                if depth == 0:
                    self._say(entered, key)
        if self._runs_kernels:
            return
        for given in event.bound.values():
            for value in tensors_in((getattr(given, "base", given),)):
                self._known.written.add(storage_address(value))

    def _stack(self) -> list[_Entered]:
        """Return the entered functions that are on the stack now and can repeat the launch, innermost first.

        A function that was given the result of a differentiable operation cannot repeat a launch of its backward.
        """
        found: list[_Entered] = []
        frame: FrameType | None = sys._getframe(1)
        in_backward = False
        while frame is not None:
            entered = self._entered.get(id(frame))
            if entered is not None and not (in_backward and entered.graph):
                found.append(entered)
            in_backward = in_backward or is_backward(frame.f_code)
            frame = frame.f_back
        if self._outermost is not None:
            found.append(self._outermost)
        return found

    def _say(self, entered: _Entered, key: str) -> None:
        """Hand over what is known of a call that goes on, unless a call like it did so before."""
        if self._found is None or (entered.file, entered.function, key) in self._said:
            return
        self._said.add((entered.file, entered.function, key))
        entered.slot = entered.slot or f"{len(self._said)}"
        self._found(entered.slot, self._call_of(entered))

    def _call_of(self, entered: _Entered) -> Call:
        launches = tuple(replace(launch, count=entered.counted[launch_key(launch)]) for launch in entered.launches)
        key = identity(
            entered.file,
            entered.function,
            [*map(without_values, entered.arguments), *((k, without_values(v)) for k, v in entered.keywords)],
            [launch_key(launch) for launch in launches],
        )
        return Call(key, entered.file, entered.function, entered.arguments, entered.keywords, 0, launches)

    def _keep(self, entered: _Entered) -> None:
        call = self._call_of(entered)
        if call.id in self._calls:
            known = self._calls[call.id]
            self._calls[call.id] = replace(known, count=known.count + 1)
        elif len(self._calls) < _MAX_CALLS:
            self._calls[call.id] = call
            if self._found is not None:
                self._found(entered.slot or call.id, call)


def without_values(value: Value) -> Value:
    """Return a description with what tells problems apart, but not this run's random numbers and addresses."""
    if isinstance(value, Tensor):
        return Tensor(value.shape, value.strides, value.dtype, value.alignment, value.buffer, value.offset)
    if isinstance(value, Items):
        return Items(value.kind, tuple(without_values(v) for v in value.items))
    if isinstance(value, Entries):
        return Entries(tuple((k, without_values(v)) for k, v in value.items))
    return value


def launch_key(launch: RecordedLaunch) -> str:
    """Return what makes two launches the same: kernel, place, arguments without values, constexprs, options, grid."""
    return identity(
        launch.kernel_file,
        launch.kernel,
        [(n, without_values(v)) for n, v in launch.arguments],
        launch.constexprs,
        launch.options,
        launch.grid,
        launch.call_site.line,
    )


__all__ = ["MAIN", "MODULE", "Recorder", "launch_key", "without_values"]
