"""Benches and makers of pages: for this repository, not in the wheel."""
