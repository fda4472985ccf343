"""The simulated world of a run at level sim: a virtual clock, links, one database server, an event tape.

Read `hub` (scheduling), `link` (statements in flight), `server` (sessions and locks). This package knows no
scenario, fault or operator: `harness.levels.sim` runs attempts in it, and faults act on it (decision 34).
"""
