"""The time model: `Compilation` + `Launch` + ceilings → a predicted time with an interval."""
