"""What simulated faults have in common: how they act on simulated links, and which messages they pick."""
