"""More ways for a job to misbehave: stopped processes, deaf children, many children. Runs in the worker, no torch."""

import os
import signal
import subprocess
import sys
import time

import worker_core_handlers as usual

from tritonforge.domain.messages import Record

DEAF = (
    "import os, signal, time\n"
    "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)\n"
    "os.setsid()\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(1000)\n"
)


def stop_itself(request, context, argument):
    context.progress("stopping")
    os.kill(os.getpid(), signal.SIGSTOP)
    return "went on"


def started(program):
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child


def deaf_child(request, context, argument):
    child = started(DEAF)
    context.progress(str(child.pid))
    child.wait()


def stopped_child(request, context, argument):
    child = started(DEAF)
    os.kill(child.pid, signal.SIGSTOP)
    context.progress(str(child.pid))
    child.wait()


def orphans(request, context, argument):
    """Leave children of children behind: each ignores signals, is a session of its own, and has lost its parent."""
    for _ in range(int(argument)):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(1000)
            os._exit(0)
        os.wait()
    return "left them"


def zombies(request, context, argument):
    """Start children that end at once, and never wait for them."""
    for _ in range(int(argument)):
        if os.fork() == 0:
            os._exit(0)
    return "not waited for"


usual.ACTIONS.update(
    {
        "stop": stop_itself,
        "deaf-child": deaf_child,
        "stopped-child": stopped_child,
        "orphans": orphans,
        "zombies": zombies,
        "alarm": lambda r, c, a: (signal.alarm(1), time.sleep(30)),
    }
)
prepare = usual.prepare
HANDLERS = {**usual.HANDLERS, Record: usual.record}
