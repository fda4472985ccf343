"""Judges a history in shares, one a subtask, wherever each lies; the verdict is that of the whole (decision 0043)."""
