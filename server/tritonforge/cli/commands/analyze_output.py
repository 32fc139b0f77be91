"""The report of `analyze` on stdout, in the format asked for; on a code host also the summary of the job."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

from tritonforge import __version__
from tritonforge.cli.code_host import append_summary, repository
from tritonforge.cli.rendering import print_json, print_lines, speak_utf8, text_width
from tritonforge.cli.selecting import Selected
from tritonforge.domain.results import AnalyzeResult
from tritonforge.report.json_analyze import analyze_json
from tritonforge.report.text_analyze import analyze_text


def print_report(
    output_format: str, result: AnalyzeResult, files: Sequence[Selected], root: Path, *, show_ignored: bool = False
) -> None:
    """Print `result` of `files`, found in the workspace `root`; text lists what is ignored where that is asked for."""
    base, prefix = repository(root)
    if output_format != "text":
        speak_utf8()
    if output_format == "text":
        print_lines(analyze_text(result, width=text_width(), show_ignored=show_ignored))
    elif output_format == "json":
        print_json(analyze_json(result))
    elif output_format == "sarif":
        from tritonforge.report.sarif import analyze_sarif

        log = analyze_sarif(
            result, root=base.as_uri(), prefix=prefix, version=__version__, documentation=_documentation()
        )
        print_json(log)
    elif output_format == "github":
        from tritonforge.report.github import analyze_commands, analyze_summary

        sys.stdout.writelines(f"{command}\n" for command in analyze_commands(result, prefix))
        append_summary(analyze_summary(result, prefix))
    else:
        from tritonforge.report.html_analyze import analyze_html

        sys.stdout.write(analyze_html(result, {file.analysis.file: file.text for file in files}, version=__version__))


def _documentation() -> str | None:
    """Return where the documentation is on the web, as the installed package says; None where it does not."""
    try:
        urls = importlib.metadata.metadata("tritonforge").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    known = {label.strip().lower(): url.strip() for label, _, url in (str(one).partition(",") for one in urls)}
    return known.get("documentation")
