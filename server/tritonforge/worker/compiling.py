"""The `Compile` job: repeat a call without launching, and compile what it would launch for an architecture."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace
from typing import Any

import torch
import triton

from tritonforge.domain.launch import Call, Distribution, Entries, Items, RecordedLaunch, Tensor, Value
from tritonforge.domain.messages import Compile, CompiledLaunch, CompileResult
from tritonforge.worker.artefacts import artefacts_of, resources_of
from tritonforge.worker.calling import runnable, seed_everything
from tritonforge.worker.compiled_once import cache_of, require_cache
from tritonforge.worker.described import event_of
from tritonforge.worker.failures import JobContext, JobFailed
from tritonforge.worker.fakecuda import FakeDevice, device_for, faked
from tritonforge.worker.imported import files_behind
from tritonforge.worker.launching import LaunchEvent, describe_launch, taking_launches
from tritonforge.worker.loading import Loaded, load, raise_user_error
from tritonforge.worker.places import no_room
from tritonforge.worker.pruning import prune_now_and_then
from tritonforge.worker.rebuilding import rebuild
from tritonforge.worker.recording import launch_key
from tritonforge.worker.values import Describing

_METADATA_LEFT_OUT = re.compile(r"^(hash|target|extern_libs|.*_dir|.*PATH.*|TRITON_.*|[A-Z_0-9]+)$")
_WRITTEN_OUT = re.compile(r"""(\w+)\((['"])(.*)\2\)""")
"""An exception as `repr` writes it, which is how Triton quotes what a kernel's line has raised."""


def compile_call(request: Compile, context: JobContext) -> CompileResult:
    """Compile each distinct launch of the call once; a launch that does not compile says why in its `error`.

    Raises:
        JobFailed: `user-error`, when the host function raises before it launched anything; `unsupported`, when an
            argument cannot be rebuilt or the architecture is unknown; `environment`, when the compiler cannot write its
            files.
    """
    require_cache()
    device = device_for(request.arch)
    taker = _Compiler(request, device, context)
    with faked(request.arch) as mode, taking_launches(taker.take, max(request.turn, 0)):
        mode.results_missing = True
        loaded = load(request.program)
        taker.ready = True
        with loaded.active():
            repeated = runnable(loaded, request.call)
            with torch._C.DisableTorchFunction():
                rebuilt = rebuild(cheap(request.call), names=repeated.names, main=loaded.module, large_as_meta=True)
            mode.room.used = True  # what holds nothing claims to be on the GPU
            seed_everything(request.call.seed)
            try:
                repeated.run(rebuilt.arguments, rebuilt.keywords)
            except (Exception, SystemExit) as error:
                if not taker.done:
                    raise_user_error(error, request.program)
            taker.repeated = {found.launch.kernel for found in taker.done.values()}
            for launch in request.call.launches:
                taker.make_up_for(launch, loaded)
    prune_now_and_then()
    return CompileResult(tuple(taker.done.values()), context.output(), files_behind(loaded))


def cheap(call: Call) -> Call:
    """Return the call with large tensors left unwritten whose values do not change what is compiled.

    These are the floating ones, and all of a kernel that is launched directly: no host function reads them then.
    """
    direct = call.kernel_launch is not None

    def light(value: Value) -> Value:
        if isinstance(value, Tensor) and isinstance(value.values, Distribution):
            counts = direct or value.dtype.startswith(("float", "bfloat", "complex"))
            return replace(value, values=Distribution("uninitialised")) if counts and value.elements > 4096 else value
        if isinstance(value, Items):
            return Items(value.kind, tuple(light(v) for v in value.items))
        if isinstance(value, Entries):
            return Entries(tuple((k, light(v)) for k, v in value.items))
        return value

    return replace(
        call, arguments=tuple(light(v) for v in call.arguments), keywords=tuple((k, light(v)) for k, v in call.keywords)
    )


class _Compiler:
    def __init__(self, request: Compile, device: FakeDevice, context: JobContext) -> None:
        self.request, self.device, self.context = request, device, context
        self.repeated: set[str] = set()
        self.ready = False
        """Whether the program is loaded: what it launches while it is imported belongs to no call."""
        self.done: dict[str, CompiledLaunch] = {}

    def take(self, event: LaunchEvent) -> Any:
        if not self.ready:
            return None
        if self.request.kernels and not wanted(event.name, self.request.kernels):
            return None
        with torch._C.DisableTorchFunction():
            launch = describe_launch(event, self.request.program.root, Describing(values=False))
        key = launch_key(launch)
        if key not in self.done:
            self.context.progress(f"Compiling {event.name} for {self.request.arch}")
            self.done[key] = self._compile(event, launch)
        return None

    def make_up_for(self, launch: RecordedLaunch, loaded: Loaded) -> None:
        """Compile a recorded launch that repeating its call did not make, from its description."""
        if self.request.program.overlays or (self.request.kernels and not wanted(launch.kernel, self.request.kernels)):
            return  # a changed program makes launches of its own
        if launch.kernel in self.repeated:
            return
        key = launch_key(launch)
        with contextlib.suppress(JobFailed), torch._C.DisableTorchFunction():
            event = event_of(launch, loaded)
            if event is not None:
                self.done[key] = self._compile(event, launch)

    def _compile(self, event: LaunchEvent, launch: RecordedLaunch) -> CompiledLaunch:
        base = CompiledLaunch(launch, self.request.arch, triton.__version__)
        started = time.perf_counter()
        try:
            try:
                kernel = compile_event(event)
            except (OSError, JobFailed):
                raise
            except Exception as error:
                return replace(base, error=compile_error(error, event), compile_ms=_ms_since(started))
            taken = _ms_since(started)
            texts = artefacts_of(kernel, self.request.artefacts, self.device)
            texts["resources"] = resources_of(kernel, self.device)
        except OSError as error:  # what the kernel's own code raises, the compiler wraps
            raise JobFailed("environment", no_room(error)) from error
        shared = int(getattr(kernel.metadata, "shared", 0) or 0)
        refusal = None
        if shared > self.device.shared_bytes:
            refusal = (
                f"{event.name} needs {shared} bytes of shared memory, but a program on {self.request.arch} "
                f"may use at most {self.device.shared_bytes}."
            )
        return replace(base, artefacts=texts, metadata=metadata_of(kernel), compile_ms=taken, error=refusal)


def wanted(name: str, kernels: tuple[str, ...]) -> bool:
    """Tell whether a qualified kernel name is among those asked for, by qualified or by simple name."""
    return name in kernels or name.rpartition(".")[2] in {k.rpartition(".")[2] for k in kernels}


def compile_event(event: LaunchEvent) -> Any:
    """Compile a launch for the active (pretended) driver's target, specialised as Triton itself would."""
    from triton.runtime.jit import JITFunction

    run = _original_run(JITFunction)
    kwargs = {k: v for k, v in event.kwargs.items() if k not in {"stream", "device", "device_type"}}
    with cache_of(event.kernel.fn.__code__.co_filename), torch._C.DisableTorchFunction():
        return run(event.kernel, *event.args, grid=event.grid, warmup=True, **kwargs)


def _original_run(cls: Any) -> Any:
    return getattr(cls.run, "original", cls.run)


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3


def metadata_of(kernel: Any) -> dict[str, str]:
    """Return the compiled kernel's plain metadata as text."""
    found = kernel.metadata._asdict() if hasattr(kernel.metadata, "_asdict") else dict(vars(kernel.metadata))
    return {
        k: str(v)
        for k, v in found.items()
        if not _METADATA_LEFT_OUT.match(k) and isinstance(v, (int, float, str, bool, list, tuple, type(None)))
    }


def compile_error(error: BaseException, event: LaunchEvent) -> str:
    """Say in one sentence, with a line where one is known, why a kernel does not compile."""
    innermost, line, said = error, None, ""
    seen: BaseException | None = error
    while seen is not None:
        innermost = seen
        node = getattr(seen, "node", None)
        if node is not None and hasattr(node, "lineno") and line is None:
            line = _line_in_file(seen, event) or line
        said = getattr(seen, "error_message", None) or said
        seen = seen.__cause__
    text = " ".join((said or str(innermost)).split())
    ptxas = re.search(r"(ptxas (?:error|fatal)\s*:[^`]*)", str(error))
    if ptxas:
        text = " ".join(ptxas[1].split())
    elif "out of resource" in text.lower():
        text = text.split(". Reducing")[0]
    elif written := _WRITTEN_OUT.fullmatch(text):
        text = f"{written[1]}: {written[3]}"
    where = f"line {line}: " if line else ""
    return f"{event.name} does not compile: {where}{text[:300] or type(innermost).__name__}"


def _line_in_file(error: Any, event: LaunchEvent) -> int | None:
    """Return the file's line of a `CompilationError`, whose own lines count from the function's `def`."""
    source = getattr(error, "src", None)
    from tritonforge.worker.launching import kernel_position

    kernel = event.kernel
    if source is not None and source == getattr(kernel, "src", None):
        return int(kernel_position(kernel)[1]) + int(error.node.lineno) - 1
    return None
