"""The machine as we use it: errors, clock, randomness, whole files, processes."""
