"""Answers of `torch.cuda` for a pretended GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from tritonforge.worker.fakecuda.devices import FakeDevice


class FakeStream:
    """A stream on which everything is done at once."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    priority = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)

    def synchronize(self) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Tell that everything is done."""
        return True

    def is_capturing(self) -> bool:
        """Tell that no graph is being captured: optimisers ask at every step."""
        return False

    def wait_stream(self, _stream: Any) -> None:
        """Nothing is pending there either."""

    def wait_event(self, _event: Any) -> None:
        """Events have always happened."""

    def record_event(self, event: Any = None) -> Any:
        """Return the event, recorded."""
        return event if event is not None else FakeEvent()

    def __enter__(self) -> FakeStream:  # noqa: PYI034 - Self is not in Python 3.10
        return self

    def __exit__(self, *_exc: object) -> None:
        return None


class FakeEvent:
    """An event that has always happened."""

    cuda_event = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)

    def record(self, _stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """It has happened."""

    def wait(self, _stream: Any = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        """Tell that it has happened."""
        return True

    def elapsed_time(self, _end: Any) -> float:
        """Return a millisecond, whatever was timed."""
        return 1.0


class FakeGraph:
    """A CUDA graph that captured nothing."""

    def replay(self) -> None:
        """Nothing to replay."""

    def reset(self) -> None:
        """Nothing to reset."""

    def pool(self) -> tuple[int, int]:
        """Return some pool."""
        return (0, 0)

    def capture_begin(self, *_args: Any, **_kwargs: Any) -> None:
        """What follows simply runs."""

    def capture_end(self) -> None:
        """What came before has simply run."""


class _Scope:
    """Stands for `torch.cuda.device`, `device_of`, `_DeviceGuard`, `stream` and `graph`: contexts without effect."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> _Scope:  # noqa: PYI034 - Self is not in Python 3.10
        return self

    def __exit__(self, *_exc: object) -> None:
        return None


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _zero(*_args: Any, **_kwargs: Any) -> int:
    return 0


def _own(answer: Any) -> Any:
    """Return a function of its own for one slot: torch._dynamo keeps tables keyed by function object."""
    return lambda *args, **kwargs: answer(*args, **kwargs)  # noqa: PLW0108 - a new object is the point


@contextlib.contextmanager
def _no_range(*_args: Any, **_kwargs: Any) -> Iterator[None]:
    yield


def cuda_answers(device: FakeDevice) -> dict[str, Any]:
    """Return the attributes of `torch.cuda` to replace."""
    stream = FakeStream()
    silent = (
        "set_device", "init", "_lazy_init", "synchronize", "empty_cache", "ipc_collect", "set_stream",
        "manual_seed_all",
        "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_accumulated_memory_stats", "set_rng_state",
        "set_rng_state_all", "set_per_process_memory_fraction", "_lazy_call", "_sleep", "check_error",
    )  # fmt: skip
    zeros = (
        "current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
        "memory_cached", "max_memory_cached", "_exchange_device", "_maybe_exchange_device",
        "utilization", "temperature",
        "initial_seed", "current_blas_handle",
    )  # fmt: skip
    scopes = ("device", "device_of", "_DeviceGuard", "stream", "StreamContext", "graph")
    answers: dict[str, Any] = {
        **{name: _own(_nothing) for name in silent},
        **{name: _own(_zero) for name in zeros},
        **dict.fromkeys(scopes, _Scope),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "_device_count_nvml": lambda: 1,
        "get_device_capability": lambda *_a, **_k: device.capability,
        "get_device_name": lambda *_a, **_k: device.name,
        "get_device_properties": lambda *_a, **_k: device.properties(),
        "get_arch_list": lambda: [device.arch],
        "get_gencode_flags": lambda: "",
        "is_bf16_supported": lambda *_a, **_k: device.capability >= (8, 0),
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *_a: False,
        "mem_get_info": lambda *_a, **_k: (device.memory_bytes, device.memory_bytes),
        "memory_stats": lambda *_a, **_k: {},
        "memory_summary": lambda *_a, **_k: "",
        "current_stream": lambda *_a, **_k: stream,
        "default_stream": lambda *_a, **_k: stream,
        "Stream": FakeStream,
        "ExternalStream": FakeStream,
        "Event": FakeEvent,
        "CUDAGraph": FakeGraph,
        "manual_seed": lambda seed: torch.manual_seed(int(seed)),
        "seed": lambda: int(torch.seed()),
        "get_rng_state": lambda *_a, **_k: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "default_generators": (torch.default_generator,),
        "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": lambda callables, *_a, **_k: callables,
        "cudart": lambda: SimpleNamespace(cudaProfilerStart=_zero, cudaProfilerStop=_zero),
        "nvtx": SimpleNamespace(
            range_push=_nothing,
            range_pop=_nothing,
            mark=_nothing,
            range=_no_range,
            range_start=_zero,
            range_end=_nothing,
        ),
    }
    for name, dtype in _LEGACY_TYPES:
        answers[f"{name}Tensor"] = _legacy(f"{name}Tensor", getattr(torch, dtype))
    return answers


_LEGACY_TYPES = (
    ("Float", "float32"),
    ("Half", "float16"),
    ("BFloat16", "bfloat16"),
    ("Int", "int32"),
    ("Long", "int64"),
    ("Byte", "uint8"),
    ("Bool", "bool"),
    ("Double", "float64"),
)


class _LegacyType(type):
    """The type of `torch.cuda.FloatTensor` and its like: no tensor's own, but `isinstance` says what it stands for."""

    dtype: Any

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype

    def __call__(cls, *args: Any) -> Any:
        """Return a tensor from a sequence, or an empty one of the sizes given."""
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            return torch.tensor(args[0], dtype=cls.dtype, device="cuda")
        return torch.empty(args, dtype=cls.dtype, device="cuda")


def _legacy(name: str, dtype: Any) -> Any:
    return _LegacyType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})
