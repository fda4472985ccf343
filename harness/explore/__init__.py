"""Random runs: draws scenarios from seeds, runs and judges many of them; each can be repeated from a scenario file."""
