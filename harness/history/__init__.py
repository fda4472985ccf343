"""Histories: what one run left behind, as events, and the text form of `docs/reference/history.md`."""
