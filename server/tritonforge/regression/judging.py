"""What measured times say of a kernel: the baseline's first, and of a suspect those of both versions side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from tritonforge.domain.baseline import BaselineEntry, Comparison, Status
from tritonforge.jobs.session import Session
from tritonforge.regression.comparisons import changed_versions, comparison_of, factor
from tritonforge.regression.compiled import Compiled
from tritonforge.regression.machine import disturbed
from tritonforge.regression.measuring import RUNS, Pair, measure_all, measure_pair
from tritonforge.regression.noise import MIN_EFFECT, Ratio, compare, compare_pairs
from tritonforge.regression.subjects import Checked, RecordedVersion


@dataclass(frozen=True)
class Options:
    """How to check. `min_effect`: the smallest change that matters, as a share. `gate`: verify what has changed."""

    min_effect: float = MIN_EFFECT
    runs: int = RUNS
    gate: bool = True


@dataclass(frozen=True)
class Judge:
    """Decides by times, and has suspects measured again.

    On `session` versions are measured side by side, which any GPU of the kind can do. `first` is the GPU that was
    measured on before: what is set beside earlier times must come from it, since two GPUs of one kind differ.
    """

    session: Session
    options: Options
    on_step: Callable[[str], object]
    first: Session

    async def measured(  # noqa: PLR0917 - what is known of one entry
        self,
        one: Checked,
        entry: BaselineEntry,
        now: BaselineEntry,
        judged: Compiled,
        version: RecordedVersion | None,
        pairs: dict[str, Pair],
    ) -> Comparison:
        """Decide by times: first those of the baseline, then, of a suspect, those of both versions side by side."""
        if "error" in now.compiled:
            return comparison_of(one.kernel, entry, "regressed", now=now, reasons=judged.reasons)
        if now.time is None:
            return comparison_of(one.kernel, entry, "error", now=now, reasons=("it was not measured",))
        notes = list(judged.reasons + judged.notes)
        if entry.time is None:
            return comparison_of(one.kernel, entry, "new", now=now, notes=tuple(notes))
        effect = self.options.min_effect
        first = compare(entry.time, now.time)
        if not first.suspect(effect):
            return comparison_of(one.kernel, entry, "ok", now=now, ratio=first, notes=tuple(notes))
        self.on_step(f"measuring {one.kernel.name} again: it is a suspect …")
        if version is not None and not version.unchanged:
            if "" not in pairs:
                pairs[""] = await measure_pair(one, version, self.session, runs=self.options.runs)
            pair = pairs[""]
            if entry.problem in pair.before:
                ratio = compare_pairs(pair.before[entry.problem], pair.after[entry.problem])
                return self._side_by_side(one, entry, now, first, ratio, notes)
            notes.append(f"it could not be measured beside the recorded version: {pair.error or 'it is not launched'}")
        return await self._again(one, entry, now, notes, unchanged=version is not None and version.unchanged)

    def _side_by_side(  # noqa: PLR0917 - what is known of one suspect
        self, one: Checked, entry: BaselineEntry, now: BaselineEntry, first: Ratio, ratio: Ratio, notes: list[str]
    ) -> Comparison:
        effect = self.options.min_effect
        changed = ratio.change(effect)
        if changed != "same":
            status: Status = "regressed" if changed == "slower" else "improved"
            said = (f"{factor(ratio.value)} the time of the recorded version, measured side by side",)
            return comparison_of(one.kernel, entry, status, now=now, ratio=ratio, reasons=said, notes=tuple(notes))
        notes.append(
            f"{factor(first.value)} the baseline's time, but the recorded version, measured beside it, is no different "
            "here: the machine differs"
        )
        since = changed_versions(entry, now)
        if first.change(effect) == "slower" and since:
            reasons = (f"{factor(first.value)} the baseline's time since {since}; the code is not what changed",)
            return comparison_of(one.kernel, entry, "regressed", now=now, ratio=first, reasons=reasons)
        return comparison_of(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))

    async def _again(
        self, one: Checked, entry: BaselineEntry, now: BaselineEntry, notes: list[str], *, unchanged: bool
    ) -> Comparison:
        """Measure the present version again, and judge it by all its runs."""
        assert entry.time is not None
        assert now.time is not None
        effect = self.options.min_effect
        times = await measure_all([one], self.first, runs=self.options.runs)
        more = times.of(one, entry.problem)
        if more is None:
            why = times.errors.get(one.scope, "it is not launched")
            return comparison_of(one.kernel, entry, "error", now=now, reasons=(f"it cannot be measured again: {why}",))
        both = dataclasses.replace(now.time, medians=(*now.time.medians, *more.medians))
        ratio, alone = compare(entry.time, both), compare(entry.time, more)
        changed = ratio.change(effect)
        if changed == "same" or not alone.suspect(effect):
            return comparison_of(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))
        doubts = [*([times.busy] if times.busy else []), *disturbed(entry.state, times.state)]
        since = changed_versions(entry, now)
        if changed == "faster" and (unchanged or doubts) and not since:
            notes.append("faster without a change of the code: the machine differs")
            return comparison_of(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))
        if changed == "faster":
            return comparison_of(one.kernel, entry, "improved", now=now, ratio=ratio, notes=tuple(notes))
        slower = f"{factor(ratio.value)} the baseline's time"
        if unchanged and since:
            reasons = (f"{slower} since {since}; the code is not what changed",)
            return comparison_of(one.kernel, entry, "regressed", now=now, ratio=ratio, reasons=reasons)
        if unchanged or doubts:
            why = "; ".join(doubts) or "neither the code nor its versions have changed, so it is the machine"
            reasons = (f"{slower}, but that says nothing: {why}",)
            return comparison_of(one.kernel, entry, "error", now=now, ratio=ratio, reasons=reasons, doubtful=True)
        reasons = (f"{slower}, measured {len(both.medians)} times",)
        return comparison_of(one.kernel, entry, "regressed", now=now, ratio=ratio, reasons=reasons, notes=tuple(notes))
