"""A scenario's `task`: one or two inputs, and an operator with keyed state in front of the lookups."""
