"""`export --style tritonforge`: the file that `tritonforge.runtime.tuned` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Problem, Scalar, Symbol, Tensor, Value
from tritonforge.domain.tuning import TunedLaunch
from tritonforge.report.json_parts import Json, number

SCHEMA = "tritonforge-tuned/1"
"""`runtime/tuning_file.py` reads it, and imports nothing of ours: the two change together (a test holds them to it)."""


def tuned_document(launches: Sequence[TunedLaunch], on_shared: Callable[[str], None] = lambda _: None) -> Json:
    """Return the document of all kernels of `launches`, in an order that diffs well.

    No two entries of a GPU have the same key. Of launches that nothing in it can tell apart, the one that takes most
    time in all decides; where another one had a configuration of its own, `on_shared` is told in a sentence.
    """
    kernels: dict[str, list[TunedLaunch]] = {}
    for one in launches:
        kernels.setdefault(one.kernel.name, []).append(one)
    return {"schema": SCHEMA, "kernels": {name: _kernel(kernels[name], on_shared) for name in sorted(kernels)}}


def _kernel(launches: Sequence[TunedLaunch], on_shared: Callable[[str], None]) -> Json:
    first = launches[0]
    sizes, dtypes, flags = keys_of(first.kernel, [one.problem for one in launches])
    if any(_configs(same) > 1 for same in _alike(launches, sizes, dtypes, flags)):
        sizes += _telling_strides(first.kernel, launches)
    kept: list[TunedLaunch] = []
    for same in _alike(launches, sizes, dtypes, flags):
        kept.append(max(same, key=lambda one: one.source_us * one.launch.count))
        if (several := _configs(same)) > 1:
            on_shared(
                f"{first.kernel.name}: {len(same)} launches pass the same arguments and are fastest with {several} "
                "configurations; the one of the launch that takes most time is written"
            )
    launches = kept
    tunes = [name for name in first.config if all(name in one.config for one in launches)]
    gpus: dict[tuple[str, str], list[TunedLaunch]] = {}
    for one in launches:
        gpus.setdefault((one.gpu or "", one.arch), []).append(one)
    return {
        "file": first.kernel.file,
        "code_hash": first.kernel.code_hash,
        "keys": {"sizes": sizes, "dtypes": dtypes, "flags": flags},
        "tunes": tunes,
        "fallback": {name: first.source[name] for name in tunes},
        "gpus": [
            {
                "gpu": gpu,
                "arch": arch,
                "versions": dict(sorted(gpus[gpu, arch][0].versions.items())),
                "entries": sorted(
                    (_entry(one, sizes, dtypes, flags, tunes) for one in gpus[gpu, arch]),
                    key=lambda entry: (list(entry["sizes"].values()), str(entry["dtypes"]), str(entry["flags"])),
                ),
            }
            # Measured before predicted.
            for gpu, arch in sorted(gpus, key=lambda key: (not key[0], key))
        ],
    }


def keys_of(kernel: Kernel, problems: Sequence[Problem]) -> tuple[list[str], list[str], list[str]]:
    """Return what chooses a configuration: sizes (integer arguments), types of tensors, constexprs that carry meaning.

    Strides choose nothing, unless nothing else tells launches apart (see `_kernel`). A kernel without a size goes by
    how many elements its first tensor has.
    """
    roles = {parameter.name: parameter.role for parameter in kernel.parameters}
    sizes: list[str] = []
    dtypes: list[str] = []
    flags: list[str] = []
    arguments = [dict((*problem.arguments, *problem.constexprs)) for problem in problems]
    for parameter in kernel.parameters:
        values = [one.get(parameter.name) for one in arguments]
        if all(isinstance(value, Tensor) for value in values):
            dtypes.append(parameter.name)
        elif roles[parameter.name] in {"stride", "tile", "option"}:
            continue
        elif all(isinstance(value, Scalar) and type(value.value) is int for value in values):
            sizes.append(parameter.name)
        elif parameter.constexpr and all(isinstance(value, Scalar | Symbol) for value in values):
            flags.append(parameter.name)
    if not sizes and dtypes:
        sizes.append(f"{dtypes[0]}.numel")
    return sizes, dtypes, flags


_Keys = Sequence[str]


def _alike(
    launches: Sequence[TunedLaunch], sizes: _Keys, dtypes: _Keys, flags: _Keys
) -> Iterable[Sequence[TunedLaunch]]:
    """Return those of `launches` together that a file with these keys does not tell apart."""
    found: dict[str, list[TunedLaunch]] = {}
    for one in launches:
        values = dict((*one.problem.arguments, *one.problem.constexprs))
        key = (one.gpu, one.arch, _sizes(values, sizes), _dtypes(values, dtypes), _flags(values, flags))
        found.setdefault(repr(key), []).append(one)
    return found.values()


def _configs(launches: Sequence[TunedLaunch]) -> int:
    return len({repr(sorted(one.config.items())) for one in launches})


def _telling_strides(kernel: Kernel, launches: Sequence[TunedLaunch]) -> list[str]:
    """Return the strides, passed as integers, that are not the same in all launches."""
    arguments = [dict((*one.problem.arguments, *one.problem.constexprs)) for one in launches]
    told: list[str] = []
    for parameter in kernel.parameters:
        values = [one.get(parameter.name) for one in arguments]
        whole = all(isinstance(value, Scalar) and type(value.value) is int for value in values)
        if parameter.role == "stride" and whole and len({repr(value) for value in values}) > 1:
            told.append(parameter.name)
    return told


def _entry(one: TunedLaunch, sizes: list[str], dtypes: list[str], flags: list[str], tunes: list[str]) -> Json:
    values = dict((*one.problem.arguments, *one.problem.constexprs))
    return {
        "sizes": _sizes(values, sizes),
        "dtypes": _dtypes(values, dtypes),
        "flags": _flags(values, flags),
        "config": {name: one.config[name] for name in tunes},
        "time_us": _rounded(one.time_us),
        "source_us": _rounded(one.source_us),
        "provenance": one.provenance,
    }


def _sizes(values: Mapping[str, Value], names: _Keys) -> dict[str, int]:
    return {name: _size(values[name.partition(".")[0]]) for name in names}


def _dtypes(values: Mapping[str, Value], names: _Keys) -> dict[str, str]:
    return {name: value.dtype if isinstance(value := values[name], Tensor) else "" for name in names}


def _flags(values: Mapping[str, Value], names: _Keys) -> dict[str, object]:
    return {name: _flag(values[name]) for name in names}


def _size(value: object) -> int:
    if isinstance(value, Tensor):
        return value.elements
    return int(value.value) if isinstance(value, Scalar) and isinstance(value.value, int) else 0


def _flag(value: object) -> object:
    return value.value if isinstance(value, Scalar) else getattr(value, "name", "").rpartition(".")[2]


def _rounded(time: float) -> float | None:
    return number(float(f"{time:.5g}"))
