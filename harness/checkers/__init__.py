"""Checkers: one file for each invariant (V1 to V23) of `docs/reference/history.md`, over shared concepts."""
