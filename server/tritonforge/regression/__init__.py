"""Baselines and the noise model behind `check`."""
