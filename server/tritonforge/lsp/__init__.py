"""The language server: the only place that knows the Language Server Protocol. `docs/editor.md` is its contract."""
