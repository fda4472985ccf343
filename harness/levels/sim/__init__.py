"""Level sim: a whole run in one thread and in virtual time, every choice drawn from one seed."""
