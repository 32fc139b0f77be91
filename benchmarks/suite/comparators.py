"""What else could tune the same kernel over the same grid: `triton.autotune`, and a search without guidance.

Both get versions of the plain file that differ in tile sizes, warps and stages alone, host code included, and both are
judged by what was the best so far at every moment. Neither verifies anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from suite.loading import load
from suite.timing import quick_time

Config = Mapping[str, int]


@dataclass
class Progress:
    """How a search went: `steps` are (seconds, version) each time that a better one was found, by its own measure.

    `tried` of `grid` versions came to be measured; `seconds` in all; `stopped` says why it ended.
    """

    name: str
    grid: int
    tried: int = 0
    failed: int = 0
    seconds: float = 0.0
    stopped: str = ""
    steps: list[tuple[float, int]] = field(default_factory=list)
    _best: float = float("inf")

    def saw(self, at_s: float, version: int, time_us: float) -> None:
        """Take a measurement over."""
        self.tried += 1
        if time_us < self._best:
            self._best = time_us
            self.steps.append((at_s, version))

    @property
    def best(self) -> int | None:
        """The version that won."""
        return self.steps[-1][1] if self.steps else None


class Versions:
    """Versions of a file by number, made and loaded when they are first needed."""

    def __init__(self, space: Any, folder: Path, function: str) -> None:
        self._space, self._folder, self._function = space, folder, function
        self._loaded: dict[int, Callable[..., Any]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def configs(self) -> Sequence[Config]:
        """The parameters of each version."""
        return self._space.configs  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._space.configs)

    def __getitem__(self, number: int) -> Callable[..., Any]:
        """Return the host function of a version.

        Raises:
            ValueError: when no edit makes it.
        """
        if number not in self._loaded:
            path = self._folder / f"version_{number}.py"
            path.write_text(self._space.version(number), encoding="utf-8")
            self._loaded[number] = getattr(load(path), self._function)
        return self._loaded[number]


def triton_autotune(
    versions: Versions,
    arguments: Sequence[Any],
    seconds: float,
    most: int = 100,
    do_bench: Callable[..., Any] | None = None,
) -> Progress:
    """Let Triton's own autotuner choose among the first `most` versions, in their order, with its own way of timing.

    It is `triton.autotune` itself, over a kernel-like object whose one parameter is the number of the version: a kernel
    whose host code computes sizes from its tiles could not be decorated without a rewrite by hand. Once `seconds` have
    passed the remaining versions count as failures, as those do that do not compile.
    """
    import triton
    from triton.runtime.errors import OutOfResources

    count = min(most, len(versions))
    progress = Progress("triton.autotune", count)
    began = perf_counter()
    late: list[int] = []
    choosing = False

    class Chosen:
        """What the autotuner takes for a kernel."""

        arg_names = ("version",)
        fn = staticmethod(lambda: None)

        def run(self, *_args: Any, version: int, **_options: Any) -> Any:
            if choosing and perf_counter() - began > seconds:
                late.append(version)
                raise OutOfResources(1, 0, "time")
            try:
                return versions[version](*arguments)
            except Exception as error:
                progress.failed += 1
                raise OutOfResources(1, 0, f"{type(error).__name__}") from error

    configs = [triton.Config({"version": i}) for i in range(count)]
    more = {"do_bench": do_bench} if do_bench else {}
    tuner = triton.autotune(configs=configs, key=[], **more)(Chosen())
    bench = tuner._bench  # noqa: SLF001 - its measurements are the point

    def watched(*args: Any, config: Any, **meta: Any) -> Any:
        nonlocal choosing
        choosing = True
        try:
            found = bench(*args, config=config, **meta)
        finally:
            choosing = False
        value = float(found[0] if isinstance(found, (list, tuple)) else found)
        if value != float("inf"):
            progress.saw(perf_counter() - began, config.kwargs["version"], value * 1e3)
        return found

    tuner._bench = watched  # noqa: SLF001 - as above
    try:
        tuner.run(grid=(1,), warmup=False)
    except OutOfResources:
        progress.stopped = "no version runs" if not progress.steps else ""
    progress.seconds = perf_counter() - began
    if count == 1 and not progress.stopped:
        progress.saw(progress.seconds, 0, 0.0)  # a single one is taken without being timed
    left = f"after {seconds:g} s, {len(set(late))} versions left"
    progress.stopped = progress.stopped or (left if late else "all were tried")
    return progress


def unguided(
    versions: Versions,
    arguments: Sequence[Any],
    seconds: float,
    measure: Callable[[Callable[[], Any]], float] | None = None,
    seed: int = 0,
) -> Progress:
    """Search the same grid with Optuna's TPE, knowing nothing but the times of what was tried.

    No profile, no model, no rule, no order. Where Optuna is not installed, versions are drawn at random without
    repetition, and the name says so.
    """
    measure = measure or _by_events()
    try:
        import optuna
    except ImportError:
        return _drawn(versions, arguments, seconds, measure, seed)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    progress = Progress("Optuna (TPE), unguided", len(versions))
    configs = versions.configs
    numbers = {tuple(sorted(config.items())): i for i, config in enumerate(configs)}
    names = {name: sorted({config[name] for config in configs}) for name in configs[0]}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=False))
    began = perf_counter()
    known: dict[int, float] = {}
    asked = 0
    while perf_counter() - began < seconds and len(known) < len(versions) and asked < 20 * len(versions):
        asked += 1
        trial = study.ask()
        chosen = {name: trial.suggest_categorical(name, values) for name, values in names.items()}
        number = numbers.get(tuple(sorted(chosen.items())))
        if number is None:  # left out of the grid as implausible
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        if number not in known:
            known[number] = _measured(progress, versions, number, arguments, measure, began)
        if known[number] == float("inf"):
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, known[number])
    _ended(progress, began, seconds, all_tried=len(known) == len(versions))
    if progress.seconds < seconds and len(known) < len(versions):
        progress.stopped = "it asks for nothing new"
    return progress


def _drawn(
    versions: Versions, arguments: Sequence[Any], seconds: float, measure: Callable[..., float], seed: int
) -> Progress:
    progress = Progress("random order (Optuna is not installed), unguided", len(versions))
    order = list(range(len(versions)))
    random.Random(seed).shuffle(order)
    began = perf_counter()
    for done, number in enumerate(order):
        if perf_counter() - began >= seconds:
            return _ended(progress, began, seconds, all_tried=done == len(order))
        _measured(progress, versions, number, arguments, measure, began)
    return _ended(progress, began, seconds, all_tried=True)


def _measured(
    progress: Progress, versions: Versions, number: int, arguments: Sequence[Any], measure: Any, began: float
) -> float:
    try:
        function = versions[number]
        function(*arguments)  # compiles it
        value = float(measure(lambda: function(*arguments)))
    except Exception:  # noqa: BLE001 - a version that does not run is a trial that failed
        progress.failed += 1
        return float("inf")
    progress.saw(perf_counter() - began, number, value)
    return value


def _ended(progress: Progress, began: float, seconds: float, *, all_tried: bool) -> Progress:
    progress.seconds = perf_counter() - began
    progress.stopped = "all were tried" if all_tried else f"after {seconds:g} s"
    return progress


def _by_events() -> Callable[[Callable[[], Any]], float]:
    from tritonforge.worker.timing.queueing import Bench

    bench = Bench()
    return lambda function: quick_time(bench, function)
