"""Faults of processes: a worker that dies, stops, or is taken for dead while it lives."""
