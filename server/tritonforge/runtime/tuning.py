"""`tuned`: a kernel that launches with the configuration that was found for its GPU and the sizes at hand."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritonforge.runtime.devices import DeviceInfo, device_info
from tritonforge.runtime.first_batch import Remembered, measure_configs
from tritonforge.runtime.tuning_file import Config, Entry, KernelTuning, TuningFileError, nearest, read_tuning


def tuned(
    path: str | Path,
    *,
    name: str | None = None,
    measure: bool = False,
    remember: str | Path | None = None,
    device: Callable[[Any], DeviceInfo] = device_info,
) -> Callable[[Any], Tuned]:
    """Decorate a `@triton.jit` kernel so that it launches with the configuration that `path` holds for it.

        @tuned("kernels.tuned.json")
        @triton.jit
        def matmul_kernel(a_ptr, …, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr): …

        matmul_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), …)](a, b, c, M, N, K, …)

    Values that a launch gives itself are left alone: only those that it leaves out are chosen. So a grid must be a
    function of `meta`, or not depend on what is chosen.

    The configuration is that of the same GPU, else of a GPU of the same architecture; for exactly these sizes, else for
    the nearest sizes of the same types and flags; else what the source said when the file was made.

    Args:
        path: of the file; relative to the current folder, or, where it is not there, to the kernel's own.
        name: of the kernel in the file, where it is another one.
        measure: when sizes are launched for the first time that the file does not have, try every configuration of the
            file on that very launch and keep the fastest. Tensor arguments are saved and put back around it.
        remember: where to keep what was measured, for the next start.
        device: tells of a tensor's `device` which GPU it is.

    Raises:
        TuningFileError: when the file cannot be used.
        TypeError: for something that is no kernel, or one that is autotuned, too.
    """

    def decorate(kernel: Any) -> Tuned:
        return Tuned(kernel, path, name=name, measure=measure, remember=remember, device=device)

    return decorate


class Tuned:
    """A kernel with a file of configurations. It is launched as the kernel is, and has its attributes.

    `kernel` is what was decorated, `tuning` what the file says of it.
    """

    def __init__(
        self,
        kernel: Any,
        path: str | Path,
        *,
        name: str | None = None,
        measure: bool = False,
        remember: str | Path | None = None,
        device: Callable[[Any], DeviceInfo] = device_info,
    ) -> None:
        function = _function(kernel)
        own = getattr(function, "__qualname__", "").replace("<locals>.", "")
        self.kernel = kernel
        self.tuning = read_tuning(_place(path, function), name or own)
        parameters = inspect.signature(function).parameters
        self._order = {parameter: index for index, parameter in enumerate(parameters)}
        self._defaults = {
            parameter: one.default for parameter, one in parameters.items() if one.default is not one.empty
        }
        self._run = kernel.run
        self._device = device
        compiler = getattr(sys.modules.get("torch"), "compiler", None)
        self._compiling: Callable[[], bool] = getattr(compiler, "is_compiling", _never)
        self._configs: dict[Any, dict[str, Any]] = {}
        self._lock = threading.RLock()  # a grid or a hook may launch the kernel itself
        self._remembered = Remembered(remember, self.tuning) if measure else None
        self._prepare(self.tuning, str(path))
        functools.update_wrapper(self, function, updated=())

    def _prepare(self, tuning: KernelTuning, path: str) -> None:
        """Find the places of what chooses and of what is chosen in the kernel's signature.

        Raises:
            TuningFileError: when the kernel has no such parameters (any more).
        """
        keys = tuning.keys
        self._key_names = (*(size.partition(".")[0] for size in keys.sizes), *keys.dtypes, *keys.flags)
        unknown = [one for one in self._key_names if one not in self._order]
        if unknown:
            raise TuningFileError(
                f"{path} was made for another version of {tuning.name}: it has no parameter {unknown[0]}. "
                "Make it anew with tritonforge export."
            )
        taken = [one for one in tuning.tunes if one in {*self._key_names, "grid", "warmup"}]
        if taken:
            raise TuningFileError(f"{path} is damaged: it tunes {taken[0]}. Make it anew with tritonforge export.")
        self._by_count = [size.endswith(_COUNTED) for size in keys.sizes]
        self._places = [(one, self._order[one]) for one in self._key_names]
        self._first_name = (*keys.dtypes, next(iter(self._order)))[0]
        self._placed = self._order[self._first_name]
        self._needed = max(self._placed, *(self._order[one] for one in self._key_names), 0) + 1
        self._keys = [self._key_of_launch(count) for count in range(self._needed + 1)]
        self._chosen = {one: self._order[one] for one in tuning.tunes if one in self._order}
        self._first_chosen = min(self._chosen.values(), default=len(self._order))

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return what launches the kernel over `grid`."""
        compiling, keys, configs, launch = self._compiling, self._keys, self._configs, self._run
        needed, first = self._needed, self._first_chosen

        def launched(*args: Any, **kwargs: Any) -> Any:
            # What `run` does, for the launches that are all the same: nothing is called on the way that need not be.
            count = len(args)
            if count <= first and not compiling():
                try:
                    config = configs[keys[count if count < needed else -1](args, kwargs)]
                except (KeyError, AttributeError, TypeError):  # new sizes, or arguments that are no tensors
                    pass
                else:
                    return launch(*args, grid=grid, warmup=False, **(config | kwargs if kwargs else config))
            return self.run(*args, grid=grid, warmup=False, **kwargs)

        return launched

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch the kernel over `grid` (with `warmup` only compile it) with what is chosen for these arguments."""
        if self._compiling():
            traced = {**self._pick_traced(args, kwargs), **kwargs}
            return self.kernel[grid](*args, **traced)  # the form that torch.compile takes into its graph
        config = self._pick(args, kwargs, grid=grid, warmup=warmup)
        return self._run(*args, grid=grid, warmup=warmup, **{**config, **kwargs})

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile the kernel for these arguments, which may be types, as its own `warmup` does."""
        return self.kernel.warmup(*args, grid=grid, **{**self.pick(*args, **kwargs), **kwargs})

    def pick(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return what is chosen for a launch with these arguments, without launching: for hosts that compute grids."""
        return dict(self._pick(args, kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what calling the kernel does."""
        return self.kernel(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel."""
        if name.startswith("__") or "kernel" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def __reduce__(self) -> str:
        """Be pickled and copied as functions are: by name, and as the very same."""
        return str(self.__qualname__)

    def __repr__(self) -> str:
        """Name the kernel."""
        return f"tuned({self.kernel!r})"

    def _key_of_launch(self, count: int) -> Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]]:
        """Return what tells launches with different configurations apart, for launches of `count` positional arguments.

        Every launch goes through it, so it is one expression that is written for this signature, as `namedtuple` does.
        """

        def read(name: str) -> str:
            if self._order[name] < count:
                return f"args[{self._order[name]}]"
            return f"kwargs.get({name!r}, defaults[{name!r}])" if name in self._defaults else f"kwargs[{name!r}]"

        keys = self.tuning.keys
        parts = [
            *(
                f"{read(one)}.numel()" if by else read(one)
                for (one, _), by in zip(self._places, self._by_count, strict=False)
            ),
            *(f"{read(one)}.dtype" for one in keys.dtypes),
            *(read(one) for one in keys.flags),
            f"{read(self._first_name)}.device",
        ]
        source = f"lambda args, kwargs: ({', '.join(parts)},)"
        key: Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]]
        key = eval(source, {"defaults": self._defaults})  # noqa: S307 - of parameters' names alone
        return key

    def _pick(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], **launch: Any) -> dict[str, Any]:
        """Choose for arguments that may be named, left out, or new; what the launch gives itself is not chosen."""
        try:
            key = self._keys[min(len(args), self._needed)](args, kwargs)
            config = self._configs.get(key)
        except (KeyError, AttributeError, TypeError):
            key, config = None, None
        if config is None:
            config = self._choose(args, kwargs, launch)
            launched = bool(launch) and not launch["warmup"]
            if key is not None and (launched or self._remembered is None):  # a launch may still measure
                with self._lock:
                    if len(self._configs) >= _MOST_KEYS:  # sizes that never come again must not fill the memory
                        self._configs.clear()
                    config = self._configs.setdefault(key, config)
        if len(args) > self._first_chosen or not kwargs.keys().isdisjoint(config):
            given = {one for one, index in self._chosen.items() if index < len(args)} | kwargs.keys()
            return {one: value for one, value in config.items() if one not in given}
        return config

    def _pick_traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Choose while `torch.compile` traces: with nothing but indexing here, and the rest done once, as constants.

        Sizes become constants of the compiled graph, as they do for an autotuned kernel.
        """
        named = self._named(args, kwargs)
        count, typed = len(self.tuning.keys.sizes), len(self.tuning.keys.dtypes)
        sizes = tuple([int(v.numel() if by else v) for v, by in zip(named[:count], self._by_count, strict=True)])
        types = tuple([value.dtype for value in named[count : count + typed]])
        flags = tuple(named[count + typed :])
        device = args[self._placed].device if self._placed < len(args) else kwargs[self._first_name].device
        config = {}
        for name in self.tuning.tunes:
            if name in self._chosen and self._chosen[name] < len(args):
                continue
            value = self._constant(name, sizes, types, flags, device)
            if value is not None:
                config[name] = value
        return config

    def _constant(
        self, name: str, sizes: tuple[int, ...], types: tuple[Any, ...], flags: tuple[Any, ...], device: Any
    ) -> Any:
        """Return one value of the configuration: torch takes numbers and texts for constants, and no mapping."""
        info = self._device(device)
        entries = self.tuning.entries_for(info.name, info.arch)
        entry = nearest(entries, sizes, [dtype_name(one) for one in types], [_plain(one) for one in flags])
        return (entry.config if entry is not None else self.tuning.fallback).get(name)

    # What `torch.compiler.assume_constant_result` does to a function: torch calls it while it traces.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments that choose: sizes, then types, then flags; None for one that is not there."""
        return [args[i] if i < len(args) else kwargs.get(name, self._defaults.get(name)) for name, i in self._places]

    def _choose(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], launch: Mapping[str, Any]) -> dict[str, Any]:
        """Choose for sizes that were not seen before."""
        named = self._named(args, kwargs)
        count, typed = len(self.tuning.keys.sizes), len(self.tuning.keys.dtypes)
        first = args[self._placed] if self._placed < len(args) else kwargs.get(self._first_name)
        device = self._device(getattr(first, "device", None))
        entries = self.tuning.entries_for(device.name, device.arch)
        try:
            sizes = [int(v.numel() if by else v) for v, by in zip(named[:count], self._by_count, strict=True)]
        except (TypeError, ValueError, AttributeError):  # a size that is no number chooses nothing
            return dict(self.tuning.fallback)
        dtypes = [dtype_name(getattr(one, "dtype", None)) for one in named[count : count + typed]]
        flags = [_plain(one) for one in named[count + typed :]]
        entry = nearest(entries, sizes, dtypes, flags)
        if (
            self._remembered is not None
            and launch
            and not launch["warmup"]
            and (entry is None or [*entry.sizes] != sizes)
        ):
            key = (self.tuning.name, device.name, sizes, dtypes, flags)
            found = self._first_batch(key, entries, args, kwargs, launch["grid"])
            if found is not None:
                return dict(found)
        return dict(entry.config if entry is not None else self.tuning.fallback)

    def _first_batch(
        self, key: Sequence[Any], entries: Sequence[Entry], args: tuple[Any, ...], kwargs: Mapping[str, Any], grid: Any
    ) -> Config | None:
        """Measure every configuration on this launch, or remember what was measured at an earlier start."""
        assert self._remembered is not None
        with self._lock:  # two threads would measure each other
            configs = self.tuning.every_config(entries or self.tuning.all_entries())
            known = self._remembered.find(key)
            if known not in configs:  # or it was remembered for another file
                known = measure_configs(
                    lambda config: self._run(*args, grid=grid, warmup=False, **{**config, **kwargs}),
                    configs,
                    (*args, *kwargs.values()),
                )
                if known is not None:
                    self._remembered.keep(key, known)
        return known


def dtype_name(dtype: Any) -> str:
    """Return a type as `tritonforge` writes it: `float16` for `torch.float16`; empty for none."""
    return "" if dtype is None else str(dtype).rpartition(".")[2]


def _never() -> bool:
    return False


_COUNTED = ".numel"
_MOST_KEYS = 1 << 16


def _plain(value: Any) -> Any:
    """Return a flag as JSON holds it: a type or a function by its name."""
    return (
        value
        if value is None or isinstance(value, bool | int | float | str)
        else getattr(value, "__name__", str(value))
    )


def _function(kernel: Any) -> Any:
    """Return the Python function behind a kernel and its decorators.

    Raises:
        TypeError: for something that is no kernel, and for an autotuned one.
    """
    at, depth = kernel, 0
    while not inspect.isfunction(at):
        if type(at).__name__ == "Autotuner":
            raise TypeError("@tuned takes the place of @triton.autotune: remove one of them.")
        at, depth = getattr(at, "fn", None), depth + 1
        if at is None or depth > 10:
            raise TypeError(f"@tuned decorates a kernel made with @triton.jit, not {type(kernel).__name__}.")
    if at is kernel:
        raise TypeError("@tuned stands above @triton.jit.")
    return at


def _place(path: str | Path, function: Any) -> Path:
    """Return where the file is: as given, else beside the file that defines the kernel."""
    place = Path(path).expanduser()
    beside = Path(function.__code__.co_filename).parent / place
    return beside if not place.is_absolute() and not place.exists() and beside.exists() else place
