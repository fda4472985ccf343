"""Benchmarks and generators of documentation pages; only for this repository, not in the wheel."""
