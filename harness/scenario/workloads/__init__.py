"""Workloads: deterministic sources and their expected results."""
