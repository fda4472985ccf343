"""Trials that the build machine runs: the catalogue against its planted defects, a task killed at every phase."""
