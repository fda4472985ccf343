"""A user's own job under fire: what runs it, breaks it and records it, seen from outside (`floodmark job`).

A job is any program that reads records, asks a database and writes to a table. It is run unmodified by the level `job`
of the engine, and judged by its table and by the database's log of changes.
"""
