"""Checkers: each invariant of `docs/reference/history.md` as one file, over notions that they share."""
