"""The faults that a scenario can inject, one file for each kind (decision 28)."""
