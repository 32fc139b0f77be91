"""libdevice functions for the interpreter, where Triton has stubs that return None or need a compiler."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle, np  # type: ignore[attr-defined,unused-ignore]

from tritonforge.worker.interpreter.bfloat16 import is_bf16, narrow, widen


def _torch(name: str) -> Callable[..., Any]:
    """Return a numpy function that computes through torch's function of that name."""
    function = getattr(torch, name, None) or getattr(torch.special, name)

    def compute(*arrays: Any) -> Any:
        tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]
        wide = [t.float() if t.dtype == torch.float16 else t for t in tensors]
        return function(*wide).numpy()

    return compute


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(np, name)
        for name in (
            "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
            "sqrt", "cbrt", "floor", "ceil", "trunc", "rint", "fmod", "copysign", "hypot", "ldexp", "nextafter",
        )
    },
    **{ours: _torch(theirs) for ours, theirs in (
        ("erf", "erf"), ("erfc", "erfc"), ("erfinv", "erfinv"), ("lgamma", "lgamma"), ("normcdf", "ndtr"),
        ("normcdfinv", "ndtri"), ("j0", "bessel_j0"), ("j1", "bessel_j1"), ("y0", "bessel_y0"), ("y1", "bessel_y1"),
        ("cyl_bessel_i0", "i0"), ("cyl_bessel_i1", "i1"), ("erfcx", "erfcx"),
    )},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "rsqrt_rn": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "rcbrt": lambda x: (1 / np.cbrt(x)).astype(x.dtype),
    "exp10": lambda x: np.power(np.asarray(10, dtype=x.dtype), x),
    "pow": np.power, "fabs": np.abs, "abs": np.abs, "llabs": np.abs,
    "round": lambda x: np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x)),
    "nearbyint": np.rint,
    "fmin": np.fmin, "fmax": np.fmax, "min": np.minimum, "max": np.maximum,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "fma": lambda x, y, z: (x.astype(np.float64) * y + z).astype(x.dtype),
    "isnan": np.isnan, "isnand": np.isnan, "isinf": np.isinf, "isinfd": np.isinf,
    "finitef": np.isfinite, "isfinited": np.isfinite, "signbit": np.signbit, "signbitf": np.signbit,
    "fast_expf": np.exp, "fast_logf": np.log, "fast_log2f": np.log2, "fast_log10f": np.log10, "fast_sinf": np.sin,
    "fast_cosf": np.cos, "fast_tanf": np.tan, "fast_powf": np.power, "fast_tanhf": np.tanh,
    "fast_exp10f": lambda x: np.power(np.asarray(10, dtype=x.dtype), x),
    "saturatef": lambda x: np.clip(x, 0, 1),
    "popc": lambda x: np.bitwise_count(x),  # noqa: PLW0108 - numpy 1 lacks it
    "mulhi": lambda x, y: ((x.astype(np.int64) * y) >> 32).astype(np.int32),
}  # fmt: skip
for _mode in ("rn", "rz", "rd", "ru"):
    _FUNCTIONS[f"div_{_mode}"] = np.divide
    _FUNCTIONS[f"add_{_mode}"] = np.add
    _FUNCTIONS[f"sub_{_mode}"] = np.subtract
    _FUNCTIONS[f"mul_{_mode}"] = np.multiply
    _FUNCTIONS[f"sqrt_{_mode}"] = np.sqrt
    _FUNCTIONS[f"fma_{_mode}"] = _FUNCTIONS["fma"]
    _FUNCTIONS[f"rcp_{_mode}"] = lambda x: (1 / x).astype(x.dtype)
_FUNCTIONS["fast_dividef"] = np.divide


def _on_tensors(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **_ignored: Any) -> Any:
        arrays, dtype = [], None
        for arg in args:
            value = getattr(arg, "value", arg) if not isinstance(arg, tl.tensor) else arg
            if isinstance(value, tl.tensor):
                kind = value.dtype.scalar
                dtype = dtype or kind
                data = widen(value.handle.data) if is_bf16(value.handle) else value.handle.data
                arrays.append(data if value.type.is_block() else data.reshape(()))
            else:
                arrays.append(value)
        dtype = dtype or tl.float32
        base = next((a.dtype for a in arrays if hasattr(a, "dtype")), np.dtype(np.float32))
        result = np.asarray(function(*[np.asarray(a, dtype=None if hasattr(a, "dtype") else base) for a in arrays]))
        if result.dtype == np.bool_:
            return wrapped(result.astype(np.int32), tl.int32)
        if dtype == tl.bfloat16 and base != np.float64:
            return wrapped(narrow(result.astype(np.float32)), dtype)
        return wrapped(result.astype(base, copy=False), dtype)

    called.__name__ = name
    return called


def wrapped(data: Any, dtype: Any) -> Any:
    """Return an array as the interpreter's tensor: a scalar for no dimensions, else a block."""
    if data.shape == ():
        return tl.tensor(TensorHandle(data.reshape((1,)), dtype), dtype)
    return tl.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(data.shape)))


def _missing(name: str) -> Callable[..., Any]:
    def called(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} cannot be interpreted on the CPU")

    return called


def install() -> None:
    """Replace the functions of Triton's libdevice modules, once, for the whole process."""
    for module_name in ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"):
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name, member in list(vars(module).items()):
            if name in _FUNCTIONS:
                setattr(module, name, _on_tensors(name, _FUNCTIONS[name]))
            elif callable(member) and not name.startswith("_") and getattr(member, "__module__", "") == module_name:
                setattr(module, name, _missing(name))
