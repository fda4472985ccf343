"""Whether a history may happen, why not, and what it cost."""
