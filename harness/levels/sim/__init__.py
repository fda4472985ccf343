"""Level sim: a run in virtual time, over simulated connections to a simulated database server."""
