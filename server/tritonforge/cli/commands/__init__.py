"""One module for each command, imported when it is used: an editor waits for `serve`, and people for `--help`."""

from __future__ import annotations

from importlib import import_module

import click

NAMES = ("analyze", "trace", "profile", "optimize", "verify", "check", "export", "watch", "doctor", "serve")
"""In the order of `--help`."""


class Commands(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return their names."""
        return list(NAMES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with the whole first sentence of its help, over several lines where it is long."""
        rows = [(name, (self.get_command(ctx, name) or self).get_short_help_str(limit=200)) for name in NAMES]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        if cmd_name not in NAMES:
            return None
        found = getattr(import_module(f"tritonforge.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command)
        return found
