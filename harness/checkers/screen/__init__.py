"""The screen: one pass over a history that acquits what is regular, and never convicts."""
