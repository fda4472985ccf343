"""The system under test: the lookup, the task and its coordination, and what an attempt does to itself as asked."""
