"""Content keys: what a stored value depends on, as one hash.

A key that forgets something gives a wrong answer later, so keys here take too much rather than too little: compiled
facts and edits speak of lines and offsets, hence the text of the file is part of their key; so is our own source, since
a better model or parser must not be answered with what an older one stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tritonforge.domain.codec import encode
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Call, Config, Launch, Problem
from tritonforge.domain.profile import TargetInfo

_RESULT_ROOMS = ("analysis", "compilation", "diagnosis", "domain", "optimize", "prediction", "profiling", "rewrite")
_MORE_ROOMS = ("verify", "worker", "workload")


def content_key(kind: str, *parts: Any) -> str:
    """Return the sha256 (hex) of `parts`: nouns, containers of nouns, or plain values.

    Mappings are equal whatever their order; tuples are not. `kind` keeps equal contents of different meaning apart.
    """
    canonical = json.dumps([kind, encode(parts)], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def text_hash(text: str) -> str:
    """Return the sha256 (hex) of a source text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def tool_hash() -> str:
    """Return a hash of those parts of this package that decide what a result says."""
    return source_hash(*_RESULT_ROOMS, *_MORE_ROOMS)


def source_hash(*rooms: str) -> str:
    """Return a hash of the source of some rooms of this package."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def problem_key(problem: Problem) -> str:
    """Key of what a launch computes. Values of tensors count, the order of names does not."""
    return content_key("problem", dict(problem.arguments), dict(problem.constexprs))


def config_key(config: Config) -> str:
    """Key of how a launch computes it."""
    return content_key("config", dict(config.constexprs), dict(config.options), config.grid)


def compiled_key(kernel: Kernel, call: Call, *, arch: str, versions: Mapping[str, str | None], context: Any) -> str:
    """Key of what compiling the launches of `kernel` that `call` makes gives.

    `versions` names what compiles (Python, torch, Triton); `context` is the state of whatever else decides what is
    launched and how it is compiled: host functions, the kernel's layout in its file, environment variables. Neither the
    kernel's place in the file counts, nor how often and how fast the call ran where it was recorded.
    """
    launches = tuple(replace(launch, count=1, time_us=None) for launch in call.launches)
    return content_key(
        "compiled",
        kernel.file,
        kernel.name,
        kernel.code_hash,
        [site.site_hash for site in kernel.launch_sites],
        replace(call, count=1, launches=launches),
        arch,
        versions,
        context,
        tool_hash(),
    )


def search_key(
    kernel: Kernel,
    calls: Iterable[Call],
    target: TargetInfo,
    *,
    texts: Mapping[str, str],
    sources: Iterable[tuple[str, str]],
    context: Any,
) -> str:
    """Key of what is found out about versions of `kernel`: whether they compile, pass the gate, and how fast they are.

    `texts` maps each file that a version may change, or whose functions are called, to its text (edits are offsets into
    it); `sources` are (path, state) of all other files behind the program; `context` is whatever else decides:
    architecture, versions, what the GPU is judged by, environment. How long the calls took where they were recorded
    does not count.
    """
    made = [replace(call, launches=tuple(replace(one, time_us=None) for one in call.launches)) for call in calls]
    return content_key(
        "search",
        kernel.file,
        kernel.name,
        kernel.range,
        kernel.code_hash,
        [site.site_hash for site in kernel.launch_sites],
        {file: text_hash(text) for file, text in texts.items()},
        made,
        target,
        sorted(sources),
        context,
        tool_hash(),
    )


def answer_key(search: str, options: Mapping[str, Any]) -> str:
    """Key of what `optimize` answered: of a `search_key`, and what the user asked for (budget, engines, …)."""
    return content_key("answer", search, options)


def profile_key(kernel: Kernel, launch: Launch, target: TargetInfo, *, source: str) -> str:
    """Key of a `Profile` of `launch` on `target`; `source` is the text of the kernel's file."""
    return content_key(
        "profile",
        kernel.name,
        kernel.range,
        kernel.code_hash,
        text_hash(source),
        problem_key(launch.problem),
        config_key(launch.config),
        target,
        tool_hash(),
    )


def ceilings_key(gpu: str, driver: str, versions: Mapping[str, str]) -> str:
    """Key of the measured ceilings of a GPU: its name, driver, and versions of what measured it (torch, triton)."""
    return content_key("ceilings", gpu, driver, versions, tool_hash())
