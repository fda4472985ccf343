"""Histories: the events of one run, written and read in the forms that `docs/reference/history.md` defines."""
