"""The database as a run uses it: its tables, the pool of the lookups, the exactly-once sink, the audit."""
