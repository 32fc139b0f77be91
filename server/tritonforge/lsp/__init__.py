"""The only place that knows the language server protocol."""
