"""The simulated world of a run at level sim: a virtual clock, links with latency, one database server, a tape.

Read `hub` (who goes on next), `link` (a statement on its way), `server` (sessions and locks). Nothing here knows
scenarios, faults or the operator: `harness.levels.sim` runs attempts in it, and faults act on it (decision 34).
"""
