"""What a kind of fault is made of: the model that a scenario holds, its fields, and what workload faults share."""
