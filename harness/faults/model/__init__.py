"""The base classes of faults, their shared fields, and the registry of all kinds."""
