"""`export --style tritonforge`: the file that `tritonforge.runtime.tuned` reads."""

from __future__ import annotations

from collections.abc import Sequence

from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Problem, Scalar, Symbol, Tensor
from tritonforge.domain.tuning import TunedLaunch
from tritonforge.report.json_parts import Json, number

SCHEMA = "tritonforge-tuned/1"
"""`runtime/tuning_file.py` reads it, and imports nothing of ours: the two change together (a test holds them to it)."""


def tuned_document(launches: Sequence[TunedLaunch]) -> Json:
    """Return the document of all kernels of `launches`, in an order that diffs well."""
    kernels: dict[str, list[TunedLaunch]] = {}
    for one in launches:
        kernels.setdefault(one.kernel.name, []).append(one)
    return {"schema": SCHEMA, "kernels": {name: _kernel(kernels[name]) for name in sorted(kernels)}}


def _kernel(launches: Sequence[TunedLaunch]) -> Json:
    first = launches[0]
    sizes, dtypes, flags = keys_of(first.kernel, [one.problem for one in launches])
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

    Strides choose nothing. A kernel without a size goes by how many elements its first tensor has.
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


def _entry(one: TunedLaunch, sizes: list[str], dtypes: list[str], flags: list[str], tunes: list[str]) -> Json:
    values = dict((*one.problem.arguments, *one.problem.constexprs))
    return {
        "sizes": {name: _size(values[name.partition(".")[0]]) for name in sizes},
        "dtypes": {name: value.dtype if isinstance(value := values[name], Tensor) else "" for name in dtypes},
        "flags": {name: _flag(values[name]) for name in flags},
        "config": {name: one.config[name] for name in tunes},
        "time_us": _rounded(one.time_us),
        "source_us": _rounded(one.source_us),
        "provenance": one.provenance,
    }


def _size(value: object) -> int:
    if isinstance(value, Tensor):
        return value.elements
    return int(value.value) if isinstance(value, Scalar) and isinstance(value.value, int) else 0


def _flag(value: object) -> object:
    return value.value if isinstance(value, Scalar) else getattr(value, "name", "").rpartition(".")[2]


def _rounded(time: float) -> float | None:
    return number(float(f"{time:.5g}"))
