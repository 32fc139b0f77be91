"""One module for each command; this is their list, in the order of `--help`."""

from tritonforge.cli.commands.analyze import analyze
from tritonforge.cli.commands.doctor import doctor
from tritonforge.cli.commands.optimize import optimize
from tritonforge.cli.commands.profile import profile
from tritonforge.cli.commands.serve import serve
from tritonforge.cli.commands.verify import verify

COMMANDS = (analyze, profile, optimize, verify, doctor, serve)
