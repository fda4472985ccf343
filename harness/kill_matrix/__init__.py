"""The kill matrix: every planted defect against every invariant, in scenarios drawn from a seed."""
