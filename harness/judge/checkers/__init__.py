"""Checkers: one file for each invariant (V1 to V24) of `docs/reference/history.md`, over shared concepts."""
