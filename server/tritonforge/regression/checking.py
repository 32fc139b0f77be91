"""`check`: every kernel against its baseline, suspects once more, and the gate against the recorded version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tritonforge.diagnosis.assessment import assess, yardstick
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.diagnose import lapsed
from tritonforge.diagnosis.inspect_many import Part
from tritonforge.domain.baseline import Baseline, BaselineEntry, CheckResult, Comparison, Fact
from tritonforge.domain.errors import NoLaunchKnown
from tritonforge.domain.ignoring import Ignored, Lapsed
from tritonforge.domain.kernel import Kernel
from tritonforge.jobs import JobError
from tritonforge.jobs.session import Session
from tritonforge.jobs.spreading import sessions_of, spread
from tritonforge.profiling.ceilings import ceilings_of
from tritonforge.regression.comparisons import comparison_of, compiled_comparison, noted, one_each, unmeasured
from tritonforge.regression.compiled import compare_compiled, facts_of
from tritonforge.regression.judging import Judge, Options
from tritonforge.regression.measuring import BASELINE_RUNS, Pair, Times, measure_all
from tritonforge.regression.merging import merged
from tritonforge.regression.reverifying import reverify
from tritonforge.regression.subjects import Checked, RecordedVersion, recorded_version
from tritonforge.store import Store
from tritonforge.workload.launches import problem_id

Key = tuple[str, str]
"""Problem and architecture."""


@dataclass
class Check:
    """One run of `check` or of `--update`."""

    session: Session
    store: Store
    baseline: Baseline
    options: Options = field(default_factory=Options)
    on_step: Callable[[str], object] = lambda _: None
    kernels: list[Checked] = field(default_factory=list)
    unknown: list[tuple[Kernel, str]] = field(default_factory=list)
    """Kernels of which no launch is known, and why."""
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
            self.unknown.append((kernel, str(error)))
            return
        one = Checked(part.workload, subject)
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
                if error.kind == "environment":  # no fault of the kernel's
                    raise
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

    def left_out(self) -> list[str]:
        """Return what an update leaves out of the baseline, each with why: what failed, and what does not compile."""
        said = [f"{file}::{kernel}: {why}" for (file, kernel), why in self.times.errors.items()]
        for one in self.kernels:
            broken = {
                entry.arch: entry.compiled["error"] for entry in one.entries.values() if "error" in entry.compiled
            }
            if one.scope not in self.times.errors:
                said += [
                    f"{'::'.join(one.scope)}: it does not compile for {arch}: {why}" for arch, why in broken.items()
                ]
        return said

    async def compare(self) -> tuple[Comparison, ...]:
        """Compare every kernel with its baseline; suspects are measured again, what has changed is verified.

        Where the target has several GPUs of one kind, as many kernels are looked at side by side.
        """
        compared = await spread(self.kernels, self.session, self._compare_kernel)
        found = [one for some in compared for one in some or ()]
        missing = (
            (kernel, entry, why) for kernel, why in self.unknown for entry in self.recorded((kernel.file, kernel.name))
        )
        found += [comparison_of(kernel, entry, "error", reasons=(why,)) for kernel, entry, why in missing]
        return tuple(found)

    async def _compare_kernel(self, one: Checked, session: Session) -> list[Comparison]:
        entries = self.recorded(one.scope)
        if self.gpu is None:
            entries = one_each(entries)
        version = recorded_version(one, self.baseline, entries)
        error = self.times.errors.get(one.scope)
        if error is not None:
            broken = [comparison_of(one.kernel, entry, "error", reasons=(error,)) for entry in entries]
            return broken or [unmeasured(one, self.session.arch, self.gpu, error)]
        recorded = await self._recorded_facts(one, version, entries)
        pairs: dict[str, Pair] = {}
        judge = Judge(session, self.options, self.on_step, sessions_of(self.session)[0])
        out = []
        for entry in entries:
            key = entry.problem, entry.arch
            now = one.entries.get(key)
            if now is None:
                out.append(comparison_of(one.kernel, entry, "missing", reasons=("nothing launches it any more",)))
                continue
            judged = compare_compiled(entry, now, recorded.get(key))
            if self.session.measures:
                out.append(await judge.measured(one, entry, now, judged, version, pairs))
            else:
                out.append(compiled_comparison(one.kernel, entry, now, judged))
        known = {(entry.problem, entry.arch) for entry in entries}
        out += [
            comparison_of(one.kernel, entry, "new", now=entry) for key, entry in one.entries.items() if key not in known
        ]
        return await self._verified(one, version, out, session)

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

    async def _verified(
        self, one: Checked, version: RecordedVersion | None, found: list[Comparison], session: Session
    ) -> list[Comparison]:
        """Let the gate compare the present version with the recorded one, where they differ in more than comments."""
        same = all("code_hash" not in each.changes and "site_hash" not in each.changes for each in found)
        if not self.options.gate or same or not any(each.changes for each in found):
            return found
        if version is None:
            return [noted(each, "not verified: the baseline holds no text of the recorded version") for each in found]
        self.on_step(f"verifying {one.kernel.name} against the recorded version …")
        said = await reverify(one, version, session)
        if said.wrong:
            return [
                each
                if each.status in {"missing", "new"}
                else dataclasses.replace(each, status="regressed", reasons=(*each.reasons, said.sentence))
                for each in found
            ]
        return [noted(each, said.sentence) for each in found]

    def result(self, comparisons: Sequence[Comparison], *, file: str) -> CheckResult:
        """Return all of it."""
        ignored: tuple[Ignored, ...] = tuple(each for one in self.kernels for each in one.ignored)
        notes: list[str] = []
        if self.times.busy:
            notes.append(f"{self.times.busy}: times may be longer than they are")
        notes += [f"{kernel.file}::{kernel.name} is not checked: {why}" for kernel, why in self.unknown
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
