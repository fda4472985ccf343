"""State whose values have a life: after it they are gone, whoever cleans them up (S11-S17)."""
