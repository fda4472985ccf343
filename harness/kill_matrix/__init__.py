"""The kill matrix: which invariants convict which planted defects, in scenarios drawn from a seed."""
