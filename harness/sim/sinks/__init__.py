"""Sinks of level sim: what becomes of what an operator emits, one file a kind."""
