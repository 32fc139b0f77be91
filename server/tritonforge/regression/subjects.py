"""The kernels that are checked: on what they run, what was made of them, and the texts behind them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonforge.analysis import analyze
from tritonforge.analysis.states import states
from tritonforge.analysis.text import decode_source
from tritonforge.diagnosis.assessment import Assessed
from tritonforge.diagnosis.compiled_calls import CompiledCalls
from tritonforge.diagnosis.diagnose import current_day
from tritonforge.diagnosis.inspect_file import sorted_out
from tritonforge.domain.baseline import Baseline, BaselineEntry, Fact
from tritonforge.domain.finding import SEVERITIES, Severity
from tritonforge.domain.ignoring import Ignored
from tritonforge.domain.kernel import Kernel
from tritonforge.domain.launch import Config, RecordedLaunch, Scalar, Value
from tritonforge.domain.messages import Program
from tritonforge.jobs.session import Session
from tritonforge.regression.compiled import facts_of
from tritonforge.report import wording
from tritonforge.workload.gather import FileWorkload
from tritonforge.workload.launches import problem_id, to_launch
from tritonforge.workload.subject import Subject

_LARGEST_SOURCE = 1 << 20
_ELSEWHERE = frozenset(["site-packages", "dist-packages", ".venv", "venv", "node_modules"])


@dataclass
class Checked:
    """One kernel on its way through a check. `entries` by problem id and architecture; `texts` by file."""

    workload: FileWorkload
    subject: Subject
    entries: dict[tuple[str, str], BaselineEntry] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()

    @property
    def kernel(self) -> Kernel:
        """The kernel as it is now."""
        return self.subject.kernel

    @property
    def scope(self) -> tuple[str, str]:
        """File and kernel."""
        return self.subject.file, self.kernel.name

    def problem_of(self, recorded: RecordedLaunch) -> str:
        """Return the id of what a launch of the kernel computes."""
        return problem_id(self.kernel, to_launch(self.kernel, recorded).problem)

    def take(self, assessed: Sequence[Assessed], session: Session, *, gpu: str | None) -> None:
        """Make an entry of each launch, the first of each problem."""
        info = session.info
        versions = {"driver": info.driver, "torch": info.torch, "triton": info.triton}
        settings, file = self.workload.settings, self.workload.analysis.file
        today, host = current_day().isoformat(), site_hash(self.kernel, self.subject)
        for one in assessed:
            key = problem_id(self.kernel, one.launch.problem), one.compilation.arch
            if key in self.entries:
                continue
            shown, _ = sorted_out(self.kernel, [one.case], file, settings)
            gravest: dict[str, Severity] = {}
            for finding in sorted(shown, key=lambda f: SEVERITIES.index(f.severity)):
                gravest.setdefault(finding.code, finding.severity)
            self.entries[key] = BaselineEntry(
                file=file,
                kernel=self.kernel.name,
                problem=key[0],
                describes=wording.plain_problem(one.launch),
                gpu=gpu,
                arch=key[1],
                code_hash=self.kernel.code_hash,
                site_hash=host,
                config=config_facts(one.launch.config),
                grid=one.launch.config.grid,
                versions={name: value for name, value in versions.items() if value},
                date=today,
                compiled=facts_of(one),
                findings=gravest,
            )
        _, self.ignored = sorted_out(self.kernel, [one.case for one in assessed], file, settings)

    def read_texts(self, compiled: CompiledCalls | None, archs: Sequence[str]) -> None:
        """Take the texts of the kernel's file, of those that its calls are in, and of workspace modules they use."""
        program = self.subject.program()
        self.texts = dict(program.overlays)
        if compiled is None:
            return
        root = Path(self.subject.root)
        for call in self.subject.calls:
            for arch in archs:
                for path in compiled.sources_of(program, self.kernel, call, arch):
                    name = _inside(root, Path(path))
                    if name is not None and name not in self.texts and (text := _text(Path(path))) is not None:
                        self.texts[name] = text


@dataclass(frozen=True)
class RecordedVersion:
    """The version that a baseline recorded: its kernel, its program, and whether it is what there is now."""

    kernel: Kernel
    program: Program
    unchanged: bool


def recorded_version(one: Checked, baseline: Baseline, entries: Sequence[BaselineEntry]) -> RecordedVersion | None:
    """Return the version that `entries` were made of, where the baseline holds its text; else None.

    Texts are kept once for all GPUs: when another GPU's entries were made later, of other code, they are not these.
    """
    file, name = one.scope
    text = baseline.sources.get(file)
    if text is None or not entries:
        return None
    found = [kernel for kernel in analyze(text, file).kernels if kernel.name == name]
    if not found or found[-1].code_hash != entries[0].code_hash:
        return None
    missing = [each for each in one.texts if each not in baseline.sources]
    texts = {each: baseline.sources[each] for each in one.texts if each in baseline.sources}
    overlays = tuple(sorted(texts.items()))
    others = Subject(one.subject.root, file, text, found[-1], one.subject.calls,
                     tuple((f, t) for f, t in overlays if f != file))  # fmt: skip
    if site_hash(found[-1], others) != entries[0].site_hash:
        return None
    unchanged = not missing and all(texts[each] == now for each, now in one.texts.items())
    return RecordedVersion(found[-1], Program(one.subject.root, file, overlays), unchanged)


def site_hash(kernel: Kernel, subject: Subject) -> str:
    """Return a hash of the host functions that launch the kernel, in its own file and where its calls are."""
    parts = sorted(site.site_hash for site in kernel.launch_sites)
    texts = dict(subject.others)
    for file in sorted(texts):
        functions = sorted({call.function for call in subject.calls if call.file == file})
        parts += [f"{file} {name} {state}" for name, state in sorted(states(texts[file], functions).items())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def config_facts(config: Config) -> Mapping[str, Fact]:
    """Return how a launch computes, as plain values."""
    pairs = (*config.constexprs, *config.options)
    return {name: _fact(value) for name, value in pairs}


def _fact(value: Value) -> Fact:
    plain = isinstance(value, Scalar) and not (isinstance(value.value, float) and not math.isfinite(value.value))
    return value.value if isinstance(value, Scalar) and plain else wording.argument(value)  # JSON knows no infinity


def _inside(root: Path, path: Path) -> str | None:
    try:
        name = path.relative_to(root)
    except ValueError:
        return None
    return None if path.suffix != ".py" or _ELSEWHERE & set(name.parts) else name.as_posix()


def _text(path: Path) -> str | None:
    try:
        return decode_source(path.read_bytes())[0] if path.stat().st_size <= _LARGEST_SOURCE else None
    except OSError:
        return None
