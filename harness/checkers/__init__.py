"""Checkers: each invariant of `spec/history.md` as one file, over notions that they share."""
