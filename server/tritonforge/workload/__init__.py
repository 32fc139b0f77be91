"""Finding and describing calls and launches: specs, recordings, value recipes."""
