"""`tritonforge doctor`: what works on a target, and the mend for what does not."""

from __future__ import annotations

from pathlib import Path

import click

from tritonforge.cli.running import Progress, emit, format_option, open_workspace, run, target_option
from tritonforge.config import workspace_root


@click.command()
@target_option()
@format_option()
def doctor(target_name: str | None, output_format: str) -> int:
    """Check that the target can compile, verify and (with a GPU) measure; exit with 1 when something needed is missing.

    Hardware counters and sampling are upgrades: what does not allow them is shown with the mend, and is no failure.
    """
    return run(_doctor(target_name, output_format))


async def _doctor(target_name: str | None, output_format: str) -> int:
    from tritonforge.diagnosis.doctor import examine
    from tritonforge.report.json_doctor import doctor_json
    from tritonforge.report.text_doctor import doctor_text

    workspace = open_workspace(workspace_root(Path.cwd()))
    with Progress() as progress:
        progress.say("examining the target …")
        result = await examine(workspace.settings, target_name, workspace.store)
    emit(output_format, lambda: doctor_json(result), lambda width: doctor_text(result, width=width))
    return 0 if result.ok else 1
