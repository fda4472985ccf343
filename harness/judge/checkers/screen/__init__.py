"""The screen: one fast pass over a history that proves invariants of regular histories; it never convicts."""
