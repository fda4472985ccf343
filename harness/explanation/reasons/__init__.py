"""For each class of anomaly of `docs/reference/history.md`, the facts that lead to its contradiction."""
