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
VERIFY = "tritonforge.verifyCandidate"
KEEP_PORTABLE = "tritonforge.keepPortable"
LIST_KERNELS = "tritonforge.listKernels"
PROFILE_ALL = "tritonforge.profileKernels"
OPTIMIZE_ALL = "tritonforge.optimizeKernels"
PREVIEW = "tritonforge.previewSuggestion"
DISCARD = "tritonforge.discardSuggestion"
DESCRIBE_TARGET = "tritonforge.describeTarget"
DOCTOR = "tritonforge.doctor"
REPORT = "tritonforge.showReport"
SHOW_SUGGESTION = "tritonforge.showSuggestion"
"""Not one of ours: a client that said `previews` has it."""

ALL = (
    OPTIMIZE, PROFILE, RECORD, WRITE_SPEC, APPLY, CANCEL_JOB, SELECT_TARGET, PIN, RESTART, VERIFY, KEEP_PORTABLE,
    LIST_KERNELS, PROFILE_ALL, OPTIMIZE_ALL, PREVIEW, DISCARD, DESCRIBE_TARGET, DOCTOR, REPORT,
)  # fmt: skip
