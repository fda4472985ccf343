"""The task that a scenario's `task:` asks for: several inputs, and an operator with state by key before the lookups."""
