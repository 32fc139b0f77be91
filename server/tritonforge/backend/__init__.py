"""A process of its own for each target that an editor's jobs run on, so that nobody who types waits for a search."""
