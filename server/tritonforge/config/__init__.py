"""tritonforge.toml and editor settings → validated values, with defaults and clear errors."""
