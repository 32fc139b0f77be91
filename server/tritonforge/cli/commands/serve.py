"""`tritonforge serve`: the language server."""

from __future__ import annotations

from importlib import import_module

import click

from tritonforge.domain.errors import UsageError


@click.command()
@click.option("--stdio", is_flag=True, help="Speak on standard input and output (the default).")
@click.option("--tcp", metavar="HOST:PORT", help="Serve one client on a socket instead; port 0 chooses a free one.")
def serve(*, stdio: bool, tcp: str | None) -> int:
    """Serve an editor over the Language Server Protocol.

    Editors start this themselves. It needs neither torch nor triton; kernels run in a worker of the interpreter that
    the editor names.
    """
    # By name: the terminal and the editor's protocol are two rooms, and neither imports the other.
    serving = import_module("tritonforge.lsp.serving")
    if tcp is None:
        return int(serving.serve_stdio())
    if stdio:
        raise UsageError("--stdio and --tcp exclude each other.")
    host, colon, port = tcp.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{tcp!r} is no address.", "Write it as 127.0.0.1:2087.")
    where = host.strip("[]") or "127.0.0.1"
    return int(serving.serve_tcp(where, int(port), lambda h, p: click.echo(f"listening on {h}:{p}", err=True)))
