"""Scenarios: the model, its YAML form, the rules between its parts, and the catalogue."""
