"""Workloads: deterministic sources, one file a kind."""
