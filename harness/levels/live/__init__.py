"""Level `live`: each subtask runs the task in a plain Python process, without Spark."""
