"""From what `optimize` found to the best configuration of each problem on each GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tritonforge.domain.candidate import Trial
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, Launch, Scalar
from tritonforge.domain.results import OptimizeResult
from tritonforge.domain.tuning import TunedLaunch, Value
from tritonforge.optimize.search import LAUNCH_PARAMETERS
from tritonforge.workload.launches import problem_id

OPTIONS = ("num_warps", "num_stages")
_SETTABLE = frozenset(["literal", "local", "module", "parameter", "default", "autotune", "absent"])
"""Where a value may come from that a launch may as well leave out. One that is computed from the sizes (a block that
must cover a row) belongs to the host code."""


def tuned_launches(kernel: Kernel, results: Iterable[OptimizeResult]) -> tuple[TunedLaunch, ...]:
    """Return the best configuration for each problem and GPU, of results for the kernel's present code, newest first.

    Only configurations count that passed the gate, and the source's own. A measured one beats whatever was predicted
    for its GPU's architecture only where both are asked for: they stand side by side.
    """
    best: dict[tuple[str, str | None, str], TunedLaunch] = {}
    for result in results:
        if result.kernel.code_hash != kernel.code_hash:
            continue
        archs = {one.compilation.launch: one.compilation.arch for one in result.assessments}
        names = tunable(kernel, result)
        for launch in result.launches:
            arch = archs.get(launch.id) or next(iter(archs.values()), "")
            found = _best(kernel, result, launch, arch, names)
            key = problem_id(kernel, launch.problem), found.gpu if found else None, arch
            if found is not None and key not in best:
                best[key] = found
    return tuple(best.values())


def tunable(kernel: Kernel, result: OptimizeResult) -> tuple[str, ...]:
    """Return the names that a configuration may set: searched or written out, and never computed from the sizes."""
    fixed: set[str] = set()
    for site in kernel.launch_sites:
        fixed |= {name for name, value in (*site.constexprs, *site.options) if value.source not in _SETTABLE}
    tried = {
        name
        for trial in result.trials
        for rewrite, parameters in trial.candidate.rewrites
        if rewrite == LAUNCH_PARAMETERS
        for name, _ in parameters
    }
    return tuple(name for name in (*kernel.tiles, *OPTIONS) if name in tried or name not in fixed)


def _best(
    kernel: Kernel, result: OptimizeResult, launch: Launch, arch: str, names: tuple[str, ...]
) -> TunedLaunch | None:
    source_us = result.baseline_us.get(launch.id)
    if source_us is None or not names:
        return None
    own = {name: value for name, value in _values(launch.config).items() if name in names}
    best: tuple[float, Mapping[str, Value]] = (source_us, own)
    accepted = [*([result.best.trial] if result.best else []), *(trial for trial in result.trials if trial.accepted)]
    for trial in accepted:
        config = _config_of(trial, own)
        time = (trial.time_us or {}).get(launch.id)
        if config is not None and time is not None and time < best[0]:
            best = time, config
    info = result.target
    versions = {"driver": info.driver, "torch": info.torch, "triton": info.triton}
    return TunedLaunch(
        kernel=kernel,
        problem=launch.problem,
        config=best[1],
        source=own,
        arch=arch,
        gpu=info.gpu if result.provenance == "measured" else None,
        time_us=best[0],
        source_us=source_us,
        provenance=result.provenance,
        launch=launch,
        versions={name: value for name, value in versions.items() if value},
    )


def _config_of(trial: Trial, own: Mapping[str, Value]) -> Mapping[str, Value] | None:
    """Return the configuration that a trial stands for; None where it changed more than that, or something else."""
    config = dict(own)
    for rewrite, parameters in trial.candidate.rewrites:
        if rewrite != LAUNCH_PARAMETERS:
            return None
        for name, value in parameters:
            if name not in own:
                return None
            config[name] = int(value) if value.lstrip("-").isdigit() else value
    return config


def _values(config: Config) -> dict[str, Value]:
    pairs = (*config.constexprs, *config.options)
    return {name: value.value for name, value in pairs if isinstance(value, Scalar)}
