"""A scenario: workload, operator settings, faults and what is expected, as a model and as a YAML file."""
