"""Faults: what is done to the world or to a worker, one file each; each heals, each leaves evidence."""
