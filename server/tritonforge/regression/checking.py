"""`check`: every kernel against its baseline, suspects once more, and the gate against the recorded version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.diagnosis.assessment import assess, yardstick
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.diagnose import lapsed
from tritonforge.diagnosis.inspect_many import Part
from tritonforge.domain.baseline import Baseline, BaselineEntry, CheckResult, Comparison, Fact, Status
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.domain.kernel import Kernel
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.regression.compiled import Compiled, compare_compiled, facts_of
from tritonforge.regression.machine import disturbed
from tritonforge.regression.measuring import BASELINE_RUNS, RUNS, Pair, Times, measure_all, measure_pair
from tritonforge.regression.merging import changes, merged
from tritonforge.regression.noise import MIN_EFFECT, Ratio, compare, compare_pairs
from tritonforge.regression.reverifying import reverify
from tritonforge.regression.subjects import Checked, RecordedVersion, recorded_version
from tritonforge.store import Store
from tritonforge.workload.launches import problem_id

Key = tuple[str, str]
"""Problem and architecture."""


@dataclass(frozen=True)
class Options:
    """How to check. `min_effect`: the smallest change that matters, as a share. `gate`: verify what has changed."""

    min_effect: float = MIN_EFFECT
    runs: int = RUNS
    gate: bool = True


@dataclass
class Check:
    """One run of `check` or of `--update`."""

    session: Session
    store: Store
    baseline: Baseline
    options: Options = field(default_factory=Options)
    on_step: Callable[[str], object] = lambda _: None
    kernels: list[Checked] = field(default_factory=list)
    unknown: list[tuple[Kernel, str, bool]] = field(default_factory=list)
    """Kernels of which no launch is known: why, and whether the user named them."""
    notes: list[str] = field(default_factory=list)
    times: Times = field(default_factory=Times)
    lapsed: list[Lapsed] = field(default_factory=list)

    @property
    def gpu(self) -> str | None:
        """The GPU that is measured on."""
        return self.session.gpu.name if self.session.gpu else None

    def recorded(self, scope: tuple[str, str]) -> list[BaselineEntry]:
        """Return the entries that a kernel is compared with: of this GPU, or without one of every architecture."""
        return [
            one
            for one in self.baseline.entries
            if (one.file, one.kernel) == scope and (self.gpu is None or one.gpu == self.gpu)
        ]

    async def look(self, parts: Sequence[Part], *, update: bool) -> None:
        """Find the launches of every kernel, compile them, and with a GPU measure them.

        Raises:
            UsageError: for a spec that cannot be read.
            TargetUnreachable: when the worker ends.
        """
        earlier = CompiledCalls.for_session(self.store, self.session)
        for part in parts:
            for kernel in part.kernels:
                self.lapsed += lapsed(kernel)
                await self._assess(part, kernel, earlier, update=update)
        if self.session.measures:
            runs = max(self.options.runs, BASELINE_RUNS) if update else self.options.runs
            broken = self.times.errors
            sound = [one for one in self.kernels if one.scope not in broken]
            self.times = await measure_all(sound, self.session, runs=runs, on_step=self.on_step)
            self.times.errors |= broken
            for one in self.kernels:
                for key, entry in one.entries.items():
                    time = self.times.of(one, key[0])
                    one.entries[key] = dataclasses.replace(entry, time=time, state=self.times.state)

    async def _assess(self, part: Part, kernel: Kernel, earlier: CompiledCalls | None, *, update: bool) -> None:
        self.on_step(f"{kernel.file}::{kernel.name} …")
        try:
            subject = await part.workload.subject_of(kernel, self.session)
        except NoLaunchKnown as error:
            self.unknown.append((kernel, str(error), part.named))
            return
        one = Checked(part.workload, subject, part.named)
        known = [] if update else [entry.arch for entry in self.recorded(one.scope)]
        archs = tuple(dict.fromkeys(known)) or (self.session.arch,)
        for arch in archs:
            ceilings = await ceilings_of(self.session, self.store) if self.session.measures else None
            judge = yardstick(self.session, arch, ceilings)
            try:
                assessed = await assess(
                    self.session, subject.program(), kernel, subject.calls, judge,
                    arch=arch, pinned=subject.pinned, earlier=earlier,
                )  # fmt: skip
            except JobError as error:
                self.times.errors[one.scope] = error.failure.message
                continue
            one.take(assessed, self.session, gpu=self.gpu)
        one.read_texts(earlier, archs)
        self.kernels.append(one)

    def updated(self, *, whole: bool = True) -> Baseline:
        """Return the baseline with what was looked at now; `whole`: all launches of the kernels were, so others go."""
        made = [
            entry
            for one in self.kernels
            for entry in one.entries.values()
            if "error" not in entry.compiled and (entry.time is not None or not self.session.measures)
        ]
        scopes = {one.scope for one in self.kernels if whole and one.scope not in self.times.errors}
        texts = {file: text for one in self.kernels for file, text in one.texts.items()}
        return merged(self.baseline, made, scopes, texts)

    async def compare(self) -> tuple[Comparison, ...]:
        """Compare every kernel with its baseline; suspects are measured again, what has changed is verified."""
        found: list[Comparison] = []
        for one in self.kernels:
            found += await self._compare_kernel(one)
        for kernel, why, _ in self.unknown:
            for entry in self.recorded((kernel.file, kernel.name)):
                found.append(_comparison(kernel, entry, "error", reasons=(why,)))
        return tuple(found)

    async def _compare_kernel(self, one: Checked) -> list[Comparison]:
        entries = self.recorded(one.scope)
        if self.gpu is None:
            entries = _one_each(entries)
        version = recorded_version(one, self.baseline, entries)
        error = self.times.errors.get(one.scope)
        if error is not None:
            broken = [_comparison(one.kernel, entry, "error", reasons=(error,)) for entry in entries]
            return broken or [_unmeasured(one, self, error)]
        recorded = await self._recorded_facts(one, version, entries)
        pairs: dict[str, Pair] = {}
        out = []
        for entry in entries:
            key = entry.problem, entry.arch
            now = one.entries.get(key)
            if now is None:
                out.append(_comparison(one.kernel, entry, "missing", reasons=("nothing launches it any more",)))
                continue
            judged = compare_compiled(entry, now, recorded.get(key))
            if self.session.measures:
                out.append(await self._measured(one, entry, now, judged, version, pairs))
            else:
                out.append(_compiled(one.kernel, entry, now, judged))
        known = {(entry.problem, entry.arch) for entry in entries}
        out += [
            _comparison(one.kernel, entry, "new", now=entry) for key, entry in one.entries.items() if key not in known
        ]
        return await self._verified(one, version, out)

    async def _recorded_facts(
        self, one: Checked, version: RecordedVersion | None, entries: Sequence[BaselineEntry]
    ) -> Mapping[Key, Mapping[str, Fact]]:
        """Compile the recorded version again, where its facts are not what they were for the baseline."""
        facts: dict[Key, Mapping[str, Fact]] = {}
        if version is None or self.session.measures:
            return facts
        for arch in dict.fromkeys(entry.arch for entry in entries):
            mine = [(entry, one.entries.get((entry.problem, arch))) for entry in entries if entry.arch == arch]
            if not any(now is not None and compare_compiled(entry, now).reasons for entry, now in mine):
                continue
            self.on_step(f"compiling the recorded version of {one.kernel.name} for {arch} …")
            try:
                assessed = await assess(
                    self.session, version.program, version.kernel, one.subject.calls,
                    yardstick(self.session, arch), arch=arch,
                )  # fmt: skip
            except JobError:
                continue  # its calls cannot be repeated on it: what is known is the baseline's own record
            for each in assessed:
                facts.setdefault((problem_id(version.kernel, each.launch.problem), arch), facts_of(each))
        return facts

    async def _measured(  # noqa: PLR0917 - what is known of one entry
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
            return _comparison(one.kernel, entry, "regressed", now=now, reasons=judged.reasons)
        if now.time is None:
            return _comparison(one.kernel, entry, "error", now=now, reasons=("it was not measured",))
        notes = list(judged.reasons + judged.notes)
        if entry.time is None:
            return _comparison(one.kernel, entry, "new", now=now, notes=tuple(notes))
        effect = self.options.min_effect
        first = compare(entry.time, now.time)
        if not first.suspect(effect):
            return _comparison(one.kernel, entry, "ok", now=now, ratio=first, notes=tuple(notes))
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
            said = (f"{_factor(ratio.value)} the time of the recorded version, measured side by side",)
            return _comparison(one.kernel, entry, status, now=now, ratio=ratio, reasons=said, notes=tuple(notes))
        notes.append(
            f"{_factor(first.value)} the baseline's time, and so is the recorded version here: the machine differs"
        )
        since = _versions(entry, now)
        if first.change(effect) == "slower" and since:
            reasons = (f"{_factor(first.value)} the baseline's time since {since}; the code is not what changed",)
            return _comparison(one.kernel, entry, "regressed", now=now, ratio=first, reasons=reasons)
        return _comparison(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))

    async def _again(
        self, one: Checked, entry: BaselineEntry, now: BaselineEntry, notes: list[str], *, unchanged: bool
    ) -> Comparison:
        """Measure the present version again, and judge it by all its runs."""
        assert entry.time is not None
        assert now.time is not None
        effect = self.options.min_effect
        times = await measure_all([one], self.session, runs=self.options.runs)
        more = times.of(one, entry.problem)
        if more is None:
            why = times.errors.get(one.scope, "it is not launched")
            return _comparison(one.kernel, entry, "error", now=now, reasons=(f"it cannot be measured again: {why}",))
        both = dataclasses.replace(now.time, medians=(*now.time.medians, *more.medians))
        ratio, alone = compare(entry.time, both), compare(entry.time, more)
        changed = ratio.change(effect)
        if changed == "same" or not alone.suspect(effect):
            return _comparison(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))
        doubts = [*([times.busy] if times.busy else []), *disturbed(entry.state, times.state)]
        since = _versions(entry, now)
        if changed == "faster" and (unchanged or doubts) and not since:
            notes.append("faster without a change of the code: the machine differs")
            return _comparison(one.kernel, entry, "ok", now=now, ratio=ratio, notes=tuple(notes))
        if changed == "faster":
            return _comparison(one.kernel, entry, "improved", now=now, ratio=ratio, notes=tuple(notes))
        slower = f"{_factor(ratio.value)} the baseline's time"
        if unchanged and since:
            reasons = (f"{slower} since {since}; the code is not what changed",)
            return _comparison(one.kernel, entry, "regressed", now=now, ratio=ratio, reasons=reasons)
        if unchanged or doubts:
            why = "; ".join(doubts) or "neither the code nor its versions have changed, so it is the machine"
            reasons = (f"{slower}, but that says nothing: {why}",)
            return _comparison(one.kernel, entry, "error", now=now, ratio=ratio, reasons=reasons, doubtful=True)
        reasons = (f"{slower}, measured {len(both.medians)} times",)
        return _comparison(one.kernel, entry, "regressed", now=now, ratio=ratio, reasons=reasons, notes=tuple(notes))

    async def _verified(
        self, one: Checked, version: RecordedVersion | None, found: list[Comparison]
    ) -> list[Comparison]:
        """Let the gate compare the present version with the recorded one, where they differ in more than comments."""
        same = all("code_hash" not in each.changes and "site_hash" not in each.changes for each in found)
        if not self.options.gate or same or not any(each.changes for each in found):
            return found
        if version is None:
            return [_noted(each, "not verified: the baseline holds no text of the recorded version") for each in found]
        self.on_step(f"verifying {one.kernel.name} against the recorded version …")
        said = await reverify(one, version, self.session)
        if said.wrong:
            return [
                each
                if each.status in {"missing", "new"}
                else dataclasses.replace(each, status="regressed", reasons=(*each.reasons, said.sentence))
                for each in found
            ]
        return [_noted(each, said.sentence) for each in found]

    def result(self, comparisons: Sequence[Comparison], *, file: str) -> CheckResult:
        """Return all of it."""
        ignored: tuple[Ignored, ...] = tuple(each for one in self.kernels for each in one.ignored)
        notes = list(self.notes)
        if self.times.busy:
            notes.append(f"{self.times.busy}: times may be longer than they are")
        notes += [f"{kernel.file}::{kernel.name} is not checked: {why}" for kernel, why, _ in self.unknown
                  if not self.recorded((kernel.file, kernel.name))]  # fmt: skip
        elsewhere = {entry.gpu or entry.arch for entry in self.baseline.entries} - {self.gpu}
        if self.session.measures and elsewhere and not any(one.gpu == self.gpu for one in self.baseline.entries):
            notes.append(f"the baseline has nothing of {self.gpu}, only of {', '.join(sorted(elsewhere))}")
        return CheckResult(
            compared="measured" if self.session.measures else "compiled",
            comparisons=tuple(sorted(comparisons, key=lambda one: (one.file, one.line, one.describes, one.arch))),
            target=self.session.info,
            baseline=file,
            archs=tuple(sorted({one.arch for one in comparisons})),
            notes=tuple(dict.fromkeys(notes)),
            ignored=ignored,
            lapsed=tuple(self.lapsed),
        )


def gone(baseline: Baseline, scopes: set[tuple[str, str]], files: set[str], gpu: str | None) -> list[Comparison]:
    """Return the kernels of `files` that the baseline has and the source has no longer."""
    entries = [
        one
        for one in baseline.entries
        if one.file in files and (one.file, one.kernel) not in scopes and (gpu is None or one.gpu == gpu)
    ]
    return [_comparison(None, one, "missing", reasons=("the kernel is gone",)) for one in _one_each(entries)]


def _one_each(entries: Sequence[BaselineEntry]) -> list[BaselineEntry]:
    """Return one entry for each problem and architecture, of those of several GPUs the first."""
    found: dict[tuple[str, str, str, str], BaselineEntry] = {}
    for one in entries:
        found.setdefault((one.file, one.kernel, one.problem, one.arch), one)
    return list(found.values())


def _compiled(kernel: Kernel, entry: BaselineEntry, now: BaselineEntry, judged: Compiled) -> Comparison:
    status: Status = "regressed" if judged.reasons else "ok"
    one = _comparison(kernel, entry, status, now=now, reasons=judged.reasons, notes=judged.notes)
    before, after = (facts.get("predicted_us") for facts in (entry.compiled, now.compiled))
    return dataclasses.replace(
        one,
        gpu=None,
        provenance="predicted",
        ratio=judged.ratio,
        before_us=float(before) if isinstance(before, int | float) else None,
        after_us=float(after) if isinstance(after, int | float) else None,
    )


def _comparison(
    kernel: Kernel | None,
    entry: BaselineEntry,
    status: Status,
    *,
    now: BaselineEntry | None = None,
    ratio: Ratio | None = None,
    reasons: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    doubtful: bool = False,
) -> Comparison:
    fresh = status == "new"
    return Comparison(
        file=entry.file,
        kernel=entry.kernel,
        line=kernel.name_range.start.line if kernel else 1,
        end_line=kernel.range.end.line if kernel else 1,
        code_hash=kernel.code_hash if kernel else entry.code_hash,
        problem=entry.problem,
        describes=entry.describes,
        status=status,
        arch=entry.arch,
        gpu=entry.gpu,
        ratio=ratio.value if ratio else None,
        ratio_ci95=ratio.ci95 if ratio else None,
        smallest=ratio.smallest if ratio else None,
        before_us=entry.time.median if entry.time and not fresh else None,
        after_us=now.time.median if now and now.time else None,
        changes=changes(entry, now) if now is not None and not fresh else {},
        reasons=reasons,
        notes=notes,
        doubtful=doubtful,
    )


def _unmeasured(one: Checked, check: Check, error: str) -> Comparison:
    kernel = one.kernel
    return Comparison(
        one.scope[0], kernel.name, kernel.name_range.start.line, kernel.range.end.line, kernel.code_hash,
        "", "", "error", check.session.arch, check.gpu, reasons=(error,),
    )  # fmt: skip


def _noted(one: Comparison, sentence: str) -> Comparison:
    return dataclasses.replace(one, notes=(*one.notes, sentence)) if sentence else one


def _factor(ratio: float) -> str:
    return f"{ratio:.3f}x"


def _versions(before: BaselineEntry, after: BaselineEntry) -> str:
    """Name the versions that are others than the baseline's."""
    changed = [
        f"{name} {after.versions[name]} (was {before.versions[name]})"
        for name in sorted(before.versions.keys() & after.versions.keys())
        if before.versions[name] != after.versions[name]
    ]
    return ", ".join(changed)
