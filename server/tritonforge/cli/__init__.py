"""The only place that knows the terminal."""
