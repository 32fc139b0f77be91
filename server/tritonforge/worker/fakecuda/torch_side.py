"""What is replaced in torch while CUDA is pretended: tensor attributes, `torch.cuda`, and ways around the mode."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from tritonforge.worker.fakecuda.cuda_module import cuda_answers
from tritonforge.worker.fakecuda.devices import FakeDevice
from tritonforge.worker.fakecuda.large import are_shapes_worked_out
from tritonforge.worker.fakecuda.mode import FakeCudaMode, claimed, is_cpus
from tritonforge.worker.fakecuda.patches import Patches

_GPU = torch.device("cuda", 0)
_CPU = torch.device("cpu")


def patch_torch(patches: Patches, mode: FakeCudaMode, device: FakeDevice) -> None:
    """Install everything that has to hold outside the mode too."""
    _patch_tensor(patches, mode)
    answers = cuda_answers(device)
    patches.set_all(torch.cuda, answers)
    patches.set(torch.version, "cuda", "12.8" if device.backend == "cuda" else None)
    if device.backend == "hip":
        patches.set(torch.version, "hip", "6.4")
    _patch_c(patches)
    _patch_defaults(patches, mode)
    _patch_re_entry(patches, mode)
    patches.set(torch, "compile", _not_compiled)
    for name in ("disable", "allow_in_graph", "assume_constant_result"):
        # The real ones import torch._dynamo, which takes seconds and does nothing here.
        patches.set(torch.compiler, name, _not_compiled)
    _patch_autocast(patches)
    patches.set(torch, "load", _loading_to_cpu(torch.load))
    patches.set(torch, "Generator", _FakeGenerator)


def _patch_tensor(patches: Patches, mode: FakeCudaMode) -> None:
    real = torch._C.TensorBase.device

    def device_of(tensor: Any) -> Any:
        if is_cpus(tensor):
            return _CPU
        found = real.__get__(tensor)
        if found.type == "meta" and mode.room.used and not are_shapes_worked_out():
            return _GPU
        return _GPU if found.type == "cpu" else found

    def get_device(tensor: Any) -> int:
        return -1 if is_cpus(tensor) else 0

    def is_cuda(tensor: Any) -> bool:
        return not is_cpus(tensor) and device_of(tensor).type == "cuda"

    patches.set(torch.Tensor, "device", property(device_of))
    patches.set(torch.Tensor, "is_cuda", property(is_cuda))
    patches.set(torch.Tensor, "is_cpu", property(is_cpus))
    patches.set(torch.Tensor, "get_device", get_device)
    # Before any mode sees the call, the real one refuses a stream that is none of its own.
    patches.set(torch.Tensor, "record_stream", lambda _tensor, _stream: None)
    patches.set(torch, "get_device", get_device)


def _patch_c(patches: Patches) -> None:
    """Answer what generated and library code asks of `torch._C` directly."""
    zeros = ("getDevice", "exchangeDevice", "maybeExchangeDevice", "getCurrentRawStream")
    silent = ("setDevice", "synchronize", "init", "emptyCache", "ipc_collect")
    answers: dict[str, Callable[..., Any]] = {
        **{f"_cuda_{name}": _answering(0) for name in zeros},
        **{f"_cuda_{name}": _answering(None) for name in silent},
        "_cuda_getDeviceCount": _answering(1),
        "_cuda_isCurrentStreamCapturing": _answering(False),
    }
    patches.set_all(torch._C, answers)
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        patches.set_all(
            accelerator,
            {
                "is_available": _answering(True),
                "device_count": _answering(1),
                "current_accelerator": lambda *_a, **_k: torch.device("cuda"),
                "current_device_index": _answering(0),
                "current_device_idx": _answering(0),
                "set_device_index": _answering(None),
                "synchronize": _answering(None),
                "current_stream": torch.cuda.current_stream,
                "set_stream": _answering(None),
            },
        )


def _answering(answer: Any) -> Callable[..., Any]:
    """Return a function of its own that always answers so (torch._dynamo keeps tables keyed by function object)."""
    return lambda *_args, **_kwargs: answer


def _patch_defaults(patches: Patches, mode: FakeCudaMode) -> None:
    from torch.utils._device import DeviceContext

    def set_default_device(device: Any) -> None:
        mode.default = claimed(device) or "cpu"

    def get_default_device() -> Any:
        return _GPU if mode.default == "gpu" else torch.device(mode.default)

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        mode.default = "gpu" if ".cuda." in name else "cpu"
        dtypes = {"Half": torch.float16, "BFloat16": torch.bfloat16, "Double": torch.float64, "Float": torch.float32}
        torch.set_default_dtype(dtypes.get(name.rpartition(".")[2].removesuffix("Tensor"), torch.float32))

    # `with torch.device("cuda"):` pushes a mode of its own in front of ours and hands us its device as an argument,
    # which is what we want; only its own default for the process has to be ours.
    assert DeviceContext is not None
    patches.set(torch, "set_default_device", set_default_device)
    patches.set(torch, "get_default_device", get_default_device)
    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _patch_autocast(patches: Patches) -> None:
    """Let autocasting for CUDA cast on the CPU too, to the type asked for."""
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__

    def entered(self: Any) -> Any:
        result = enter(self)
        if getattr(self, "device", "") == "cuda":
            kept = vars(self).setdefault("_tritonforge_kept", [])
            kept.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            torch.set_autocast_enabled("cpu", bool(self._enabled))
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return result

    def left(self: Any, *exception: Any) -> Any:
        if vars(self).get("_tritonforge_kept"):
            enabled, dtype = self._tritonforge_kept.pop()
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(self, *exception)

    patches.set(autocast, "__enter__", entered)
    patches.set(autocast, "__exit__", left)


def _patch_re_entry(patches: Patches, mode: FakeCudaMode) -> None:
    """Enter the mode again where torch leaves it: in backward functions, threads and bodies of custom operators."""

    def within(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def entered(*args: Any, **kwargs: Any) -> Any:
            with entering(mode):
                return fn(*args, **kwargs)

        return entered

    node = torch.autograd.function.BackwardCFunction
    for name in ("apply", "apply_boxed"):
        if name in vars(node):
            patches.set(node, name, within(vars(node)[name]))
    patches.set(threading.Thread, "run", within(threading.Thread.run))
    with contextlib.suppress(ImportError):
        from torch._library.custom_ops import CustomOpDef

        patches.set(CustomOpDef, "register_kernel", _register_on_cpu(CustomOpDef.register_kernel, within))
    library_impl = torch.library.Library.impl

    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if caller.startswith("torch."):  # torch's own operators, registered as something imports them
            return library_impl(self, op_name, fn, dispatch_key, **kwargs)
        key = dispatch_key.replace("CUDA", "CPU") if isinstance(dispatch_key, str) else dispatch_key
        return library_impl(self, op_name, within(fn) if callable(fn) else fn, key, **kwargs)

    patches.set(torch.library.Library, "impl", impl)


def _register_on_cpu(original: Callable[..., Any], within: Callable[[Any], Any]) -> Callable[..., Any]:
    def register_kernel(self: Any, device_types: Any, func: Any = None, /) -> Any:
        kinds = (device_types,) if isinstance(device_types, str) else device_types
        if kinds is not None and "cuda" in kinds:
            kinds = ("cpu",)

        def register(fn: Any) -> Any:
            return original(self, kinds)(within(fn))

        return register if func is None else register(func)

    return register_kernel


@contextlib.contextmanager
def entering(mode: FakeCudaMode) -> Any:
    """Enter the mode unless it is on this thread's stack already."""
    from torch.overrides import _get_current_function_mode_stack

    if any(m is mode for m in _get_current_function_mode_stack()):
        yield
    else:
        with mode:
            yield


def _not_compiled(model: Any = None, *_args: Any, **_kwargs: Any) -> Any:
    """Stand in for `torch.compile`: run eagerly, so that launches are the ones written down."""
    if model is None:
        return lambda fn: fn
    return model


def _loading_to_cpu(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_here(f: Any, _map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("map_location", None)
        return load(f, "cpu", *args, **kwargs)

    return load_here


class _FakeGenerator(torch.Generator):  # type: ignore[misc]
    """A CPU generator that takes CUDA for its device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = super().__new__(cls, device="cpu")
        made._claimed = _GPU if claimed(device) == "gpu" else _CPU
        return made

    def __init__(self, device: Any = "cpu") -> None:
        del device

    @property
    def device(self) -> Any:
        """The device it was asked for."""
        return getattr(self, "_claimed", _CPU)
