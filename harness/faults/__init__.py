"""Faults: what is done to a run, one file a kind (decision 28)."""
