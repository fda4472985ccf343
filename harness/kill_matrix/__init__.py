"""The kill matrix: every planted defect against every invariant, in situations drawn from a seed."""
