"""Turn a recorded launch back into one: for launches that repeating their call without its kernels does not make."""

from __future__ import annotations

from typing import Any

from tritonforge.domain.launch import Call, RecordedLaunch
from tritonforge.worker.launching import LaunchEvent, bind, scalar_option
from tritonforge.worker.loading import Loaded
from tritonforge.worker.rebuilding import rebuild


def event_of(launch: RecordedLaunch, loaded: Loaded) -> LaunchEvent | None:
    """Return the launch with arguments rebuilt on the CPU, or None when its kernel cannot be reached by its name.

    Raises:
        JobFailed: `unsupported`, when an argument cannot be rebuilt.
    """
    from triton.runtime.jit import JITFunction

    found: Any = loaded.module_of(launch.kernel_file)
    for part in launch.kernel.split("."):
        found = getattr(found, part, None)
    while found is not None and not isinstance(found, JITFunction):
        found = getattr(found, "fn", None)
    if found is None:
        return None
    given = (*launch.arguments, *launch.constexprs)
    call = Call("", launch.kernel_file, launch.kernel, (), given)
    arguments = rebuild(call, main=loaded.module, large_as_meta=True).keywords
    options = {name: scalar_option(value) for name, value in launch.options if name not in arguments}
    bound, resolved = bind(found, (), {**arguments, **options})
    return LaunchEvent(
        found, (), {**arguments, **options}, bound, resolved, launch.grid, None, autotuned=launch.autotuned
    )
