"""`tritonforge profile PATH --report FILE.ncu-rep`: what somebody else's Nsight Compute run says of one's kernels."""

from __future__ import annotations

from pathlib import Path

from tritonforge import __version__
from tritonforge.cli.running import Progress, emit, is_verbose
from tritonforge.cli.selecting import select
from tritonforge.domain.kernel_report import Listing


def show_report(path: str, report: Path, output_format: str) -> int:
    """Profile the kernels of `path` (a file, a folder or `FILE::KERNEL`) from a report; returns the exit code.

    Raises:
        UsageError: for a path without kernels, a report without launches of them, and one that cannot be read.
    """
    from tritonforge.diagnosis.profile_report import Source, profile_report
    from tritonforge.report.html_report import report_html
    from tritonforge.report.json_profile import profile_json
    from tritonforge.report.kernel_report import of_profiles
    from tritonforge.report.text_profile import profile_text

    sources = [Source(one.analysis.file, one.text, one.kernels) for one in select([path])]
    codes: list[Listing] = []
    with Progress() as progress:
        progress.say(f"reading {report} …")
        result = profile_report(report, sources, lambda _, code: codes.append(code))
    texts = {source.path: source.text for source in sources}
    emit(
        output_format,
        lambda: profile_json(result),
        lambda width: profile_text(result, texts, width=width, every=is_verbose()),
        lambda: report_html(of_profiles(result, texts, codes), version=__version__, title=report.name),
    )
    return 0
