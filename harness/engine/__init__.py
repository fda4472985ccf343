"""The engine: what runs one scenario, the same at every level."""
