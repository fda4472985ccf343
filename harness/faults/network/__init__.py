"""Faults of a link: what is done to the bytes and the connections between a client and the database."""
