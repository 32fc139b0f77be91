"""The client of workers: submits jobs, follows their progress, cancels them, turns failures into typed errors."""
