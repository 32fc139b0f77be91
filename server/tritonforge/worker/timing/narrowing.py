"""Sparing the autotuners of candidates most of their configurations, where many are timed for the first time.

To compile and measure a dozen configurations takes an autotuner seconds for each candidate, most of which are going to
be left after a few samples. So a candidate that adds configurations chooses among these, and any other among those that
were fastest for the original. This can only make a candidate look slower than it is, never faster: the original has
chosen among all. What is going to be judged is timed again, with all of its configurations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tritonforge.worker.fakecuda.patches import Patches

FASTEST = 3
"""How many of the original's configurations a candidate without any of its own is tried with."""
_KEPT = "_tritonforge_narrowed"

Choice = tuple[tuple[str, str], ...]


class Narrowing:
    """What the autotuners of the first program, the original, chose from and chose, by the name of their kernel."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._listed: dict[str, set[Choice]] = {}
        self._fastest: dict[str, set[Choice]] = {}

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Note what autotuners choose that run inside, each among all of its configurations."""
        from triton.runtime.autotuner import Autotuner

        original = Autotuner.run

        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tuner, *args, **kwargs)
            self._note(tuner)
            return result

        with _patched(Autotuner, run=run):
            yield

    @contextlib.contextmanager
    def narrowed(self) -> Iterator[None]:
        """Have autotuners choose among few, and remember it apart from what they choose among all."""
        from triton.runtime.autotuner import Autotuner

        original, prune = Autotuner.run, Autotuner.prune_configs
        fewer = self._fewer

        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            own, on_disk = tuner.cache, getattr(tuner, "cache_results", False)
            kept = vars(tuner).setdefault(_KEPT, {})
            tuner.cache, tuner.cache_results = {**kept, **own}, False
            try:
                return original(tuner, *args, **kwargs)
            finally:
                kept.update((key, config) for key, config in tuner.cache.items() if key not in own)
                tuner.cache, tuner.cache_results = own, on_disk

        def prune_configs(tuner: Any, *args: Any, **kwargs: Any) -> list[Any]:
            return fewer(tuner, list(prune(tuner, *args, **kwargs)))

        with _patched(Autotuner, run=run, prune_configs=prune_configs):
            yield

    def _note(self, tuner: Any) -> None:
        name = _name(tuner)
        self._listed.setdefault(name, set()).update(_choice(config) for config in tuner.configs)
        timings = getattr(tuner, "configs_timings", None) or {}
        ranked = sorted(timings, key=lambda config: _seconds(timings[config]))
        chosen = dict.fromkeys(_choice(config) for config in (tuner.best_config, *ranked))
        self._fastest.setdefault(name, set()).update(list(chosen)[:FASTEST])

    def _fewer(self, tuner: Any, configs: list[Any]) -> list[Any]:
        name = _name(tuner)
        listed, fastest = self._listed.get(name), self._fastest.get(name, set())
        if listed is None:  # the original does not tune it
            return configs
        own = [one for one in configs if _choice(one) not in listed]
        return own or [one for one in configs if _choice(one) in fastest] or configs


@contextlib.contextmanager
def _patched(owner: Any, **attributes: Any) -> Iterator[None]:
    patches = Patches()
    for name, value in attributes.items():
        patches.set(owner, name, value)
    try:
        yield
    finally:
        patches.restore()


def _name(tuner: Any) -> str:
    return str(tuner.base_fn.__qualname__)


def _choice(config: Any) -> Choice:
    return tuple(sorted((name, repr(value)) for name, value in config.all_kwargs().items()))


def _seconds(timing: Any) -> float:
    return float(timing[0] if isinstance(timing, (list, tuple)) else timing)
