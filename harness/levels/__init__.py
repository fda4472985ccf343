"""The levels of a run: what differs between simulation, live and Spark; the engine is the same."""
