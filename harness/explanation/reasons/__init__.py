"""For each class of anomaly in `docs/history.md`, a function that builds its explanation."""
