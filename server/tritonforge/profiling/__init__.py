"""Measuring: timing protocol, ceilings, roofline → `Profile`."""
