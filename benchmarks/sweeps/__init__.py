"""Sweeps: one kernel in many configurations, timed, for fitting and testing the time model."""
