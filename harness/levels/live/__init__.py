"""Level `live`: the same task in a plain Python process a subtask, without Spark."""
