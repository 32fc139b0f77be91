"""Read the settings of a workspace: `tritonforge.toml`, or `[tool.tritonforge]` in `pyproject.toml`."""

from __future__ import annotations

import datetime as dt
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tritonforge.config import validate as v
from tritonforge.config.lines import index_lines, index_values
from tritonforge.config.settings import DatedIgnore, LlmSettings, SendingSettings, SettingProblem, Settings
from tritonforge.domain.errors import UsageError
from tritonforge.domain.ignoring import lapsed_because
from tritonforge.domain.messages import Limits
from tritonforge.domain.target import Target

SETTINGS_FILE = "tritonforge.toml"
PYPROJECT = "pyproject.toml"
AUTO_NAME = "auto"

_TOP: dict[str, v.Rule] = {
    "default-target": v.Rule("the name of a target", v.text),
    "targets": v.Rule("a table of targets", v.table),
    "llm": v.Rule("a table", v.table),
    "launch": v.Rule("an array of tables, [[launch]]", v.tables),
    "select": v.Rule('a list of codes or prefixes such as "TF203" or "TF2"', v.codes),
    "ignore": v.Rule('a list of codes or prefixes such as "TF203", "TF2" or "TF203 until 2027-03-01"', v.dated_codes),
    "per-file-ignores": v.Rule("a table from file patterns to lists of codes", v.file_codes),
    "limits": v.Rule("a table", v.table),
    "sending": v.Rule("a table", v.table),
}
_TARGET: dict[str, v.Rule] = {
    "command": v.Rule('a list of words such as ["ssh", "-T", "gpu1"]', v.texts),
    "python": v.Rule("the path of an interpreter", v.text),
    "quoting": v.Rule('"shell" or "none"', v.one_of("shell", "none")),
    "arch": v.Rule('an architecture such as "sm_90" or "gfx942"', v.matching(r"sm_\d{2,3}[af]?|gfx[0-9a-f]{3,5}")),
    "gpu": v.Rule("the name of a GPU", v.text),
}
_LLM: dict[str, v.Rule] = {
    "model": v.Rule("the name of a model", v.text),
    "base-url": v.Rule("an http:// or https:// address", v.matching(r"https?://\S+")),
    "max-rounds": v.Rule("a whole number from 1 to 1000", v.whole(1, 1000)),
    "max-tokens": v.Rule("a whole number of tokens from 1000 up", v.whole(1000, 10**12)),
    "max-cost": v.Rule("an amount above 0", v.number(above=0.0)),
    "max-seconds": v.Rule("a number of seconds above 0", v.seconds),
    "input-price": v.Rule("a price per million tokens, 0 or more", v.number()),
    "output-price": v.Rule("a price per million tokens, 0 or more", v.number()),
    "api": v.Rule('"auto", "responses" or "chat"', v.one_of("auto", "responses", "chat")),
    "stream": v.Rule("true or false", v.boolean),
    "structured-output": v.Rule("true or false", v.boolean),
    "temperature": v.Rule('a number from 0 to 2, or "none" to send none', v.or_none(v.number(most=2.0))),
    "seed": v.Rule('a whole number from 0 up, or "none" to send none', v.or_none(v.whole(0, 2**31 - 1))),
    "timeout": v.Rule("a number of seconds above 0", v.seconds),
    "retries": v.Rule("a whole number from 0 to 20", v.whole(0, 20)),
    "context-tokens": v.Rule("a whole number of tokens from 2048 up", v.whole(2048, 10**8)),
    "answer-tokens": v.Rule("a whole number of tokens from 256 up", v.whole(256, 10**7)),
    "organization": v.Rule("the name of an organisation", v.text),
    "project": v.Rule("the name of a project", v.text),
    "proxy": v.Rule("the address of a proxy", v.matching(r"(?:https?|socks5h?)://\S+")),
    "headers": v.Rule('a table of header names and texts; "env:TRITONFORGE_LLM_…" reads a variable', v.headers),
}
_LIMITS: dict[str, v.Rule] = {
    "seconds": v.Rule("a number of seconds above 0", v.seconds),
    "memory": v.Rule('bytes, or a size such as "8 GiB"', v.size),
}

_SENDING: dict[str, v.Rule] = {
    "file": v.Rule('bytes, or a size such as "64 MiB", 1 GiB at most', v.size_up_to(1 << 30)),
    "total": v.Rule('bytes, or a size such as "512 MiB"', v.size),
    "files": v.Rule("a whole number of files from 1 up", v.whole(1, 10**6)),
}


def load(
    root: Path,
    *,
    strict: bool = True,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of the workspace at `root`.

    `tritonforge.toml` wins over `pyproject.toml`; `overrides` (the same keys, from an editor) win over both;
    `TRITONFORGE_LLM_MODEL` names a model for one run, and `OPENAI_BASE_URL` is used where no `base-url` is set.

    Raises:
        UsageError: when `strict` and something is wrong, with file, line and mend. Otherwise wrong values keep their
            defaults and `Settings.problems` says what was wrong.
    """
    source, table = _read(root)
    settings = _build(Settings(root=root, source=source.name or None), table, source)
    problems = list(source.problems)
    if overrides:
        editor = v.Source("editor settings")
        settings = _build(settings, overrides, editor)
        problems += editor.problems
    settings = _with_environment(settings, os.environ if environment is None else environment)
    settings = replace(settings, problems=tuple(problems))
    if strict and problems:
        first = problems[0]
        place = first.source if first.line is None else f"{first.source}:{first.line}"
        raise UsageError(f"{place}: {first.message}", first.mend)
    return settings


def _read(root: Path) -> tuple[v.Source, Mapping[str, Any]]:
    for name in (SETTINGS_FILE, PYPROJECT):
        path = root / name
        if not path.is_file():
            continue
        source = v.Source(name)
        try:
            text = path.read_bytes().decode("utf-8-sig")
            document = tomllib.loads(text)
        except OSError as error:
            source.problems.append(SettingProblem(name, None, f"cannot be read: {error.strerror}."))
            return source, {}
        except UnicodeDecodeError as error:
            line = path.read_bytes()[: error.start].count(b"\n") + 1
            source.problems.append(SettingProblem(name, line, "is not UTF-8.", "Save it as UTF-8."))
            return source, {}
        except tomllib.TOMLDecodeError as error:
            source.problems.append(_syntax_problem(name, text, error))
            return source, {}
        source.index = index_lines(text)
        source.values = index_values(text)
        if name == SETTINGS_FILE:
            return source, document
        tool = document.get("tool", {})
        if isinstance(tool, dict) and "tritonforge" in tool:
            source.prefix = ("tool", "tritonforge")
            if isinstance(tool["tritonforge"], dict):
                return source, tool["tritonforge"]
            source.report((), "[tool.tritonforge] must be a table.")
            return source, {}
    return v.Source(""), {}


def _syntax_problem(name: str, text: str, error: tomllib.TOMLDecodeError) -> SettingProblem:
    found = re.search(r"\(at line (\d+), column \d+\)", str(error))
    line = int(found[1]) if found else max(1, len(text.splitlines()))
    reason = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
    return SettingProblem(name, line, f"{reason[:1].lower()}{reason[1:]}.", "The file is not valid TOML.")


def _build(base: Settings, table: Mapping[str, Any], source: v.Source) -> Settings:
    """Return `base` with what `table` sets."""
    top = v.check_table(table, _TOP, (), source)
    llm = v.check_table(top.get("llm", {}), _LLM, ("llm",), source)
    limits = v.check_table(top.get("limits", {}), _LIMITS, ("limits",), source)
    sending = v.check_table(top.get("sending", {}), _SENDING, ("sending",), source)
    ignore, per_file, dated = _ignores(top.get("ignore"), top.get("per-file-ignores", ()))
    targets = {**base.targets, **_targets(top.get("targets", {}), base.targets, source)}
    default = top.get("default-target", base.default_target)
    if default not in {AUTO_NAME, *targets}:
        mend = v.did_you_mean(default, {AUTO_NAME, *targets}, "Known targets")
        source.report(("default-target",), f"unknown target '{default}'.", mend)
        default = base.default_target
    return replace(
        base,
        default_target=default,
        targets=targets,
        llm=_llm(base.llm, llm, source),
        launches=base.launches + v.check_launches(top.get("launch", []), source),
        select=top.get("select", base.select),
        ignore=base.ignore if ignore is None else ignore,
        per_file_ignores=base.per_file_ignores + per_file,
        dated=base.dated + dated,
        limits=Limits(
            seconds=limits.get("seconds", base.limits.seconds),
            memory_bytes=limits.get("memory", base.limits.memory_bytes),
        ),
        sending=SendingSettings(
            sending.get("file", base.sending.file_bytes),
            sending.get("total", base.sending.total_bytes),
            sending.get("files", base.sending.files),
        ),
    )


def _llm(base: LlmSettings, kept: Mapping[str, Any], source: v.Source) -> LlmSettings:
    settings = replace(base, **{key.replace("-", "_"): value for key, value in kept.items()})
    if settings.max_cost is not None and (settings.input_price is None or settings.output_price is None):
        source.report(
            ("llm", "max-cost"),
            "'max-cost' in [llm] needs prices.",
            "Set input-price and output-price, per million tokens.",
        )
        settings = replace(settings, max_cost=None)
    if settings.answer_tokens > settings.context_tokens // 2:
        source.report(
            ("llm", "answer-tokens"),
            "'answer-tokens' in [llm] leaves less than half of 'context-tokens' to the question.",
            f"Set it to {settings.context_tokens // 2} at most.",
        )
        settings = replace(settings, answer_tokens=settings.context_tokens // 2)
    return settings


_PerFile = tuple[tuple[str, tuple[str, ...]], ...]


def _ignores(
    ignore: tuple[v.Dated, ...] | None, per_file: tuple[tuple[str, tuple[v.Dated, ...]], ...]
) -> tuple[tuple[str, ...] | None, _PerFile, tuple[DatedIgnore, ...]]:
    """Return the entries that still count today, without their days, and those that have one, all of them."""
    today = dt.datetime.now(dt.UTC).date()
    dated: list[DatedIgnore] = []

    def counting(pattern: str | None, listed: tuple[v.Dated, ...]) -> tuple[str, ...]:
        kept: list[str] = []
        for code, until in listed:
            over = lapsed_because(until, today)
            if until is not None:
                dated.append(DatedIgnore(pattern, code, until, over))
            kept += [] if over else [code]
        return tuple(kept)

    plain = None if ignore is None else counting(None, ignore)
    files = tuple((pattern, counting(pattern, listed)) for pattern, listed in per_file)
    return plain, files, tuple(dated)


def _targets(tables: Mapping[str, Any], known: Mapping[str, Target], source: v.Source) -> dict[str, Target]:
    out: dict[str, Target] = {}
    for name, value in tables.items():
        path = ("targets", name)
        if name == AUTO_NAME:
            source.report(
                path, "'auto' is no target of its own.", 'Choose another name, or set default-target = "auto".'
            )
            continue
        if not isinstance(value, dict):
            source.report(path, f"target '{name}' must be a table.", f"Write it under [targets.{name}].")
            continue
        kept = v.check_table(value, _TARGET, path, source)
        base = known.get(name, Target(name=name))
        command = kept.get("command", base.command)
        out[name] = Target(
            name=name,
            command=command,
            python=kept.get("python", base.python),
            quoting=kept.get("quoting", "shell" if _is_ssh(command) else base.quoting),
            arch=kept.get("arch", base.arch),
            gpu=kept.get("gpu", base.gpu),
        )
    return out


def _is_ssh(command: tuple[str, ...]) -> bool:
    # ssh joins its arguments with blanks and hands them to a shell on the other side.
    return bool(command) and Path(command[0]).name in {"ssh", "ssh.exe"}


def _with_environment(settings: Settings, environment: Mapping[str, str]) -> Settings:
    model = environment.get("TRITONFORGE_LLM_MODEL") or settings.llm.model
    base_url = settings.llm.base_url or environment.get("OPENAI_BASE_URL") or None
    return replace(settings, llm=replace(settings.llm, model=model, base_url=base_url))
