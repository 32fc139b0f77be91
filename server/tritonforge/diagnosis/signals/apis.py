"""Functions of Triton that were removed or deprecated, and since when.

Each entry was read off the sources in the wheels of 2.0.0, 2.1.0, 2.2.0, 2.3.1, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0,
3.5.0, 3.6.0, 3.7.1, 3.8.0 and 3.9.0: removed in the first of them that lacks it or raises, deprecated in the first
whose code or documentation says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tritonforge.diagnosis.case import Case
from tritonforge.diagnosis.signals.versions import Version, version_of
from tritonforge.domain.kernel import ApiUse

_BLOCK_POINTERS = "tl.make_tensor_descriptor, or plain pointers with a mask"
_LIBDEVICE = "`from triton.language.extra import libdevice`"
_ALLOW = 'input_precision="tf32" or "ieee"'


@dataclass(frozen=True)
class Api:
    """A function, or with `keyword` one of its arguments: `removed` and `deprecated` are versions, None for not yet."""

    path: str
    instead: str
    removed: Version | None = None
    deprecated: Version | None = None
    keyword: str = ""

    @property
    def name(self) -> str:
        """How people write it."""
        path = self.path.rstrip(".").replace("triton.language.", "tl.")
        return f"the argument {self.keyword} of {path}" if self.keyword else path


_MATH = (
    "acos acosh asin asinh atan atan2 atanh brev byte_perm cbrt clz copysign cosh cospi div_rd div_ru div_rz erfc "
    "erfcinv erfcx erfinv exp10 expm1 fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f fast_log2f fast_logf "
    "fast_powf fast_sinf fast_tanf fdim ffs finitef float_as_int float_as_uint fmod hypot ilogb int_as_float isfinited "
    "isinf isnan j0 j1 ldexp lgamma llrint llround log10 log1p logb max min nearbyint nextafter normcdf normcdfinv "
    "popc pow rcbrt remainder rhypot rint round rsqrt_rn saturatef scalbn signbit sinh sinpi tan tanh tgamma trunc "
    "uint_as_float y0 y1"
)
"""Names of libdevice that `tl.math` had up to 2.3.1."""

TABLE: tuple[Api, ...] = (
    Api("triton.language.libdevice.", _LIBDEVICE, removed=(2, 1, 0)),
    *(Api(f"triton.language.math.{name}", _LIBDEVICE, removed=(3, 0, 0)) for name in _MATH.split()),
    Api("triton.ops.", "a kernel of one's own, or the tutorials'", removed=(3, 2, 0)),
    Api("triton.language._experimental_descriptor_load", "tl.make_tensor_descriptor", removed=(3, 4, 0)),
    Api("triton.language._experimental_descriptor_store", "tl.make_tensor_descriptor", removed=(3, 4, 0)),
    Api("triton.language._experimental_make_tensor_descriptor", "tl.make_tensor_descriptor", removed=(3, 4, 0)),
    Api("triton.language._experimental_reinterpret_tensor_descriptor", "tl.make_tensor_descriptor", removed=(3, 4, 0)),
    Api("triton.language.async_task", "tl.range(…, warp_specialize=True)", removed=(3, 6, 0)),
    Api("triton.language.make_block_ptr", _BLOCK_POINTERS, removed=(3, 9, 0), deprecated=(3, 7, 1)),
    Api("triton.language.advance", _BLOCK_POINTERS, removed=(3, 9, 0), deprecated=(3, 7, 1)),
    Api("triton.language.view", "tl.reshape", deprecated=(3, 0, 0)),
    Api("triton.language.dot", _ALLOW, deprecated=(3, 0, 0), keyword="allow_tf32"),
    Api("triton.autotune", "do_bench", deprecated=(3, 2, 0), keyword="warmup"),
    Api("triton.autotune", "do_bench", deprecated=(3, 2, 0), keyword="rep"),
    Api("triton.autotune", "do_bench", deprecated=(3, 2, 0), keyword="use_cuda_graph"),
    Api("triton.language.cat", "dim=", deprecated=(3, 9, 0), keyword="can_reorder"),
    Api("triton.language.reshape", "no such hint", deprecated=(3, 9, 0), keyword="can_reorder"),
    Api("triton.language.softmax", "nothing: it has no effect", deprecated=(3, 9, 0), keyword="keep_dims"),
)


@dataclass(frozen=True)
class Outdated:
    """`use` of `api`; `installed` is the version that the launch was compiled with, None without one."""

    api: Api
    use: ApiUse
    installed: Version | None

    @property
    def is_gone(self) -> bool:
        """Whether the installed version lacks it."""
        return self.installed is not None and self.api.removed is not None and self.installed >= self.api.removed

    @property
    def warns(self) -> bool:
        """Whether the installed version has it, and calls it deprecated."""
        since = self.api.deprecated
        return self.installed is not None and not self.is_gone and since is not None and self.installed >= since


def outdated(case: Case) -> Iterator[Outdated]:
    """Yield what the kernel uses of the table, each once."""
    installed = version_of(case.compilation.triton) if case.compilation is not None else None
    seen: set[Api] = set()
    for use in case.kernel.apis:
        for api in _named(use.path, use.keyword):
            if api not in seen:
                seen.add(api)
                yield Outdated(api, use, installed)


@lru_cache(maxsize=1024)
def _named(path: str, keyword: str) -> tuple[Api, ...]:
    """Return what of the table is used: one after the other asks for the same few functions."""
    return tuple(
        api
        for api in TABLE
        if api.keyword == keyword and (path.startswith(api.path) if api.path.endswith(".") else path == api.path)
    )
