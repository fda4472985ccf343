"""Planted defects at level sim: what each replaces, in which situations it shows, and canaries for the judge."""
