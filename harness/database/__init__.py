"""The database of a run: its tables, the lookups' connection pool, the exactly-once sinks, the audit."""
