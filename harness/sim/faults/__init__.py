"""Faults of level sim: what each does to simulated links, servers and attempts, and what it counted of it."""
