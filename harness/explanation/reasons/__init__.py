"""For each class of anomaly of `docs/history.md`, the facts that lead to its contradiction."""
