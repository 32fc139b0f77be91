"""The commands' names; editors and users' key bindings hold on to them."""

PROFILE = "tritonforge.profileKernel"
OPTIMIZE = "tritonforge.optimizeKernel"
RECORD = "tritonforge.recordLaunches"
APPLY = "tritonforge.applySuggestion"
WRITE_SPEC = "tritonforge.writeLaunchSpec"
CANCEL_JOB = "tritonforge.cancelJob"
SELECT_TARGET = "tritonforge.selectTarget"
PIN = "tritonforge.pinLaunch"
RESTART = "tritonforge.restart"

ALL = (OPTIMIZE, PROFILE, RECORD, WRITE_SPEC, APPLY, CANCEL_JOB, SELECT_TARGET, PIN, RESTART)
