"""Checkers: each invariant of `docs/history.md` as one file, over notions that they share."""
