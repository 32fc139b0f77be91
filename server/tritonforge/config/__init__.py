"""tritonforge.toml and editor settings → validated values, with defaults and clear errors."""

from tritonforge.config.lines import ValuePlace
from tritonforge.config.load import load
from tritonforge.config.resolve import AUTO, resolve_target
from tritonforge.config.settings import (
    LOCAL,
    OFFLINE,
    LaunchTable,
    LlmSettings,
    SettingProblem,
    Settings,
)
from tritonforge.config.workspace import workspace_name, workspace_root

__all__ = [
    "AUTO",
    "LOCAL",
    "OFFLINE",
    "LaunchTable",
    "LlmSettings",
    "SettingProblem",
    "Settings",
    "ValuePlace",
    "load",
    "resolve_target",
    "workspace_name",
    "workspace_root",
]
