"""The `tritonforge` command: arguments in, exit code out; every error one sentence on stderr."""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback

import click

from tritonforge import __version__
from tritonforge.cli.commands import Commands
from tritonforge.domain.errors import TritonForgeError

EXIT_BUG = 70
EXIT_INTERRUPTED = 130
_EXIT_CODES = """\b
Exit codes: 0 fine; 1 the answer is no (findings at or above --fail-on,
a refused candidate, a regression, a failed doctor check); 2 wrong usage or
unreadable input; 3 target unreachable; 4 no launch known for a kernel that
was named; 70 a bug; 130 interrupted."""

_NUMBER = re.compile(r"is not a valid (float|integer)(?: range)?")
_NUMBERS = {"float": "is no number", "integer": "is no whole number"}


@click.group(
    cls=Commands, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="tritonforge")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks and what the worker says.")
@click.pass_context
def cli(context: click.Context, *, verbose: bool) -> None:
    """Find what holds a Triton kernel back, and get rewrites that were verified before you see them."""
    context.obj = {"verbose": verbose}


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments  # what follows is another command's
    verbose = "--verbose" in own or "-v" in own
    try:
        result = cli.main(arguments, prog_name="tritonforge", standalone_mode=False)
        sys.stdout.flush()
    except TritonForgeError as error:
        _say(str(error), verbose=verbose)
        return error.exit_code
    except click.exceptions.Abort:
        _say("interrupted.", verbose=False)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        _say("interrupted.", verbose=False)
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tritonforge"
        sentence = _NUMBER.sub(lambda found: _NUMBERS[found[1]], error.format_message().rstrip())
        sentence += "" if sentence.endswith((".", "?", "!")) else "."
        _say(f"{sentence} See '{command} --help'.", verbose=False)
        return 2
    except BrokenPipeError:
        # The reader (a pager, head) went away; nothing is wrong, and flushing at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001 - the last resort before a user would see a traceback
        _say(
            f"this is a bug in tritonforge ({type(error).__name__}: {error}). Run again with --verbose and report it.",
            verbose=verbose,
        )
        return EXIT_BUG
    return result if isinstance(result, int) else 0


def _say(sentence: str, *, verbose: bool) -> None:
    from tritonforge.cli.rendering import harmless

    click.echo(f"tritonforge: {harmless(sentence)}", err=True)
    if verbose:
        traceback.print_exc()
