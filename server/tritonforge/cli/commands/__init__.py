"""One module for each command, imported when it is used: an editor waits for `serve`, and people for `--help`."""

from __future__ import annotations

import difflib
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Offer the nearest command for one that there is not."""
        name = args[0]
        if name not in NAMES and not name.startswith("-"):
            close = difflib.get_close_matches(name, NAMES, n=1)
            mend = f"Did you mean '{close[0]}'?" if close else f"Commands: {', '.join(NAMES)}."
            raise click.UsageError(f"No such command '{name}'. {mend}", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        if cmd_name not in NAMES:
            return None
        found = getattr(import_module(f"tritonforge.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command)
        if not any(one.name == _VERBOSE for one in found.params):
            found.params.append(_verbose_option(cmd_name))
        return found


_VERBOSE = "verbose"
_LISTED = {"verify": "List every input. ", "profile": "Show every launch in full. "}


def _verbose_option(command: str) -> click.Option:
    """Return `--verbose` for behind a command's name, where most people write it."""

    def told(context: click.Context, _option: click.Parameter, value: bool) -> None:
        if value:
            (context.find_root().ensure_object(dict))[_VERBOSE] = True

    help_text = f"{_LISTED.get(command, '')}With an error, show the traceback."
    return click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=told, help=help_text)
