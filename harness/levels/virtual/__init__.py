"""Level `job` in virtual time: the job, its proxy and the harness around it on one simulated clock."""
