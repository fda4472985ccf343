"""Faults of the workload: in what the source sends, and in how its calls end; here are their words and evidence."""
